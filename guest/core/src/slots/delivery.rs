//! The delivery rule of a slot.

use serde::{Deserialize, Serialize};

/// The number of times that a slot is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Delivery {
    /// Once, regardless of the outcome.
    #[default]
    AtMostOnce,
    /// Again until a turn succeeds, also under the next leaders.
    AtLeastOnce {
        /// Number of turns after which the slot is abandoned.
        max_attempts: u32,
    },
}
