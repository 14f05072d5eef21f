//! The values that had their turn.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tenure_base::prelude::*;

/// So many values are remembered, so that none of them runs again.
const MOST_VALUES: usize = 32;

/// Values that had their turn, the newest last: more than one, because a leader of an earlier
/// release may come back. Kept as 64 bits of each; two that are confused are once in 10¹⁷.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Values(pub(super) Vec<u64>);

impl Values {
    /// Whether `value` had its turn.
    pub fn contain(&self, value: &str) -> bool {
        self.0.contains(&fingerprint(value))
    }

    /// Adds one, and forgets the oldest of too many.
    pub fn add(&mut self, value: &str) {
        self.0.retain(|known| *known != fingerprint(value));
        self.0.push(fingerprint(value));
        self.forget();
    }

    /// Forgets the oldest of too many.
    fn forget(&mut self) {
        let excess = self.0.len().saturating_sub(MOST_VALUES);
        self.0.drain(..excess);
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let value = |word| u64::from_str_radix(word, 16).ok();
        let mut values = text.split('.').map(value).collect::<Option<_>>().map(Self)?;
        values.forget();
        Some(values)
    }

    pub(super) fn write(&self) -> String {
        self.0.iter().map(|value| format!("{value:016x}")).collect::<Vec<_>>().join(".")
    }
}

/// The first 64 bits of the SHA-256.
pub(crate) fn fingerprint(text: &str) -> u64 {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().take(8).fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}
