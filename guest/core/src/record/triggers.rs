//! What the record tells of triggers. protocol.md §6.1.

use core::time::Duration;

use super::super::service_clock::Timestamp;
use super::super::slots::Delivery;
use super::super::text::fingerprint;
use super::turns::{Outcome, Started};
use serde::{Deserialize, Serialize};
use tenure_base::prelude::*;

/// A trigger that has not been claimed for so long has no turn any more.
pub(crate) const EXPIRES_AFTER: Duration = Duration::from_secs(60 * 60);

/// So many ids are remembered beside the newest, so that a command that is repeated has no second turn.
const MOST_EARLIER: usize = 16;

/// A turn that somebody asked for outside the schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// Names it.
    pub id: String,
    /// When it was asked for, in the service's time. No two triggers have the same, and each is later than
    /// those before.
    pub requested_at: Timestamp,
}

impl Trigger {
    /// Until when it may be claimed.
    pub fn expires_at(&self) -> Timestamp {
        self.requested_at.plus(EXPIRES_AFTER)
    }
}

/// The triggers that were claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Triggers {
    /// The newest.
    pub newest: Option<Started>,
    /// The term in which its newest attempt was claimed.
    pub term: u64,
    /// Those before it, the newest last, and how their turns ended, where that is known.
    pub(super) earlier: Vec<(u64, Option<Outcome>)>,
}

/// What became of a trigger. The meaning of each case is that of its namesake in `wit/types.wit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerState {
    /// It waits for its turn, until then.
    Waiting(Timestamp),
    /// Its turn was claimed in that term.
    Claimed(u64),
    /// Its turn is over.
    Ended(Outcome),
    /// Its turn was claimed, and nobody will say how it ended.
    Unknown,
    /// Nobody knows of it.
    Missing,
}

/// Returns true if it was placed within the hour, on both sides of now.
pub(crate) fn is_current(trigger: &Trigger, now: Timestamp) -> bool {
    now.since(trigger.requested_at) <= EXPIRES_AFTER && trigger.requested_at.since(now) <= EXPIRES_AFTER
}

impl Triggers {
    /// Those that were asked for up to then have had their chance. What lies further ahead than a trigger
    /// counts for was not written by a candidate.
    pub(crate) fn newest_request(&self, now: Timestamp) -> Option<Timestamp> {
        let requested_at = self.newest.as_ref()?.slot;
        Some(requested_at).filter(|requested_at| requested_at.since(now) <= EXPIRES_AFTER)
    }

    /// Returns true if a trigger that waits may be claimed.
    pub(crate) fn may_claim(&self, trigger: &Trigger, now: Timestamp) -> bool {
        is_current(trigger, now) && !self.is_older(trigger, now) && !self.was_claimed(&trigger.id)
    }

    /// Returns true if it was placed no later than the newest on record.
    pub(crate) fn is_older(&self, trigger: &Trigger, now: Timestamp) -> bool {
        self.newest_request(now).is_some_and(|newest| trigger.requested_at <= newest)
    }

    /// Returns true if a trigger of that id was claimed.
    pub(crate) fn was_claimed(&self, id: &str) -> bool {
        let newest = self.newest.as_ref().is_some_and(|newest| newest.id == id);
        newest || self.earlier.iter().any(|(known, _)| *known == fingerprint(id))
    }

    /// Claims a turn for one.
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

    /// What became of the one with that id, once it was claimed. `leads` is the term of whoever holds the
    /// lease.
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
                // One of a newer version is not known here.
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
