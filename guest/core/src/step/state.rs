//! The bytes of a candidate's state between two steps: the number of their format, and `postcard`
//! data. Only the same version of the component reads them.
//!
//! Events that wait for a step that can run may precede the state: see
//! [`postponed`](super::postponed).

use super::report::Event;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tenure_base::prelude::*;

/// Marks waiting events. No version uses this number as its format.
const POSTPONED: u8 = u8::MAX;

/// Encodes a value after the number of its format.
pub fn encode<T: Serialize>(format: u8, value: &T) -> Vec<u8> {
    // Encoding fails only for types of unknown length, which no state has. An empty state is
    // equivalent to none.
    postcard::to_extend(value, vec![format]).unwrap_or_default()
}

/// Decodes a value from all of the bytes. None if they are damaged.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(value)
}

/// The waiting events, and the state of the last step that ran.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Postponed {
    pub events: Vec<Event>,
    pub state: Vec<u8>,
}

impl Postponed {
    pub fn to_bytes(&self) -> Vec<u8> {
        encode(POSTPONED, self)
    }

    pub fn from_bytes(state: &[u8]) -> Self {
        match state.split_first() {
            Some((&POSTPONED, rest)) => decode(rest).unwrap_or_default(),
            _ => Self { events: Vec::new(), state: state.into() },
        }
    }
}
