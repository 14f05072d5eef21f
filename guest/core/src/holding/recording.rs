//! Record writes of a leader: claims, outcomes, the name of its successor, the outcome of a transfer, beats. protocol.md
//! §5, §6, §13.
//!
//! What to write is decided anew before each try, so that a write which cannot be made ends with what
//! wanted it: an order that was called off, a slot that passed. Only a try that may have been applied is
//! read back first, and what is found is what the next decision begins with. A leader whose claims and
//! outcomes do not get on record steps down.

use core::time::Duration;

use super::super::Moment;
use super::super::agenda::{Due, Task};
use super::super::context::{Answered, Context, Gained, Outgoing};
use super::super::one_turn::Prospect;
use super::super::pace::Pace;
use super::super::phase::{Claim, Hold, Phase};
use super::super::problem::{Problem, ProblemClass};
use super::super::record::{Beat, End, Kind, LastSlot, MissedSlots, Outcome, Record, Started};
use super::super::report::{EndingReason, Turn, TurnResult};
use super::super::service_clock::Timestamp;
use super::super::slots::Delivery;
use super::super::timings::BACK_OFF;
use super::super::turn_key::turn_key;
use super::super::write::{Progress, Write};
use super::{end, lose, unless_stalled};
use crate::mutants::{self, mutant};
use tenure_azure::metadata::Metadata;
use tenure_azure::operation::{ETag, Operation};
use tenure_base::prelude::*;

/// A turn's outcome is written by itself when the next claim, on which it could ride, is further away than
/// this: people look at it, and it is to be there within five seconds.
const RIDE: Duration = Duration::from_secs(4);

/// It rides at any rate where slots come closer than this: a write for each would be half as many again.
const CLOSE: Duration = Duration::from_secs(10);

/// How long after a turn went wrong its slot is tried again, the first time; twice as long each
/// time, up to [`LONGEST_REST`].
const REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(60);

/// A record to be written.
pub(crate) struct Wanted {
    pub(super) record: Record,
    /// It claims a turn.
    claim: Option<Claim>,
    /// It is the end of this one.
    abandoned: Option<Task>,
}

/// Puts the claim of a turn into the record.
fn put_claim(record: &mut Record, task: Task, delivery: Delivery) -> Claim {
    let kind = task.kind();
    let Task { slot, trigger, attempt, past_due, missed } = task;
    let claim = Claim { kind, past_due, missed };
    match trigger {
        Some(id) => {
            // Whatever is claimed again goes by the rule under which it was claimed first.
            let before = record.triggers.newest.as_ref().filter(|before| before.id == id);
            let delivery = before.map_or(delivery, |before| before.delivery);
            record.start(Started { id, slot, attempt, delivery, outcome: None });
        }
        None => {
            if missed > 0 {
                record.missed = Some(MissedSlots { slot, count: missed });
            }
            record.forget_end(slot);
            let before = record.last.replace(LastSlot { slot, attempt });
            if before.is_none_or(|before| before.slot != slot) {
                record.delivery = delivery;
            }
        }
    }
    claim
}

/// The time by which slots are counted: the service's.
fn slot_time(context: &Context<'_>) -> Option<Timestamp> {
    let time = context.service_time();
    mutants::memory::slot_time(context.state.nonce, context.now, time)
}

/// What is due by the agenda and the record.
pub(crate) fn due(hold: &Hold, context: &Context<'_>) -> Option<Due> {
    let due =
        context.settings.agenda.due_with(slot_time(context)?, &hold.record, &hold.orders.triggers);
    let rest = hold.rest_until.saturating_sub(context.now);
    Some(match due {
        _ if mutant!(NothingClaimed) => Due::Nothing,
        Due::Now(Task { attempt: 2.., .. }) if !rest.is_zero() => Due::In(rest),
        due => due,
    })
}

/// How far a leader is, for an invocation that is one whole turn.
pub(crate) fn prospect(hold: &Hold, context: &Context<'_>) -> Prospect {
    let due = matches!(due(hold, context), Some(Due::Now(_) | Due::Abandon(_)));
    let to_claim = due && context.state.turn.is_none();
    match slot_time(context) {
        Some(time) if hold.write.is_none() && !to_claim => {
            Prospect::Leading { record: Box::new(hold.record.clone()), time }
        }
        _ => Prospect::UnderWay,
    }
}

/// Reports a schedule that cannot be followed.
pub(crate) fn report_slot_ahead(hold: &Hold, context: &mut Context<'_>) {
    if let Some(Due::Ahead(_)) = due(hold, context) {
        let slot = hold.record.last.map(|last| last.slot).unwrap_or_default();
        context.report(Some(Problem::of_slot_ahead(slot)));
    }
}

