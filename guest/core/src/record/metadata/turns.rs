//! The turns on the record.

use core::time::Duration;

use crate::record::text::{LONGEST_NAME, LONGEST_REASON, is_allowed_text, is_plain};
use crate::schedule::slots::Delivery;
use crate::step::clocks::Timestamp;
use serde::{Deserialize, Serialize};
use tenure_base::prelude::*;

/// The outcome of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The handler returned ok.
    Succeeded,
    /// The handler returned an error.
    Failed,
    /// The handler trapped, panicked, or could not be started.
    Trapped,
    /// The host stopped the turn at its time limit.
    TimedOut,
    /// The host cancelled the turn.
    CutOff,
    /// There are no attempts left.
    Abandoned,
    /// The turn was claimed, and never started.
    NotStarted,
}

impl Outcome {
    pub(super) const ALL: [Self; 7] = [
        Self::Succeeded,
        Self::Failed,
        Self::Trapped,
        Self::TimedOut,
        Self::CutOff,
        Self::Abandoned,
        Self::NotStarted,
    ];

    /// Returns true if at-least-once delivery is finished with a slot of this outcome.
    pub(crate) fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Abandoned)
    }

    /// Returns its name, in the WIT package and on the record.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Trapped => "trapped",
            Self::TimedOut => "timed-out",
            Self::CutOff => "cut-off",
            Self::Abandoned => "abandoned",
            Self::NotStarted => "not-started",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == text)
    }
}

/// The kind of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// A slot of the schedule.
    Slot,
    /// A trigger.
    Trigger,
}

impl Kind {
    /// Returns the kind of a turn for this trigger, if there is one.
    pub(crate) fn from_trigger(trigger: Option<&String>) -> Self {
        if trigger.is_some() { Self::Trigger } else { Self::Slot }
    }
}

/// The newest slot that was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastSlot {
    /// The scheduled instant.
    pub slot: Timestamp,
    /// Number of attempts; 0 for the slot with which the count began, which lay before the first
    /// leader and was never run.
    pub attempt: u32,
}

/// The newest turn whose end was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// Its slot.
    pub slot: Timestamp,
    /// Its outcome.
    pub outcome: Outcome,
}

/// The outcome of a turn, and when it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The outcome.
    pub outcome: Outcome,
    /// Time at which the leader observed the end, by the service's clock; a second too early at
    /// most.
    pub at: Timestamp,
    /// Duration of the turn. None if it never started, or if no leader observed its end.
    pub took: Option<Duration>,
}

impl End {
    /// Rounds to milliseconds, the precision of the record.
    pub(super) fn in_millis(self) -> Self {
        let truncate =
            |took: Duration| took - Duration::from_nanos((took.subsec_nanos() % 1_000_000).into());
        Self { at: self.at.to_whole_millis(), took: self.took.map(truncate), ..self }
    }
}

/// The newest successful turn, or the newest unsuccessful one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Its slot.
    pub slot: Timestamp,
    /// True if it ran for a trigger.
    pub triggered: bool,
    /// Its end.
    pub end: End,
}

impl Ended {
    /// Returns slot, end, milliseconds, outcome, and whether it ran for a trigger.
    pub(super) fn to_text(self) -> String {
        let Self { slot, triggered, end: End { outcome, at, took } } = self;
        let took = took.map(|took| took.as_millis().to_string()).unwrap_or_default();
        let (slot, at) = (slot.to_rfc3339(), at.to_rfc3339());
        let trigger = if triggered { "/trigger" } else { "" };
        format!("{slot}/{at}/{took}/{}{trigger}", outcome.name())
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let mut next_part = || parts.next();
        let (slot, at) = (Timestamp::parse(next_part()?)?, Timestamp::parse(next_part()?)?);
        let took = next_part()?.parse().ok().map(Duration::from_millis);
        let end = End { outcome: Outcome::parse(next_part()?)?, at, took };
        Some(Self { slot, triggered: next_part() == Some("trigger"), end })
    }
}

/// The candidate and the reason of the newest failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureDetail {
    /// The `at` of that failure. A leader that does not know this field may have recorded another
    /// failure since.
    pub at: Timestamp,
    /// The name of the candidate that reported the failure.
    pub candidate: String,
    /// The beginning of the reason, in one line; empty if there is none.
    pub reason: String,
}

impl FailureDetail {
    /// Returns three lines.
    pub(super) fn to_text(&self) -> String {
        format!("{}\n{}\n{}", self.at.to_rfc3339(), self.candidate, self.reason)
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.splitn(3, '\n');
        let mut next_line = || lines.next();
        let (at, candidate, reason) = (Timestamp::parse(next_line()?)?, next_line()?, next_line()?);
        let is_valid = is_allowed_text(candidate, LONGEST_NAME)
            && reason.len() <= LONGEST_REASON
            && is_plain(reason);
        is_valid.then(|| Self { at, candidate: candidate.into(), reason: reason.into() })
    }
}

/// The slots without a turn before the newest claimed slot that had any before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissedSlots {
    /// The slot that was claimed after them.
    pub slot: Timestamp,
    /// Their number, up to 1000.
    pub count: u32,
}

impl MissedSlots {
    pub(super) fn to_text(self) -> String {
        format!("{}/{}", self.slot.to_rfc3339(), self.count)
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let (slot, count) = text.split_once('/')?;
        Some(Self { slot: Timestamp::parse(slot)?, count: count.parse().ok()? })
    }
}

/// The newest turn for a trigger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The id of the trigger.
    pub id: String,
    /// Time of the request.
    pub slot: Timestamp,
    /// Number of attempts.
    pub attempt: u32,
    /// The delivery rule under which it was claimed.
    pub delivery: Delivery,
    /// Outcome of the newest attempt, if on record.
    pub outcome: Option<Outcome>,
}

impl Started {
    /// Returns its newest attempt.
    pub(crate) fn claim(&self) -> LastSlot {
        LastSlot { slot: self.slot, attempt: self.attempt }
    }
}
