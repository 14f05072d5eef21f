//! What a leader puts on record: claims, outcomes, the name of its successor.
//!
//! What to write is decided anew before each try, so that a write which cannot be made ends with what
//! wanted it: an order that was called off, a slot that passed. Only a try that may have been applied is
//! read back first, and what is found is what the next decision begins with. A leader whose claims and
//! outcomes do not get on record steps down.

use core::time::Duration;

use super::super::Moment;
use super::super::agenda::{Due, Task};
use super::super::candidate::{Phase, Step};
use super::super::chance::Chance;
use super::super::health::Health;
use super::super::pace::Pace;
use super::super::problem::ProblemClass;
use super::super::record::{LastSlot, Outcome, Record, Started};
use super::super::report::{EndingReason, Turn};
use super::super::slots::Delivery;
use super::super::timings::BACK_OFF;
use super::super::write::{Progress, Write};
use super::{Claim, Hold, Reply};
use crate::mutants::mutant;
use tenure_azure::metadata::Metadata;
use tenure_azure::operation::{ETag, Operation};
use tenure_base::prelude::*;

/// A turn's outcome is written by itself when the next claim, on which it could ride,
/// is further away than this: people look at it.
const RIDE: Duration = Duration::from_secs(60);

/// A leader whose claims and outcomes do not get on record for so many leases steps down.
const STALLED_LEASES: u32 = 2;

/// A record to be written.
pub(super) struct Wanted {
    record: Record,
    /// It claims a turn.
    claim: Option<Claim>,
    /// It is the end of this one.
    abandoned: Option<Task>,
}

/// Puts the claim of a turn into the record.
fn put_claim(record: &mut Record, task: Task, delivery: Delivery) -> Claim {
    let Task { slot, value, attempt, past_due, missed } = task;
    let claim = Claim { for_value: value.is_some(), past_due, missed };
    match value {
        Some(value) => {
            // Another attempt is made under the rule of the first one.
            let before = record.started.as_ref().filter(|_| attempt > 1);
            let delivery = before.map_or(delivery, |before| before.delivery);
            record.start(Started { value, slot, attempt, delivery, outcome: None });
        }
        None => {
            record.forget_unbegun(slot);
            record.last = Some(LastSlot { slot, attempt });
            if attempt == 1 {
                record.delivery = delivery;
            }
        }
    }
    claim
}

impl Hold {
    /// Takes what a read found on the blob, where the write is not. What is there was written by this
    /// leader, perhaps by an earlier try that was applied late; only the outcome of the newest turn
    /// may be missing. Anything else is an older state that somebody restored: it is written over.
    ///
    /// The kind of turn that an earlier try claimed, when there is one: it was never started.
    fn found(&mut self, found: Option<Box<Record>>, etag: ETag) -> Option<Claim> {
        self.etag = etag;
        let Some(found) = found else {
            self.record.unknown = Metadata::default();
            self.outcome_unwritten = true;
            return None;
        };
        let own = (found.term, found.nonce) == (self.record.term, self.record.nonce);
        if !own || (is_older(&found, &self.record) && !self.resets_slot) {
            (self.record.unknown, self.record.successor) = (found.unknown, found.successor);
            self.outcome_unwritten = true;
            return None;
        }
        let mut record = *found.clone();
        let mut late = None;
        if record.last == self.record.last {
            record.finished = self.record.finished;
        } else if record.last.is_some_and(|last| last.attempt > 0) {
            late = Some(false);
        }
        match (&mut record.started, &self.record.started) {
            (Some(there), Some(ours))
                if (&there.value, there.attempt) == (&ours.value, ours.attempt) =>
            {
                there.outcome = ours.outcome;
            }
            (Some(there), _) if there.outcome.is_none() => late = Some(true),
            _ => {}
        }
        self.outcome_unwritten = record.turns() != found.turns();
        self.record = record;
        late.map(|for_value| Claim { for_value, past_due: false, missed: 0 })
    }
}

/// Whether the turns on one record were claimed before those on the other.
fn is_older(one: &Record, other: &Record) -> bool {
    let newest = |record: &Record| record.last.map(|last| (last.slot, last.attempt));
    let started = |record: &Record| record.started.as_ref().map(|s| (s.slot, s.attempt));
    newest(one) < newest(other) || started(one) < started(other)
}

