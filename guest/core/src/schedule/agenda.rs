//! The next claim of a leader, computed from the record. protocol.md §6.

use core::time::Duration;

use crate::mutants::mutant;
use crate::record::metadata::{
    Kind, LastSlot, Outcome, Record, Started, Trigger, Triggers, is_current,
};
use crate::record::text::fingerprint;
use crate::schedule::slots::{Delivery, Schedule};
use crate::step::clocks::{Timestamp, is_ahead, nanos};
use tenure_base::prelude::*;

/// Number of missed slots above which counting stops. With one slot per second, a week has too many
/// to count.
const MAX_COUNTED: u32 = 1000;

/// The rule for slots that no candidate could claim in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// Missed slots do not run.
    Skip,
    /// One turn, for the newest missed slot, stands for all of them.
    Once,
    /// Each missed slot has its turn, the oldest first; only the newest ones up to this number.
    All(u32),
}

/// The work to run: the timer of an election and its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agenda {
    /// The timer, if there is one.
    pub schedule: Option<Schedule>,
    /// The delivery rule of a slot.
    pub delivery: Delivery,
    /// The rule for missed slots.
    pub missed: Missed,
    /// Time after which an unclaimed slot counts as missed.
    pub tolerance: Duration,
    /// Time from the instant of each slot until it is due. It is the same for all candidates of an
    /// election. It differs between elections, so that not all work starts on the hour.
    pub delay: Duration,
}

/// A turn to be claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its slot.
    pub slot: Timestamp,
    /// Id of the trigger that the turn runs for. None for a turn of the schedule.
    pub trigger: Option<String>,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// True if the turn comes late, or stands for earlier slots that were missed.
    pub past_due: bool,
    /// Number of slots since the last claimed one that have no turn, up to 1000.
    pub missed: u32,
}

impl Task {
    pub(crate) fn kind(&self) -> Kind {
        Kind::from_trigger(self.trigger.as_ref())
    }
}

/// The due action at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// A turn is to be claimed.
    Now(Task),
    /// The newest claimed turn has no attempts left. The record has to say that it is abandoned.
    Abandon(Task),
    /// The next turn is due after this time.
    In(Duration),
    /// The last claimed slot lies in the future, by this much. Either the service's clock went
    /// back, or another program wrote the record.
    Ahead(Duration),
    /// Nothing is scheduled.
    Nothing,
}

impl Agenda {
    /// Returns the description of the schedule for the record. Candidates with different ones do
    /// not belong to one election.
    pub fn description(&self) -> Option<String> {
        self.schedule.as_ref().map(Schedule::description)
    }

    /// Returns true if the work is one turn that lasts as long as the leadership.
    pub fn is_one_turn_a_term(&self) -> bool {
        self.schedule == Some(Schedule::WhileLeading)
    }

    /// Returns the delay of the slots of `election` if slots are spread over `jitter`.
    pub fn jittered_delay(election: &str, jitter: Duration) -> Duration {
        match nanos(jitter) {
            0 => Duration::ZERO,
            // Whole milliseconds, because operators read it.
            span => Duration::from_millis(fingerprint(election) % span / 1_000_000),
        }
    }

    /// Returns the slot with which the count of a new election begins at `now`. Slots before the
    /// first leader were not missed.
    pub fn initial_slot(&self, now: Timestamp) -> LastSlot {
        let now = self.due_at(now);
        let newest = self.schedule.as_ref().and_then(|schedule| schedule.newest(now));
        LastSlot { slot: newest.unwrap_or(now.to_whole_millis()), attempt: 0 }
    }

    /// Returns how far the last claimed slot lies in the future, if that exceeds the possible
    /// difference between two candidates' clocks. None for work without slots.
    pub fn slot_ahead(&self, now: Timestamp, record: &Record) -> Option<Duration> {
        let slot = record.last_slot?.slot;
        let keeps_schedule =
            !matches!(self.schedule, Some(Schedule::WhileLeading | Schedule::OnTrigger));
        (keeps_schedule && is_ahead(slot, now)).then(|| slot.since(now))
    }

