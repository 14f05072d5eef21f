//! The newest turns of an election, with the outcomes that this process knows. The outcomes come
//! from its own turns, and from each version of the record that it has read.
//!
//! The record keeps only the newest success and the newest failure. So a new process knows two
//! turns at most, and a follower misses a turn that ended between two of its polls. The outcome of
//! such a slot is `unknown`.

use super::page::view::PastTurn;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;
use tenure::handler::TurnEnd;
use tenure::status::local_time;
use tenure_core::{Outcome, Schedule, Timestamp, Turn, Turns, Zone, milliseconds};

/// Maximum number of turns that are kept and shown.
const MAX_TURNS: usize = 10;

pub(super) const RUNNING: &str = "running";

/// The outcome of a past slot without a known turn.
pub(super) const UNKNOWN: &str = "unknown";

/// The outcome of a slot that never gets a turn.
const MISSED: &str = "missed";

/// The newest turns, by slot.
#[derive(Debug, Default)]
pub(super) struct RecentTurns {
    known: BTreeMap<Timestamp, KnownTurn>,
    schedule: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct KnownTurn {
    /// `running`, `missed`, `claimed`, `unknown`, or the outcome of the ended turn.
    outcome: Cow<'static, str>,
    took_ms: Option<u64>,
    /// True if the turn ran for a trigger.
    triggered: bool,
}

impl KnownTurn {
    fn with_outcome(outcome: &'static str) -> Self {
        Self { outcome: outcome.into(), took_ms: None, triggered: false }
    }
}

impl RecentTurns {
    /// Records the start of a turn of this process.
    pub(super) fn started(&mut self, turn: &Turn) {
        for slot in self.missed_before(turn) {
            self.known.entry(slot).or_insert(KnownTurn::with_outcome(MISSED));
        }
        let triggered = turn.trigger.is_some();
        self.insert(turn.slot, KnownTurn { triggered, ..KnownTurn::with_outcome(RUNNING) });
    }

    /// Records the end of a turn of this process.
    pub(super) fn ended(&mut self, turn: &Turn, end: &TurnEnd, elapsed: Duration) {
        let took_ms = Some(milliseconds(elapsed));
        let triggered = turn.trigger.is_some();
        self.insert(turn.slot, KnownTurn { outcome: end.to_string().into(), took_ms, triggered });
    }

    /// Adds the turns on the current version of the record.
    pub(super) fn on_record(&mut self, turns: &Turns) {
        self.schedule.clone_from(&turns.schedule);
        for ended in [&turns.last_success, &turns.last_failure].into_iter().flatten() {
            // While the turn runs, the record shows an earlier attempt.
            if !self.is_running(ended.slot) {
                let took_ms = ended.end.took.map(milliseconds);
                let (outcome, triggered) = (ended.end.outcome.name().into(), ended.triggered);
                self.insert(ended.slot, KnownTurn { outcome, took_ms, triggered });
            }
        }
        let Some(finished) = turns.finished.as_ref().filter(|last| !self.is_running(last.slot))
        else {
            return;
        };
        match self.known.get_mut(&finished.slot) {
            Some(known) if finished.outcome == Outcome::Abandoned => {
                known.outcome = Outcome::Abandoned.name().into();
            }
            Some(_) => {}
            None => self.insert(finished.slot, KnownTurn::with_outcome(finished.outcome.name())),
        }
    }

    fn is_running(&self, slot: Timestamp) -> bool {
        self.known.get(&slot).is_some_and(|known| known.outcome == RUNNING)
    }

    fn insert(&mut self, slot: Timestamp, known: KnownTurn) {
        self.known.insert(slot, known);
        while self.known.len() > MAX_TURNS {
            self.known.pop_first();
        }
    }

    /// Returns the newest missed slots before this turn, the newest first.
    fn missed_before(&self, turn: &Turn) -> Vec<Timestamp> {
        let schedule = self.schedule.as_deref().and_then(Schedule::from_description);
        let limit = MAX_TURNS.min(turn.missed.try_into().unwrap_or(MAX_TURNS));
        match schedule {
            // Missed slots cannot be counted back from a turn outside the schedule.
            Some((schedule, _)) if turn.trigger.is_none() => {
                slots_before(&schedule, turn.slot).take(limit).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the last turns at `now`, the oldest first: past slots of the schedule on record, and
    /// the known turns. A past slot without a known turn has the outcome `unknown`.
    pub(super) fn last_turns(&self, now: Timestamp, turns: Option<&Turns>) -> Vec<PastTurn> {
        let described =
            turns.and_then(|turns| Schedule::from_description(turns.schedule.as_deref()?));
        let zone = described.as_ref().map_or(Zone::UTC, |(_, zone)| *zone);
        let claimed = turns.and_then(|turns| turns.last_slot.as_ref()).map(|last| last.slot);
        let mut slots = self.known.clone();
        if let Some(slot) = claimed.filter(|slot| *slot <= now) {
            slots.entry(slot).or_insert(KnownTurn::with_outcome("claimed"));
        }
        // A slot that still waits for its turn is not past.
        let next = turns.and_then(|turns| turns.next.as_ref()).map(|next| next.slot);
        let past = now.plus(Duration::from_nanos(1));
        let until = next.map_or(past, |next| next.min(past));
        if let Some((schedule, _)) = &described {
            for slot in slots_before(schedule, until).take(MAX_TURNS) {
                slots.entry(slot).or_insert(KnownTurn::with_outcome(UNKNOWN));
            }
        }
        let last = slots.into_iter().rev().take(MAX_TURNS).collect::<Vec<_>>().into_iter().rev();
        let past_turn =
            |(slot, KnownTurn { outcome, took_ms, triggered }): (Timestamp, KnownTurn)| PastTurn {
                slot: slot.to_rfc3339(),
                local: local_time(slot, zone),
                triggered,
                outcome: outcome.into_owned(),
                took_ms,
                age_ms: milliseconds(now.since(slot)),
            };
        last.map(past_turn).collect()
    }
}

/// Returns the slots before `end`, the newest first.
fn slots_before(schedule: &Schedule, end: Timestamp) -> impl Iterator<Item = Timestamp> {
    let before = move |slot: Timestamp| schedule.newest(Timestamp(slot.0.checked_sub(1)?));
    std::iter::successors(before(end), move |slot| before(*slot))
}

#[cfg(test)]
mod tests;