/// What is to be on record now; none: what is there. A slot that is due is claimed, the end of a turn
/// recorded, but not while a turn runs; a successor is named at any time. Once a claim or an outcome
/// did not get through, a leader tries until a write does, also when nothing else is to be written. A leader
/// that beats writes at any rate when the next beat is due; whatever else is to be written rides on it.
pub(crate) fn wanted(hold: &Hold, context: &Context<'_>) -> Option<Wanted> {
    let (steering, idle) = (&context.state.steering, context.state.turn.is_none());
    let successor = steering.hand_over().map(|order| order.to.clone());
    let due = due(hold, context).filter(|_| idle && !steering.is_final());
    let complete = idle && outcome_is_to_be_written(hold, due.as_ref(), context);
    let names = hold.names(successor.as_deref());
    let refusal = steering.refusal.clone().or_else(|| hold.record.refusal.clone());
    let refuses = refusal != hold.record.refusal;
    let mut record = Record { successor, refusal, ..hold.record.clone() };
    let (mut claim, mut abandoned) = (None, None);
    match due {
        Some(Due::Now(task)) => {
            claim = Some(put_claim(&mut record, task, context.settings.agenda.delivery));
        }
        Some(Due::Abandon(task)) => {
            record.put_outcome(task.kind(), end_of(Outcome::Abandoned, None, context));
            abandoned = Some(task);
        }
        // Whatever this candidate's own schedule: an operator's has none.
        _ if idle && hold.resets_slot => {
            record.last = Some(context.settings.agenda.begin(slot_time(context)?));
        }
        _ if complete
            || !names
            || refuses
            || hold.stalled.is_some()
            || is_beat_due(hold, context) => {}
        _ => return None,
    }
    Some(Wanted { record, claim, abandoned })
}

/// Whether a write of this record has a claim or an outcome, and not just a beat or the name of a successor.
pub(super) fn is_of_work(hold: &Hold, record: &Record) -> bool {
    hold.outcome_unwritten || !record.has_turns_of(&hold.record)
}

/// The next beat. No two tries have the same number: an earlier one may still be applied, and be read.
fn next_beat(hold: &mut Hold, context: &Context<'_>, reused: bool) -> Option<Beat> {
    let (beats, failover) = (hold.beats.as_mut()?, context.failover()?);
    beats.number += u64::from(!reused);
    Some(Beat { number: beats.number, promise: failover.promise() })
}

/// One that may not beat any more takes its promise back.
fn is_beat_due(hold: &Hold, context: &Context<'_>) -> bool {
    hold.beats.is_some_and(|beats| beats.next <= context.now || context.failover().is_none())
}

/// Whether an outcome is to be written by itself: people look at it, and at-least-once
/// delivery is done with the slot only then. With at-most-once it rides on the next beat, or on a claim
/// that comes soon.
fn outcome_is_to_be_written(hold: &Hold, due: Option<&Due>, context: &Context<'_>) -> bool {
    let record = &hold.record;
    let of_trigger = record.triggers.newest.as_ref().map(|newest| newest.delivery);
    let rules = [Some(record.delivery), of_trigger];
    let may_wait = rules.into_iter().flatten().all(|rule| rule == Delivery::AtMostOnce);
    let soon = match due {
        _ if mutant!(OutcomeWaitsForClaim) => true,
        _ if mutant!(OutcomeNeverRides) => false,
        Some(Due::In(wait)) => {
            let next = slot_time(context).map(|now| now.plus(*wait));
            let close = record.last.zip(next).is_some_and(|(last, next)| {
                next.since(last.slot.plus(context.settings.agenda.delay)) < CLOSE
            });
            *wait <= RIDE || close
        }
        _ => false,
    };
    hold.outcome_unwritten && !(may_wait && (soon || hold.beats.is_some()))
}

/// Writes what is to be on record, or reads what became of that.
pub(super) fn next(hold: &mut Hold, context: &mut Context<'_>) -> Option<Outgoing> {
    decide(hold, context);
    let write = hold.write.as_ref().filter(|write| write.pace.next <= context.now)?;
    let (now, timings) = (context.now, &context.settings.timings);
    let timeout = match timings.failover.filter(|_| hold.beats.is_some()) {
        Some(failover) => failover.timeout(hold.left(now)).min(timings.request_timeout),
        None => timings.for_a_write(now, hold.renew.next, hold.valid_until),
    };
    let operation = write.operation(hold.lease);
    let beats = mutant!(BeatWithoutCondition) && hold.beats.is_some();
    let operation = mutants::unconditional(mutant!(ClaimWithoutCondition) || beats, operation);
    Some(Outgoing { operation, timeout })
}

