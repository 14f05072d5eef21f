//! The triggers on the record. protocol.md §6.1.

use core::time::Duration;

use super::turns::{Outcome, Started};
use crate::record::text::fingerprint;
use crate::schedule::slots::Delivery;
use crate::step::clocks::Timestamp;
use serde::{Deserialize, Serialize};
use tenure_base::prelude::*;

/// Age at which an unclaimed trigger expires.
pub(crate) const EXPIRES_AFTER: Duration = Duration::from_secs(60 * 60);

/// Number of remembered ids besides the newest, so that a repeated command starts no second turn.
const MOST_EARLIER: usize = 16;

/// A turn that was requested outside the schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// Idempotency key.
    pub id: String,
    /// Time of the request, by the service's clock. Each trigger has a later one than those before.
    pub requested_at: Timestamp,
}

impl Trigger {
    /// Returns the time until which it may be claimed.
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
    /// Hashed ids of the triggers before it, the newest last, with the outcomes of their turns, if
    /// known.
    pub(super) earlier: Vec<(u64, Option<Outcome>)>,
}

/// The state of a trigger. Each case means the same as its namesake in `wit/types.wit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerState {
    /// The trigger waits for its turn, until then.
    Waiting(Timestamp),
    /// Its turn was claimed in that term.
    Claimed(u64),
    /// Its turn is over.
    Ended(Outcome),
    /// Its turn was claimed, and its outcome will never be known.
    Unknown,
    /// The trigger is unknown.
    Missing,
}

/// Returns true if the trigger was placed less than an hour before or after `now`.
pub(crate) fn is_current(trigger: &Trigger, now: Timestamp) -> bool {
    now.since(trigger.requested_at) <= EXPIRES_AFTER
        && trigger.requested_at.since(now) <= EXPIRES_AFTER
}

impl Triggers {
    /// Returns the request time up to which triggers have had their chance. One that lies further
    /// ahead than a trigger's lifetime was not written by a candidate.
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
        let Some(before) = previous.filter(|before| !self.is_newest(&before.id)) else { return };
        self.earlier.push((fingerprint(&before.id), before.outcome));
        let excess = self.earlier.len().saturating_sub(MOST_EARLIER);
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
                // The outcome of a newer version is unknown here.
                digit => Outcome::ALL.get(digit.parse::<usize>().ok()?).copied(),
            };
            Some((u64::from_str_radix(id, 16).ok()?, outcome))
        };
        let mut earlier: Vec<_> = text.split('.').map(parse_entry).collect::<Option<_>>()?;
        let excess = earlier.len().saturating_sub(MOST_EARLIER);
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
