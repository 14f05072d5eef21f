//! Secret text.

use core::fmt;

use zeroize::Zeroize;

use tenure_base::prelude::*;

/// A secret. `Debug` prints nothing of it, and its memory is overwritten on drop. Only a field that
/// opts in can serialise it: see [`revealed`].
///
/// ```compile_fail,E0277
/// let secret = tenure_azure::secret::Secret::from("key");
/// let text = serde_json::to_string(&secret);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Returns the text, for sending only.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        String::from(text).into()
    }
}

impl Drop for Secret {
    // Secrets are dropped in many places, and inlining would enlarge the component.
    #[inline(never)]
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Serialisation by `#[serde(with = "tenure_azure::secret::revealed")]`, for the state of a
/// candidate between steps. That state is as secret as the text itself.
pub mod revealed {
    use super::Secret;
    use serde::{Deserialize, Deserializer, Serializer};
    use tenure_base::prelude::*;

    /// Writes the text.
    ///
    /// # Errors
    /// Fails if the serializer fails.
    pub fn serialize<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.reveal())
    }

    /// Reads the text.
    ///
    /// # Errors
    /// Fails if the deserializer fails.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret::from)
    }
}