/// Decides what to write, unless it has to be known first what became of the last try.
fn decide(hold: &mut Hold, context: &mut Context<'_>) {
    let now = context.now;
    if hold.write.as_ref().is_some_and(|write| write.doubt.is_some() || write.pace.next > now) {
        return;
    }
    let wanted = wanted(hold, context);
    let pace = hold.write.take().map_or(Pace::at(now), |write| write.pace);
    hold.claiming = None;
    let Some(Wanted { mut record, claim, abandoned }) = wanted else { return };
    record.beat = next_beat(hold, context, mutant!(BeatNumberReused) && pace.failures > 0);
    hold.claiming = claim;
    claim.inspect(|claim| context.state.began.put_forward(&record, claim.kind));
    if let (true, Some(claim)) = (mutant!(ClaimNotAwaited), claim) {
        hold.record = record;
        return start_turn(hold, claim, context);
    }
    hold.write = Some(Write::new(record, hold.etag.clone(), pace));
    if let Some(Task { slot, trigger, attempt, .. }) = abandoned {
        let what = match trigger {
            Some(id) => format!("the trigger {id}"),
            None => format!("the slot {}", slot.to_rfc3339()),
        };
        let detail = format!(
            "{what} is abandoned after its last attempt ({attempt}); find out why all attempts failed. \
             TENURE_MAX_ATTEMPTS limits them"
        );
        context.report_problem(ProblemClass::Work, detail);
    }
}

/// Takes the answer.
pub(super) fn answered(mut hold: Hold, answered: Answered<'_>, context: &mut Context<'_>) -> Phase {
    let now = context.now;
    let Some(mut write) = hold.write.take() else { return Phase::Holding(hold) };
    let is_read = matches!(answered.operation, Operation::Read { .. });
    match write.answered(answered.answer(), answered.sent) {
        Progress::Done(_, _) if now >= hold.valid_until => {
            // Too late: it does not resurrect the leadership.
            return end(&hold, EndingReason::ValidityEnded, context);
        }
        // Nothing new was to be on record, and a read shows what was there before: that does not tell that a write got
        // through.
        Progress::Done(etag, _)
            if is_read && !hold.outcome_unwritten && hold.record.shows(&write.record) =>
        {
            hold.etag = etag.clone();
            write.try_again(etag, now);
        }
        Progress::Done(etag, sent) => {
            hold.etag = etag;
            let since = if mutant!(PromiseFromAnswer) { now } else { sent };
            context.effects.turns_changed |= !write.record.has_turns_of(&hold.record);
            hold.record = write.record;
            if hold.beats.is_some() {
                context.effects.gained = Some(Gained::Beat);
            }
            match hold.record.beat {
                Some(_) => hold.beaten(since, context.settings.timings.failover),
                None => hold.goes_by_lease(),
            }
            (hold.outcome_unwritten, hold.stalled) = (false, None);
            hold.resets_slot &= is_ahead(&hold.record, context);
            if let Some(order) = context.state.steering.hand_over_mut() {
                let took = now.saturating_sub(answered.sent);
                order.named(hold.record.successor.as_deref(), took, now, &context.settings.timings);
            }
            if let Some(claim) = hold.claiming.take() {
                claimed(&mut hold, claim, context);
            }
            return Phase::Holding(hold);
        }
        Progress::NotApplied(found, etag) => {
            if let Some(claim) = hold.found(found.clone(), etag.clone()) {
                // An earlier try got through after all, and its turn was never started.
                (hold.claiming, hold.stalled) = (None, None);
                context.state.began.put_forward(&hold.record, claim.kind);
                claimed(&mut hold, claim, context);
                return Phase::Holding(hold);
            }
            write.begin_again(found, etag, now);
        }
        Progress::Again => {
            if write.pace.failures > 0 {
                context.report_reply(&answered);
            }
            write.pace.failed(now, BACK_OFF, answered.chance);
            if is_of_work(&hold, &write.record) && context.state.turn.is_none() {
                hold.stalled.get_or_insert(answered.sent);
            }
        }
        Progress::LeaseLost => return lose(&hold, &answered, context),
        Progress::Outdone => {
            let detail = "the record was overwritten while this candidate held the lease: a follower took \
                          over when beats stopped, or somebody broke the lease or restored the blob";
            context.report_problem(ProblemClass::LeaseLost, detail.into());
            return end(&hold, EndingReason::LeaseLost, context);
        }
    }
    hold.write = Some(write);
    unless_stalled(hold, context, answered.chance)
}