    /// Returns the due time of the next turn, as seen at `now`. It is not later than `now` if the
    /// turn is due at once.
    pub fn next(&self, now: Timestamp, record: &Record) -> Option<Timestamp> {
        match self.due(now, record) {
            Due::Now(_) | Due::Abandon(_) => Some(now),
            Due::In(wait) | Due::Ahead(wait) => Some(now.plus(wait)),
            Due::Nothing => None,
        }
    }

    /// Returns the slot of the next scheduled turn, as seen at `now`. The slot lies in the past if
    /// its turn is overdue. `is_running` is true while a turn runs.
    pub fn next_slot(
        &self,
        now: Timestamp,
        record: &Record,
        is_running: bool,
    ) -> Option<Timestamp> {
        let slot_after = |slot: Timestamp| self.schedule.as_ref()?.next(slot);
        let last = record.last_slot?.slot;
        match self.slot_due(now, record) {
            _ if is_running => slot_after(last),
            Due::Now(task) => Some(task.slot).filter(|_| !self.is_one_turn_a_term()),
            Due::In(wait) => Some(Timestamp(now.plus(wait).0.saturating_sub(nanos(self.delay)))),
            Due::Abandon(_) | Due::Ahead(_) => slot_after(last),
            Due::Nothing => None,
        }
    }

    /// Returns the due action at `now`, according to the record.
    pub fn due(&self, now: Timestamp, record: &Record) -> Due {
        self.due_with_triggers(now, record, &[])
    }

    /// Returns the due action at `now`, according to the record and the triggers on the side blob.
    pub fn due_with_triggers(&self, now: Timestamp, record: &Record, waiting: &[Trigger]) -> Due {
        let trigger = self.trigger_due(now, record, waiting);
        trigger.unwrap_or_else(|| self.slot_due(now, record))
    }

    fn slot_due(&self, now: Timestamp, record: &Record) -> Due {
        let (Some(schedule), Some(last)) = (&self.schedule, record.last_slot) else {
            return Due::Nothing;
        };
        if let Some(ahead_by) = self.slot_ahead(now, record) {
            return Due::Ahead(ahead_by);
        }
        if self.is_one_turn_a_term() {
            return due_in_term(now, last);
        }
        if let Some(due) = self.retry_due(now, last, record) {
            return due;
        }
        self.next_scheduled(schedule, now, last)
    }

    /// Returns the due turn for a trigger: a further attempt for the newest claimed trigger, or the
    /// first attempt for the one that has waited longest.
    fn trigger_due(&self, now: Timestamp, record: &Record, waiting: &[Trigger]) -> Option<Due> {
        // Such a leader takes no triggers. It does not finish those of an earlier leader either.
        if self.schedule.is_none() || self.is_one_turn_a_term() {
            return None;
        }
        let task = |id: &str, slot, attempt| {
            let trigger = Some(id.into());
            Task { trigger, ..self.unscheduled_task(slot, attempt, now) }
        };
        let retry = record.triggers.newest.as_ref().and_then(|newest| {
            let Started { id, slot, attempt, delivery, outcome } = newest;
            next_attempt(*delivery, *attempt, *outcome, |n| task(id, *slot, n))
        });
        retry.or_else(|| {
            let is_forgotten = mutant!(TriggerForgotten) && record.term != record.triggers.term;
            let no_triggers = Triggers::default();
            let claimed_triggers = if is_forgotten { &no_triggers } else { &record.triggers };
            let may_claim = |t: &&Trigger| match claimed_triggers.may_claim(t, now) {
                false if mutant!(TriggerInstantIgnored) => {
                    is_current(t, now) && !claimed_triggers.was_claimed(&t.id)
                }
                false if mutant!(TriggerIdsForgotten) => {
                    is_current(t, now) && !claimed_triggers.is_older(t, now)
                }
                may_claim => may_claim,
            };
            let Trigger { id, requested_at } =
                waiting.iter().filter(may_claim).min_by_key(|t| t.requested_at)?;
            Some(Due::Now(task(id, *requested_at, 1)))
        })
    }

    /// Returns a task outside the sequence of slots: one for a trigger, or a further attempt.
    fn unscheduled_task(&self, slot: Timestamp, attempt: u32, now: Timestamp) -> Task {
        let past_due = self.is_late(slot, now);
        Task { slot, trigger: None, attempt, past_due, missed: 0 }
    }

