//! The newest turn of a candidate.

use crate::contract::rfc3339;
use crate::runner::{Event, milliseconds};
use serde::Serialize;

/// A turn, as far as it has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LastTurn {
    /// RFC 3339.
    pub slot: String,
    /// The id of the trigger that it runs for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// The fencing token under which it runs.
    pub term: u64,
    /// None while it runs.
    pub outcome: Option<String>,
    /// How long it ran; none while it does.
    pub elapsed_ms: Option<u64>,
    /// What was told of its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl LastTurn {
    /// What an event tells of a turn.
    pub(super) fn of(event: &Event) -> Option<Self> {
        match event {
            Event::TurnStarted { turn } => Some(Self {
                slot: rfc3339(turn.slot),
                trigger: turn.trigger.clone(),
                term: turn.term,
                outcome: None,
                elapsed_ms: None,
                detail: None,
            }),
            Event::TurnEnded { turn, end, elapsed, .. } => Some(Self {
                slot: rfc3339(turn.slot),
                trigger: turn.trigger.clone(),
                term: turn.term,
                outcome: Some(end.to_string()),
                elapsed_ms: Some(milliseconds(*elapsed)),
                detail: end.detail().map(str::to_owned),
            }),
            _ => None,
        }
    }
}