/// Has the host run the turn that was claimed last.
fn start_turn(hold: &Hold, claim: Claim, context: &mut Context<'_>) {
    let record = &hold.record;
    let Some(LastSlot { slot, attempt }) = record.claim(claim.kind) else { return };
    let trigger = record.newest(claim.kind).map(|newest| newest.id.clone());
    let settings = context.settings;
    let turn = Turn {
        election: settings.election.to_string(),
        key: turn_key(slot, trigger.as_deref(), settings),
        term: record.term,
        slot,
        trigger,
        attempt,
        past_due: claim.past_due,
        missed: claim.missed,
        valid_for: hold.valid_until.saturating_sub(context.started),
        time_limit: settings.failure_policy.turn_timeout.filter(|_| !mutant!(TurnWithoutLimit)),
        share: None,
    };
    context.state.turn = Some(turn.clone());
    context.state.turn_began = context.now;
    context.effects.run = Some(turn);
}

/// Has the host run the turn that was claimed. A leader that gives its leadership up says on record that the turn did
/// not begin.
fn claimed(hold: &mut Hold, claim: Claim, context: &mut Context<'_>) {
    if context.state.steering.is_final() {
        hold.record.put_outcome(claim.kind, end_of(Outcome::NotStarted, None, context));
        hold.outcome_unwritten = true;
    } else {
        start_turn(hold, claim, context);
    }
}

/// The end of a turn that began then.
#[inline(never)]
fn end_of(outcome: Outcome, began: Option<Moment>, context: &Context<'_>) -> End {
    let at = slot_time(context).unwrap_or_default();
    End { outcome, at, took: began.map(|began| context.now.saturating_sub(began)) }
}

/// Takes the end of a turn that was claimed under this lease.
pub(crate) fn turn_ended(
    hold: &mut Hold,
    turn: &Turn,
    result: &TurnResult,
    context: &mut Context<'_>,
) {
    let outcome = result.outcome;
    if mutant!(OutcomeNotRecorded) && hold.record.delivery == Delivery::AtMostOnce {
        return;
    }
    let began = Some(context.state.turn_began).filter(|_| outcome != Outcome::NotStarted);
    let end = end_of(outcome, began, context);
    context.effects.turns_changed = true;
    // A successor may be named while a turn runs.
    let written = hold.write.as_mut().map(|write| &mut write.record);
    for record in [&mut hold.record].into_iter().chain(written) {
        record.put_outcome(turn.kind(), end);
        if let Some(reason) = &result.reason {
            record.put_reason(end, reason);
        }
    }
    hold.outcome_unwritten = true;
    if outcome != Outcome::Succeeded {
        let times = 1_u32.checked_shl(turn.attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        hold.rest_until = context.now + REST.saturating_mul(times).min(LONGEST_REST);
    }
}

/// Forgets a claimed slot that lies in the future, on an operator's word.
pub(crate) fn reset_slot(hold: &mut Hold, context: &Context<'_>) {
    if slot_time(context).is_some() {
        hold.resets_slot = is_ahead(&hold.record, context);
    }
}

fn is_ahead(record: &Record, context: &Context<'_>) -> bool {
    let agenda = &context.settings.agenda;
    slot_time(context).is_some_and(|time| agenda.ahead(time, record).is_some())
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
            self.record.refusal = found.refusal;
            self.outcome_unwritten = true;
            return None;
        }
        let mut record = *found.clone();
        (record.success, record.failure) = (self.record.success, self.record.failure);
        record.failure_detail.clone_from(&self.record.failure_detail);
        let mut late = None;
        if record.last == self.record.last {
            record.finished = self.record.finished;
        } else if record.last.is_some_and(|last| last.attempt > 0) {
            late = Some(Kind::Slot);
        }
        match (&mut record.triggers.newest, &self.record.triggers.newest) {
            (Some(there), Some(ours)) if (&there.id, there.attempt) == (&ours.id, ours.attempt) => {
                there.outcome = ours.outcome;
            }
            (Some(there), _) if there.outcome.is_none() => late = Some(Kind::Trigger),
            _ => {}
        }
        self.outcome_unwritten = !record.has_turns_of(&found);
        self.record = record;
        late.map(|kind| Claim { kind, past_due: false, missed: 0 })
    }
}

/// Whether the turns on one record were claimed before those on the other.
fn is_older(one: &Record, other: &Record) -> bool {
    let claim = |record: &Record, kind| record.claim(kind).map(|c| (c.slot, c.attempt));
    [Kind::Slot, Kind::Trigger].into_iter().any(|kind| claim(one, kind) < claim(other, kind))
}
