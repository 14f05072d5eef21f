//! The bytes of a candidate's state between two steps: the number of their format, and what `postcard`
//! writes. Only the same version of the component reads them.

use serde::{Serialize, de::DeserializeOwned};
use tenure_base::prelude::*;

/// A value behind the number of its format.
pub fn written<T: Serialize>(format: u8, value: &T) -> Vec<u8> {
    // It fails for types of unknown length alone, which no state has; an empty one is as good as none.
    postcard::to_extend(value, vec![format]).unwrap_or_default()
}

/// The value that all of the bytes are; none if they are damaged.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(value)
}
