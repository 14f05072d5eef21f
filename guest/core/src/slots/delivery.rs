//! How often a slot is run.

use serde::{Deserialize, Serialize};

/// How often a slot is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Delivery {
    /// Once, whatever becomes of the turn.
    #[default]
    AtMostOnce,
    /// Again until a turn succeeds, by whoever leads.
    AtLeastOnce {
        /// After so many turns the slot is abandoned.
        max_attempts: u32,
    },
}
