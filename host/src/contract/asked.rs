//! What became of a trigger, as the listener tells it, and whoever asks there reads it.

use super::types::TriggerState;
use super::{outcome_name, rfc3339};
use serde::{Deserialize, Serialize};

/// What became of a trigger: as `trigger-state` in the WIT, in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum TriggerTold {
    /// It waits for its turn.
    Waiting {
        /// Not claimed up to then, it will have none. RFC 3339.
        until: String,
    },
    /// Its turn was claimed, and is not over.
    Claimed {
        /// By the leader of this term.
        term: u64,
    },
    /// Its turn is over.
    Ended {
        /// How it ended, as the WIT spells it.
        outcome: String,
    },
    /// Its turn was claimed, and nobody will say how it ended.
    Unknown,
    /// Nobody knows of it.
    Missing,
}

impl From<TriggerState> for TriggerTold {
    fn from(state: TriggerState) -> Self {
        match state {
            TriggerState::Waiting(until) => Self::Waiting { until: rfc3339(until) },
            TriggerState::Claimed(term) => Self::Claimed { term },
            TriggerState::Ended(outcome) => {
                Self::Ended { outcome: outcome_name(outcome).to_owned() }
            }
            TriggerState::Unknown => Self::Unknown,
            TriggerState::Missing => Self::Missing,
        }
    }
}
