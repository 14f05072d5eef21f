//! What the record tells of turns.

use core::time::Duration;

use super::super::service_clock::Timestamp;
use super::super::slots::Delivery;
use super::super::text::{LONGEST_NAME, LONGEST_REASON, is_allowed_text, is_plain};
use serde::{Deserialize, Serialize};
use tenure_base::prelude::*;

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The handler returned ok.
    Succeeded,
    /// The handler returned an error.
    Failed,
    /// The handler trapped, panicked, or could not be started.
    Trapped,
    /// The host stopped it at its time limit.
    TimedOut,
    /// The host cut it off.
    CutOff,
    /// There are no attempts left.
    Abandoned,
    /// It was claimed, and never began.
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

    /// Whether at-least-once delivery is done with a slot that ended so.
    pub(crate) fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Abandoned)
    }

    /// Its name, as the WIT package spells it and the record has it.
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

/// What a turn is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// A slot of the schedule.
    Slot,
    /// A trigger.
    Trigger,
}

impl Kind {
    /// The kind of a turn for this trigger, if there is one.
    pub(crate) fn from_trigger(trigger: Option<&String>) -> Self {
        if trigger.is_some() { Self::Trigger } else { Self::Slot }
    }
}

/// The newest slot that was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastSlot {
    /// The scheduled instant.
    pub slot: Timestamp,
    /// How often it was tried; 0 for the slot with which the count began, which
    /// lay before the first leader and was never run.
    pub attempt: u32,
}

/// The newest turn whose end was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// Its slot.
    pub slot: Timestamp,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a turn ended, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// How it ended.
    pub outcome: Outcome,
    /// When the leader heard of that, by the service's clock; a second too early at most.
    pub at: Timestamp,
    /// How long it ran. None: it never began, or nobody saw its end.
    pub took: Option<Duration>,
}

impl End {
    /// As the record tells it, which has milliseconds.
    pub(super) fn in_millis(self) -> Self {
        let truncate =
            |took: Duration| took - Duration::from_nanos((took.subsec_nanos() % 1_000_000).into());
        Self { at: self.at.to_whole_millis(), took: self.took.map(truncate), ..self }
    }
}

/// The newest turn that ended well, or the newest that did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Its slot.
    pub slot: Timestamp,
    /// It ran for a trigger.
    pub triggered: bool,
    /// Its end.
    pub end: End,
}

impl Ended {
    /// Slot, end, milliseconds, outcome, and whether it ran for a trigger.
    pub(super) fn to_text(&self) -> String {
        let Self { slot, triggered, end: End { outcome, at, took } } = self;
        let took = took.map(|took| took.as_millis().to_string()).unwrap_or_default();
        let (slot, at) = (slot.to_rfc3339(), at.to_rfc3339());
        let trigger = if *triggered { "/trigger" } else { "" };
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
    /// The `at` of that failure. A leader that does not know this field may have recorded another failure since.
    pub at: Timestamp,
    /// The name of the candidate that reported the failure.
    pub candidate: String,
    /// The beginning of the reason, in one line; empty if there is none.
    pub reason: String,
}

impl FailureDetail {
    /// Three lines.
    pub(super) fn to_text(&self) -> String {
        format!("{}\n{}\n{}", self.at.to_rfc3339(), self.candidate, self.reason)
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.splitn(3, '\n');
        let mut next_line = || lines.next();
        let (at, candidate, reason) = (Timestamp::parse(next_line()?)?, next_line()?, next_line()?);
        let is_valid =
            is_allowed_text(candidate, LONGEST_NAME) && reason.len() <= LONGEST_REASON && is_plain(reason);
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
    pub(super) fn to_text(&self) -> String {
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
    /// When it was asked for.
    pub slot: Timestamp,
    /// How often it was tried.
    pub attempt: u32,
    /// The rule under which it was claimed.
    pub delivery: Delivery,
    /// How the newest attempt ended, where that is on record.
    pub outcome: Option<Outcome>,
}

impl Started {
    /// Its newest attempt.
    pub(crate) fn claim(&self) -> LastSlot {
        LastSlot { slot: self.slot, attempt: self.attempt }
    }
}
