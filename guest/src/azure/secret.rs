//! Text that nobody is to see.

use core::fmt;

use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use crate::prelude::*;

/// A secret. `Debug` prints nothing of it; its memory is overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Secret(String);

impl Secret {
    /// The text, to be sent and to be shown to nobody.
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

impl From<Secret> for String {
    fn from(mut secret: Secret) -> Self {
        core::mem::take(&mut secret.0)
    }
}

impl Drop for Secret {
    // In one place: it is dropped in very many.
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