impl Step<'_> {
    /// What is to be on record now; none: what is there. A slot that is due is claimed, the end of a turn
    /// recorded, but not while a turn runs; a successor is named at any time. Once a claim or an outcome
    /// did not get through, a leader tries until a write does, also when nothing else is to be written.
    pub(super) fn wanted(&self, hold: &Hold, now: Moment) -> Option<Wanted> {
        let idle = self.state.turn.is_none();
        let successor = self.state.steering.hand_over().map(|order| order.to.clone());
        let due = self.due(now).filter(|_| idle && !self.gives_up());
        let complete = idle && self.outcome_is_to_be_written(due.as_ref());
        let names = hold.names(successor.as_deref());
        let mut record = Record { successor, ..hold.record.clone() };
        let (mut claim, mut abandoned) = (None, None);
        match due {
            Some(Due::Now(task)) => {
                claim = Some(put_claim(&mut record, task, self.settings.agenda.delivery));
            }
            Some(Due::Abandon(task)) => {
                record.put_outcome(task.value.is_some(), Outcome::Abandoned);
                abandoned = Some(task);
            }
            // Whatever this candidate's own schedule: an operator's has none.
            _ if idle && hold.resets_slot => {
                record.last = Some(self.settings.agenda.begin(self.slot_time(now)?));
            }
            _ if complete || !names || hold.stalled.is_some() => {}
            _ => return None,
        }
        Some(Wanted { record, claim, abandoned })
    }

    /// Decides what to write, unless it has to be known first what became of the last try.
    pub(super) fn decide_write(&mut self, now: Moment) {
        let Phase::Holding(hold) = &self.state.phase else { return };
        if hold.write.as_ref().is_some_and(|write| write.doubt || write.pace.next > now) {
            return;
        }
        let wanted = self.wanted(hold, now);
        let Phase::Holding(hold) = &mut self.state.phase else { return };
        let pace = hold.write.take().map_or(Pace::at(now), |write| write.pace);
        hold.claiming = None;
        let Some(Wanted { record, claim, abandoned }) = wanted else { return };
        hold.claiming = claim;
        claim.inspect(|claim| self.state.began.put_forward(&record, claim.for_value));
        if let (true, Some(claim)) = (mutant!(ClaimNotAwaited), claim) {
            hold.record = record;
            let hold = hold.clone();
            return self.start_turn(&hold, claim);
        }
        hold.write = Some(Write::new(record, hold.etag.clone(), pace));
        if let Some(Task { slot, value, attempt, .. }) = abandoned {
            let what = match value {
                Some(value) => format!("the turn for the value \"{value}\""),
                None => format!("the slot {}", slot.to_rfc3339()),
            };
            let detail = format!(
                "{what} is abandoned after {attempt} attempts; see to why they went wrong. \
                 TENURE_MAX_ATTEMPTS sets the number"
            );
            self.report_problem(ProblemClass::Work, detail, now);
        }
    }

    /// Whether an outcome is to be written by itself: people look at it, and at-least-once
    /// delivery is done with the slot only then.
    pub(super) fn outcome_is_to_be_written(&self, due: Option<&Due>) -> bool {
        let Phase::Holding(hold) = &self.state.phase else { return false };
        let rules = [Some(hold.record.delivery), hold.record.started.as_ref().map(|s| s.delivery)];
        let may_wait = rules.into_iter().flatten().all(|rule| rule == Delivery::AtMostOnce);
        let soon = matches!(due, Some(Due::In(wait)) if may_wait && *wait <= RIDE);
        hold.outcome_unwritten && !soon
    }

    /// Has the host run the turn that was claimed last.
    pub(super) fn start_turn(&mut self, hold: &Hold, claim: Claim) {
        let record = &hold.record;
        let (slot, value, attempt) = match (&record.started, record.last) {
            (Some(Started { value, slot, attempt, .. }), _) if claim.for_value => {
                (*slot, Some(value.clone()), *attempt)
            }
            (_, Some(LastSlot { slot, attempt })) => (slot, None, attempt),
            _ => return,
        };
        let turn = Turn {
            term: record.term,
            slot,
            value,
            attempt,
            past_due: claim.past_due,
            missed: claim.missed,
            valid_for: hold.valid_until.saturating_sub(self.started),
            time_limit: self.settings.failure_policy.turn_timeout,
        };
        self.state.turn = Some(turn.clone());
        self.run = Some(turn);
    }

    /// Forgets a claimed slot that lies in the future, on an operator's word.
    pub(crate) fn reset_slot(&mut self, now: Moment) {
        let Some(time) = self.slot_time(now) else { return };
        let Phase::Holding(hold) = &mut self.state.phase else { return };
        hold.resets_slot = self.settings.agenda.ahead(time, &hold.record).is_some();
    }

    fn is_ahead(&self, record: &Record, now: Moment) -> bool {
        self.slot_time(now).is_some_and(|time| self.settings.agenda.ahead(time, record).is_some())
    }

    pub(super) fn written(
        &mut self,
        mut hold: Hold,
        operation: &Operation,
        reply: &Reply,
        (sent, now): (Moment, Moment),
        chance: &mut dyn Chance,
    ) -> Phase {
        let Some(mut write) = hold.write.take() else { return Phase::Holding(hold) };
        match write.answered(reply.as_ref().ok()) {
            Progress::Done(etag) => {
                hold.etag = etag;
                hold.record = write.record;
                (hold.outcome_unwritten, hold.stalled) = (false, None);
                hold.resets_slot &= self.is_ahead(&hold.record, now);
                if let Some(order) = self.state.steering.hand_over_mut() {
                    order.named(
                        hold.record.successor.as_deref(),
                        (sent, now),
                        &self.settings.timings,
                    );
                }
                if let Some(claim) = hold.claiming.take() {
                    self.start_turn(&hold, claim);
                }
                return Phase::Holding(hold);
            }
            Progress::NotApplied(found, etag) => {
                if let Some(claim) = hold.found(found.clone(), etag.clone()) {
                    // An earlier try got through after all, and its turn was never started.
                    hold.claiming = None;
                    self.claimed_late(&mut hold, claim);
                    return Phase::Holding(hold);
                }
                write.begin_again(found, etag, now);
            }
            Progress::Again => {
                if write.pace.failures > 0 {
                    self.report_reply(operation, reply, now);
                }
                write.pace.failed(now, BACK_OFF, chance);
                let of_work = hold.outcome_unwritten || write.record.turns() != hold.record.turns();
                if of_work && self.state.turn.is_none() {
                    hold.stalled.get_or_insert(sent);
                }
            }
            Progress::LeaseLost => return self.lose(&hold, operation, reply, now),
            Progress::Outdone => {
                let detail = "the record was written over while this candidate held the lease; \
                              somebody broke the lease or restored the blob";
                self.report_problem(ProblemClass::LeaseLost, detail.into(), now);
                return self.end(&hold, EndingReason::LeaseLost);
            }
        }
        hold.write = Some(write);
        self.unless_stalled(hold, now, chance)
    }

    /// Has the host run a turn that an earlier try claimed; one that leads no longer for long says on
    /// record that it did not begin.
    fn claimed_late(&mut self, hold: &mut Hold, claim: Claim) {
        hold.stalled = None;
        self.state.began.put_forward(&hold.record, claim.for_value);
        if self.gives_up() {
            hold.record.put_outcome(claim.for_value, Outcome::NotStarted);
            hold.outcome_unwritten = true;
        } else {
            self.start_turn(hold, claim);
        }
    }

    /// Gives up a leadership without work that gets through: none for two leases since the first try. A
    /// try and the renewal before it may be under way then, so that this is known at the latest two
    /// request time-outs and a back-off later.
    pub(super) fn unless_stalled(
        &mut self,
        hold: Hold,
        now: Moment,
        chance: &mut dyn Chance,
    ) -> Phase {
        let stalled = hold.stalled.map(|since| now.saturating_sub(since));
        let most = STALLED_LEASES * self.settings.timings.lease;
        let stalled = stalled.filter(|stalled| *stalled >= most);
        self.state.phase = Phase::Holding(hold);
        if let Some(stalled) = stalled {
            let span = self.state.health.cool_down(&self.settings.failure_policy, now, chance);
            self.report_problem(ProblemClass::Work, Health::explain_stall(stalled, span), now);
            let then = now + self.settings.timings.poll / 2;
            self.step_down(EndingReason::WorkFailed, now, then, None);
        }
        core::mem::replace(&mut self.state.phase, Phase::Left)
    }
}
