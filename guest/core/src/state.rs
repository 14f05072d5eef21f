//! The bytes of a candidate's state between two steps: the number of their format, and what `postcard`
//! writes. Only the same version of the component reads them.
//!
//! In front of the state may stand events that wait for a step that can be made: see
//! [`postponed`](super::postponed).

use super::report::Event;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tenure_base::prelude::*;

/// What events that wait begin with; no version of another one has this number.
const POSTPONED: u8 = u8::MAX;

/// A value behind the number of its format.
pub fn encode<T: Serialize>(format: u8, value: &T) -> Vec<u8> {
    // It fails for types of unknown length alone, which no state has; an empty one is as good as none.
    postcard::to_extend(value, vec![format]).unwrap_or_default()
}

/// The value that all of the bytes are; none if they are damaged.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(value)
}

/// What waits, and the state of the last step that was made.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Postponed {
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