    /// Returns the next attempt at the last claimed slot, if its delivery rule requires one.
    fn retry_due(&self, now: Timestamp, last: LastSlot, record: &Record) -> Option<Due> {
        if last.attempt == 0 {
            return None;
        }
        let outcome = record.finished.filter(|finished| finished.slot == last.slot);
        let outcome = outcome.map(|finished| finished.outcome);
        next_attempt(record.delivery, last.attempt, outcome, |attempt| {
            self.unscheduled_task(last.slot, attempt, now)
        })
    }

    /// Returns the next slot after the last claimed one, according to the rule for missed slots.
    fn next_scheduled(&self, schedule: &Schedule, now: Timestamp, last: LastSlot) -> Due {
        let wait_for_slot_after = |instant: Timestamp| match schedule.next(instant) {
            Some(slot) => Due::In(slot.plus(self.delay).since(now)),
            None => Due::Nothing,
        };
        let newest = schedule.newest(self.due_at(now)).filter(|newest| *newest > last.slot);
        let Some(newest) = newest else {
            return wait_for_slot_after(last.slot.max(self.due_at(now)));
        };
        let first = schedule.next(last.slot).unwrap_or(newest).min(newest);
        let slot = match self.missed {
            Missed::Skip if self.is_late(newest, now) => return wait_for_slot_after(newest),
            Missed::Skip | Missed::Once => newest,
            Missed::All(_) if mutant!(MissedForgotten) => newest,
            Missed::All(limit) => first_of_latest(schedule, first, newest, limit),
        };
        let replaces_earlier = self.missed == Missed::Once && slot > first;
        let past_due = slot < newest || replaces_earlier || self.is_late(slot, now);
        let missed = schedule.count(last.slot, slot, MAX_COUNTED);
        Due::Now(Task { slot, trigger: None, attempt: 1, past_due, missed })
    }

    /// Returns the instant up to which slots are due at `now`.
    fn due_at(&self, now: Timestamp) -> Timestamp {
        Timestamp(now.0.saturating_sub(nanos(self.delay)))
    }

    fn is_late(&self, slot: Timestamp, now: Timestamp) -> bool {
        self.due_at(now).since(slot) > self.tolerance
    }
}

/// Returns the turn of this leadership, unless it was claimed. Its slot is the instant of the
/// claim.
fn due_in_term(now: Timestamp, last: LastSlot) -> Due {
    if last.attempt > 0 {
        return Due::Nothing;
    }
    // The slot is later than any earlier one, even if the service's clock went back a little.
    let slot = now.max(last.slot.plus(Duration::from_millis(1)));
    let slot = slot.to_whole_millis();
    Due::Now(Task { slot, trigger: None, attempt: 1, past_due: false, missed: 0 })
}

/// Returns the action that follows an attempt with this outcome: another attempt, or giving up.
/// None if the delivery rule requires neither.
fn next_attempt(
    delivery: Delivery,
    attempt: u32,
    outcome: Option<Outcome>,
    task: impl Fn(u32) -> Task,
) -> Option<Due> {
    match delivery {
        Delivery::AtMostOnce if !mutant!(RunsAgain) => None,
        _ if mutant!(UnfinishedIsLeft) => None,
        _ if outcome.is_some_and(Outcome::is_final) => None,
        _ if outcome == Some(Outcome::NotStarted) => Some(Due::Now(task(attempt))),
        Delivery::AtLeastOnce { max_attempts }
            if attempt >= max_attempts && !mutant!(NeverAbandoned) =>
        {
            Some(Due::Abandon(task(attempt)))
        }
        _ => Some(Due::Now(task(attempt + 1))),
    }
}

/// Returns the first of the last `limit` slots from `first` to `newest`, both included.
fn first_of_latest(
    schedule: &Schedule,
    first: Timestamp,
    newest: Timestamp,
    limit: u32,
) -> Timestamp {
    let is_within_limit = core::iter::successors(Some(first), |slot| schedule.next(*slot))
        .take(limit as usize)
        .any(|slot| slot >= newest);
    if is_within_limit {
        return first;
    }
    let slot_before = |slot: &Timestamp| schedule.newest(Timestamp(slot.0.saturating_sub(1)));
    let steps_back = (limit as usize).saturating_sub(1);
    core::iter::successors(Some(newest), slot_before).take(steps_back + 1).last().unwrap_or(newest)
}

#[cfg(test)]
mod tests;
