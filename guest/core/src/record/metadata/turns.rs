//! The turns and triggers on the record. protocol.md §6, §6.1.

use core::time::Duration;

use crate::record::text::{MAX_NAME, MAX_REASON, fingerprint, is_allowed_text, is_plain};
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

    /// Returns true if a slot with this outcome needs no further attempt, with at-least-once
    /// delivery.
    pub(crate) fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Abandoned)
    }

    /// Returns the outcome's name in the WIT package and on the record.
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
    /// Number of the newest attempt, from 1. The slot with which the count began has 0: it lay
    /// before the first leader and was never run.
    pub attempt: u32,
}

/// The newest turn whose end was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// The slot of the turn.
    pub slot: Timestamp,
    /// The outcome of the turn.
    pub outcome: Outcome,
}

/// The end of a turn.
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
    /// Truncates the times to milliseconds, the precision of the record.
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
    /// Returns `SLOT/END/MILLISECONDS/OUTCOME`, with `/trigger` added for a trigger's turn.
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
    /// The `at` of that failure. If the newest failure has another `at`, this detail is dropped: a
    /// leader whose version does not know details recorded that failure.
    pub at: Timestamp,
    /// The name of the candidate that reported the failure.
    pub candidate: String,
    /// The beginning of the reason, in one line; empty if there is none.
    pub reason: String,
}

impl FailureDetail {
    /// Returns one line each for the instant, the candidate and the reason.
    pub(super) fn to_text(&self) -> String {
        format!("{}\n{}\n{}", self.at.to_rfc3339(), self.candidate, self.reason)
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.splitn(3, '\n');
        let mut next_line = || lines.next();
        let (at, candidate, reason) = (Timestamp::parse(next_line()?)?, next_line()?, next_line()?);
        let is_valid =
            is_allowed_text(candidate, MAX_NAME) && reason.len() <= MAX_REASON && is_plain(reason);
        is_valid.then(|| Self { at, candidate: candidate.into(), reason: reason.into() })
    }
}

/// The newest slots without a turn: those between two slots that were claimed one after the other.
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
    /// Time at which the trigger was placed, by the service's clock.
    pub slot: Timestamp,
    /// Number of the newest attempt, from 1.
    pub attempt: u32,
    /// The delivery rule under which the trigger was claimed.
    pub delivery: Delivery,
    /// Outcome of the newest attempt, if it is on record.
    pub outcome: Option<Outcome>,
}

impl Started {
    /// Returns the claim of the newest attempt.
    pub(crate) fn claim(&self) -> LastSlot {
        LastSlot { slot: self.slot, attempt: self.attempt }
    }
}

/// Age at which an unclaimed trigger expires.
pub(crate) const EXPIRES_AFTER: Duration = Duration::from_secs(60 * 60);

/// Number of remembered triggers before the newest one. A repeated command starts no second turn
/// for a remembered trigger.
const MAX_EARLIER: usize = 16;

/// A request for a turn outside the schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// Idempotency key.
    pub id: String,
    /// Time at which the trigger was placed, by the service's clock. It is later than that of every
    /// earlier trigger.
    pub requested_at: Timestamp,
}

impl Trigger {
    /// Returns the time until which the trigger may be claimed.
    pub fn expires_at(&self) -> Timestamp {
        self.requested_at.plus(EXPIRES_AFTER)
    }
}

/// The claimed triggers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Triggers {
    /// The newest.
    pub newest: Option<Started>,
    /// The term in which its newest attempt was claimed.
    pub term: u64,
    /// Fingerprints of the ids of the triggers before the newest one, the newest last, with the
    /// outcomes of their turns, if known.
    pub(super) earlier: Vec<(u64, Option<Outcome>)>,
}

/// The state of a trigger. Each case means the same as its namesake in `wit/types.wit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerState {
    /// The trigger waits for its turn, until this instant.
    Waiting(Timestamp),
    /// Its turn was claimed in this term.
    Claimed(u64),
    /// Its turn is over.
    Ended(Outcome),
    /// Its turn was claimed, and its outcome will never be known.
    Unknown,
    /// The trigger is unknown.
    Missing,
}

/// Returns true if the trigger was placed at most an hour before or after `now`.
pub(crate) fn is_current(trigger: &Trigger, now: Timestamp) -> bool {
    now.since(trigger.requested_at) <= EXPIRES_AFTER
        && trigger.requested_at.since(now) <= EXPIRES_AFTER
}

