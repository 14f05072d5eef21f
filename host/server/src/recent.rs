//! The newest turns of an election, as far as this process knows how they went: by its own turns, and by
//! what the record said whenever it was read.
//!
//! The record keeps the newest success and the newest failure alone. So a process that was just started
//! knows two turns at most, and a follower misses one that ended between two of its polls. Such a slot is
//! told as unknown: what is not known is not guessed.

use super::page::view::PastTurn;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;
use tenure::handler::TurnEnd;
use tenure::status::local_time;
use tenure_core::{Outcome, Schedule, Timestamp, Turn, Turns, Zone, milliseconds};

/// So many are kept and shown.
pub(super) const TURNS: usize = 10;

pub(super) const RUNNING: &str = "running";

/// A slot of which nothing is known.
pub(super) const UNKNOWN: &str = "unknown";

/// A slot that has no turn and never will.
const MISSED: &str = "missed";

/// The newest turns, by slot.
#[derive(Debug, Default)]
pub(super) struct RecentTurns {
    known: BTreeMap<Timestamp, Known>,
    schedule: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    /// `running`, `missed`, or how it ended.
    outcome: Cow<'static, str>,
    took_ms: Option<u64>,
    /// It ran for a trigger.
    triggered: bool,
}

impl Known {
    fn so(outcome: &'static str) -> Self {
        Self { outcome: outcome.into(), took_ms: None, triggered: false }
    }
}

impl RecentTurns {
    /// A turn of this process began.
    pub(super) fn started(&mut self, turn: &Turn) {
        for slot in self.missed_before(turn) {
            self.known.entry(slot).or_insert(Known::so(MISSED));
        }
        let triggered = turn.trigger.is_some();
        self.keep(turn.slot, Known { triggered, ..Known::so(RUNNING) });
    }

    /// A turn of this process ended.
    pub(super) fn ended(&mut self, turn: &Turn, end: &TurnEnd, elapsed: Duration) {
        let took_ms = Some(milliseconds(elapsed));
        let triggered = turn.trigger.is_some();
        self.keep(turn.slot, Known { outcome: end.to_string().into(), took_ms, triggered });
    }

    /// What the record says now.
    pub(super) fn on_record(&mut self, turns: &Turns) {
        self.schedule.clone_from(&turns.schedule);
        for ended in [&turns.last_success, &turns.last_failure].into_iter().flatten() {
            // While it runs, the record tells of an attempt before this one.
            if !self.runs(ended.slot) {
                let took_ms = ended.end.took.map(milliseconds);
                let (outcome, triggered) = (ended.end.outcome.name().into(), ended.triggered);
                self.keep(ended.slot, Known { outcome, took_ms, triggered });
            }
        }
        let Some(finished) = turns.finished.as_ref().filter(|last| !self.runs(last.slot)) else {
            return;
        };
        match self.known.get_mut(&finished.slot) {
            Some(known) if finished.outcome == Outcome::Abandoned => {
                known.outcome = Outcome::Abandoned.name().into();
            }
            Some(_) => {}
            None => self.keep(finished.slot, Known::so(finished.outcome.name())),
        }
    }

    fn runs(&self, slot: Timestamp) -> bool {
        self.known.get(&slot).is_some_and(|known| known.outcome == RUNNING)
    }

    fn keep(&mut self, slot: Timestamp, known: Known) {
        self.known.insert(slot, known);
        while self.known.len() > TURNS {
            self.known.pop_first();
        }
    }

    /// The newest slots of those before this turn that have none.
    fn missed_before(&self, turn: &Turn) -> Vec<Timestamp> {
        let schedule = self.schedule.as_deref().and_then(Schedule::described);
        let most = TURNS.min(turn.missed.try_into().unwrap_or(TURNS));
        match schedule {
            // Of a turn outside the schedule nothing can be counted back.
            Some((schedule, _)) if turn.trigger.is_none() => {
                earlier(&schedule, turn.slot).take(most).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The last turns at `now`, the oldest first: slots of the schedule on record
    /// that are over, and what is known beside them. Where the record tells of no turn at all,
    /// all slots are unknown.
    pub(super) fn shown(&self, now: Timestamp, turns: Option<&Turns>) -> Vec<PastTurn> {
        let described = turns.and_then(|turns| Schedule::described(turns.schedule.as_deref()?));
        let zone = described.as_ref().map_or(Zone::UTC, |(_, zone)| *zone);
        let claimed = turns.and_then(|turns| turns.last_slot.as_ref()).map(|last| last.slot);
        let mut shown = self.known.clone();
        if let Some(slot) = claimed.filter(|slot| *slot <= now) {
            shown.entry(slot).or_insert(Known::so("claimed"));
        }
        // A slot that is still to have its turn is no past one.
        let next = turns.and_then(|turns| turns.next.as_ref()).map(|next| next.slot);
        let past = now.plus(Duration::from_nanos(1));
        let until = next.map_or(past, |next| next.min(past));
        if let Some((schedule, _)) = &described {
            for slot in earlier(schedule, until).take(TURNS) {
                shown.entry(slot).or_insert(Known::so(UNKNOWN));
            }
        }
        let last = shown.into_iter().rev().take(TURNS).collect::<Vec<_>>().into_iter().rev();
        let told = |(slot, Known { outcome, took_ms, triggered }): (Timestamp, Known)| PastTurn {
            slot: slot.to_rfc3339(),
            local: local_time(slot, zone),
            triggered,
            outcome: outcome.into_owned(),
            took_ms,
            age_ms: milliseconds(now.since(slot)),
        };
        last.map(told).collect()
    }
}

/// The slots before `then`, the newest first.
fn earlier(schedule: &Schedule, then: Timestamp) -> impl Iterator<Item = Timestamp> {
    let before = move |slot: Timestamp| schedule.newest(Timestamp(slot.0.checked_sub(1)?));
    std::iter::successors(before(then), move |slot| before(*slot))
}

#[cfg(test)]
mod tests;
