//! Text that nobody is to see.

use core::fmt;

use zeroize::Zeroize;

use serde::{Deserialize, Serialize};
use tenure_base::prelude::*;

/// A secret. `Debug` prints nothing of it; its memory is overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
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