impl Triggers {
    /// Returns the request time of the newest claimed trigger: only later triggers may be claimed.
    /// None if that time is so far in the future that no candidate wrote it.
    pub(crate) fn newest_request(&self, now: Timestamp) -> Option<Timestamp> {
        let requested_at = self.newest.as_ref()?.slot;
        Some(requested_at).filter(|requested_at| requested_at.since(now) <= EXPIRES_AFTER)
    }

    /// Returns true if a waiting trigger may be claimed.
    pub(crate) fn may_claim(&self, trigger: &Trigger, now: Timestamp) -> bool {
        is_current(trigger, now) && !self.is_older(trigger, now) && !self.was_claimed(&trigger.id)
    }

    /// Returns true if the trigger was placed no later than the newest on record.
    pub(crate) fn is_older(&self, trigger: &Trigger, now: Timestamp) -> bool {
        self.newest_request(now).is_some_and(|newest| trigger.requested_at <= newest)
    }

    /// Returns true if a trigger with that id was claimed.
    pub(crate) fn was_claimed(&self, id: &str) -> bool {
        let newest = self.newest.as_ref().is_some_and(|newest| newest.id == id);
        newest || self.earlier.iter().any(|(known, _)| *known == fingerprint(id))
    }

    /// Claims a turn for a trigger.
    pub(super) fn claim(&mut self, started: Started, term: u64) {
        self.term = term;
        let previous = self.newest.replace(started);
        let Some(earlier) = previous.filter(|trigger| !self.is_newest(&trigger.id)) else { return };
        self.earlier.push((fingerprint(&earlier.id), earlier.outcome));
        let excess = self.earlier.len().saturating_sub(MAX_EARLIER);
        self.earlier.drain(..excess);
    }

    fn is_newest(&self, id: &str) -> bool {
        self.newest.as_ref().is_some_and(|newest| newest.id == id)
    }

    /// Returns the state of the trigger with that id, if it was claimed. `leader_term` is the term
    /// of the current holder of the lease.
    pub(crate) fn state(&self, id: &str, leader_term: Option<u64>) -> Option<TriggerState> {
        let ended_state =
            |outcome: Option<Outcome>| outcome.map_or(TriggerState::Unknown, TriggerState::Ended);
        let Some(newest) = self.newest.as_ref().filter(|newest| newest.id == id) else {
            let earlier = self.earlier.iter().find(|(known, _)| *known == fingerprint(id));
            return earlier.map(|(_, outcome)| ended_state(*outcome));
        };
        Some(match (newest.delivery, newest.outcome) {
            (Delivery::AtLeastOnce { .. }, outcome) if !outcome.is_some_and(Outcome::is_final) => {
                TriggerState::Claimed(self.term)
            }
            (_, None) if leader_term == Some(self.term) => TriggerState::Claimed(self.term),
            (_, outcome) => ended_state(outcome),
        })
    }

    pub(super) fn parse_earlier(text: &str) -> Option<Vec<(u64, Option<Outcome>)>> {
        let parse_entry = |entry: &str| {
            let (id, outcome) = entry.split_at_checked(16)?;
            let outcome = match outcome {
                "" => None,
                // An outcome that only a newer version knows counts as unknown.
                digit => Outcome::ALL.get(digit.parse::<usize>().ok()?).copied(),
            };
            Some((u64::from_str_radix(id, 16).ok()?, outcome))
        };
        let mut earlier: Vec<_> = text.split('.').map(parse_entry).collect::<Option<_>>()?;
        let excess = earlier.len().saturating_sub(MAX_EARLIER);
        earlier.drain(..excess);
        Some(earlier)
    }

    pub(super) fn write_earlier(&self) -> Option<String> {
        let format_entry = |(id, outcome): &(u64, Option<Outcome>)| {
            let index = |outcome| Outcome::ALL.iter().position(|known| *known == outcome);
            let outcome = outcome.and_then(index).map(|index| index.to_string());
            format!("{id:016x}{}", outcome.unwrap_or_default())
        };
        let entries: Vec<_> = self.earlier.iter().map(format_entry).collect();
        (!entries.is_empty()).then(|| entries.join("."))
    }
}
