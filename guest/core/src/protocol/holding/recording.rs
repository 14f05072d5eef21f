//! Record writes of a leader: claims, outcomes, the name of its successor, the outcome of a
//! transfer, beats. protocol.md §5, §6, §13.
//!
//! Each try plans the write anew. So a write that failed is dropped when its cause no longer
//! exists, such as a cancelled order. If a try may have been applied, a read comes first, and the
//! next plan starts from its result. A leader that cannot record its claims and outcomes steps
//! down.

use core::time::Duration;

use super::super::context::{CompletedRequest, Context, Extension, UnsignedRequest};
use super::super::one_turn::StepProgress;
use super::super::phase::{Claim, Hold, Phase};
use super::{end_leadership, on_lease_lost, step_down_if_stalled};
use crate::Moment;
use crate::mutants::{self, mutant};
use crate::record::metadata::{Beat, End, Kind, LastSlot, MissedSlots, Outcome, Record, Started};
use crate::record::write::{Progress, Write};
use crate::schedule::agenda::{Due, Task};
use crate::schedule::slots::Delivery;
use crate::schedule::turns::turn_key;
use crate::step::clocks::Timestamp;
use crate::step::pace::RetrySchedule;
use crate::step::problem::{Problem, ProblemClass};
use crate::step::report::{EndingReason, Turn, TurnResult};
use crate::step::settings::timings::BACK_OFF;
use tenure_azure::blob::Metadata;
use tenure_azure::operation::{ETag, Operation};
use tenure_base::prelude::*;

/// Maximum time for which a turn's outcome waits for the next claim, to share its write. Operators
/// should see outcomes within five seconds.
const MAX_RIDE_WAIT: Duration = Duration::from_secs(4);

/// Distance of two slots below which an outcome always shares the write of the next claim. With
/// such frequent turns, separate writes would add too many requests.
const CLOSE_SLOTS: Duration = Duration::from_secs(10);

/// Pause after a failed turn before its slot is tried again. It doubles each time, up to
/// [`MAX_RETRY_PAUSE`].
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(60);

/// A record to be written.
pub(crate) struct PlannedRecord {
    pub(super) record: Record,
    /// The turn that the write claims, if any.
    claim: Option<Claim>,
    /// The task that the write abandons, if any.
    abandoned: Option<Task>,
}

/// Puts the claim of a turn into the record.
fn put_claim(record: &mut Record, task: Task, delivery: Delivery) -> Claim {
    let kind = task.kind();
    let Task { slot, trigger, attempt, past_due, missed } = task;
    let claim = Claim { kind, past_due, missed };
    match trigger {
        Some(id) => {
            // A further attempt keeps the rule of the first claim.
            let previous = record.triggers.newest.as_ref().filter(|newest| newest.id == id);
            let delivery = previous.map_or(delivery, |previous| previous.delivery);
            record.start(Started { id, slot, attempt, delivery, outcome: None });
        }
        None => {
            if missed > 0 {
                record.missed = Some(MissedSlots { slot, count: missed });
            }
            record.forget_end(slot);
            let previous = record.last_slot.replace(LastSlot { slot, attempt });
            if previous.is_none_or(|previous| previous.slot != slot) {
                record.delivery = delivery;
            }
        }
    }
    claim
}

/// Returns the service's time, by which slots are counted.
fn slot_time(context: &Context<'_>) -> Option<Timestamp> {
    let time = context.service_time();
    mutants::memory::slot_time(context.state.nonce, context.now, time)
}

/// Returns what is due according to the agenda and the record.
pub(crate) fn due(hold: &Hold, context: &Context<'_>) -> Option<Due> {
    let due = context.settings.agenda.due_with_triggers(
        slot_time(context)?,
        &hold.record,
        &hold.orders.triggers,
    );
    let retry_wait = hold.retry_after.saturating_sub(context.now);
    Some(match due {
        _ if mutant!(NothingClaimed) => Due::Nothing,
        Due::Now(Task { attempt: 2.., .. }) if !retry_wait.is_zero() => Due::In(retry_wait),
        due => due,
    })
}

/// Returns the progress of a leader, for an invocation that is one whole turn.
pub(crate) fn progress(hold: &Hold, context: &Context<'_>) -> StepProgress {
    let is_due = matches!(due(hold, context), Some(Due::Now(_) | Due::Abandon(_)));
    let must_claim = is_due && context.state.turn.is_none();
    match slot_time(context) {
        Some(time) if hold.write.is_none() && !must_claim => {
            StepProgress::Leading { record: Box::new(hold.record.clone()), time }
        }
        _ => StepProgress::UnderWay,
    }
}

/// Reports a last claimed slot that lies in the future, so that no slot can be claimed.
pub(crate) fn report_slot_ahead(hold: &Hold, context: &mut Context<'_>) {
    if let Some(Due::Ahead(_)) = due(hold, context) {
        let slot = hold.record.last_slot.map(|last| last.slot).unwrap_or_default();
        context.report(Some(Problem::slot_ahead(slot)));
    }
}

/// Returns the record to write now. None if the record on the blob is up to date.
///
/// The record claims a due turn or has the end of a turn, but not while a turn runs. It names a
/// successor at any time. After a failed claim or outcome, the leader writes until a try succeeds,
/// even if nothing else is pending. A leader that beats writes whenever a beat is due; other
/// changes share that write.
pub(crate) fn plan_record(hold: &Hold, context: &Context<'_>) -> Option<PlannedRecord> {
    let (steering, is_idle) = (&context.state.steering, context.state.turn.is_none());
    let successor = steering.hand_over().map(|order| order.successor_name.clone());
    let due = due(hold, context).filter(|_| is_idle && !steering.forbids_new_turns());
    let must_write_outcome = is_idle && is_outcome_write_due(hold, due.as_ref(), context);
    let names_successor = hold.names_successor(successor.as_deref());
    let refusal = steering.refusal.clone().or_else(|| hold.record.refusal.clone());
    let has_new_refusal = refusal != hold.record.refusal;
    let mut record = Record { successor, refusal, ..hold.record.clone() };
    let (mut claim, mut abandoned) = (None, None);
    match due {
        Some(Due::Now(task)) => {
            claim = Some(put_claim(&mut record, task, context.settings.agenda.delivery));
        }
        Some(Due::Abandon(task)) => {
            record.put_outcome(task.kind(), turn_end(Outcome::Abandoned, None, context));
            abandoned = Some(task);
        }
        // Independent of this candidate's own schedule: an operator's candidate has none.
        _ if is_idle && hold.is_reset_requested => {
            record.last_slot = Some(context.settings.agenda.initial_slot(slot_time(context)?));
        }
        _ if must_write_outcome
            || !names_successor
            || has_new_refusal
            || hold.stalled_since.is_some()
            || is_beat_due(hold, context) => {}
        _ => return None,
    }
    Some(PlannedRecord { record, claim, abandoned })
}

/// Returns true if this record has a claim or an outcome to write, not only a beat or a successor.
pub(super) fn has_work(hold: &Hold, record: &Record) -> bool {
    hold.has_unwritten_outcome || !record.has_same_turns(&hold.record)
}

/// Returns the next beat. Each try has its own number, because an earlier try may still be applied
/// and be read. `is_reused` keeps the number, for a seeded bug.
fn next_beat(hold: &mut Hold, context: &Context<'_>, is_reused: bool) -> Option<Beat> {
    let (beats, failover) = (hold.beats.as_mut()?, context.failover()?);
    beats.number += u64::from(!is_reused);
    Some(Beat { number: beats.number, promise: failover.promise() })
}

/// Returns true if a beat is due, or if a leader that may no longer beat has to remove its promise
/// from the record.
fn is_beat_due(hold: &Hold, context: &Context<'_>) -> bool {
    hold.beats.is_some_and(|beats| beats.next <= context.now || context.failover().is_none())
}

/// Returns true if an outcome needs a separate write. Operators read it, and at-least-once delivery
/// needs it to finish the slot. With at-most-once delivery it shares the write of the next beat, or
/// of a claim that comes soon.
fn is_outcome_write_due(hold: &Hold, due: Option<&Due>, context: &Context<'_>) -> bool {
    let record = &hold.record;
    let trigger_delivery = record.triggers.newest.as_ref().map(|newest| newest.delivery);
    let rules = [Some(record.delivery), trigger_delivery];
    let may_wait = rules.into_iter().flatten().all(|rule| rule == Delivery::AtMostOnce);
    let is_claim_soon = match due {
        _ if mutant!(OutcomeWaitsForClaim) => true,
        _ if mutant!(OutcomeNeverRides) => false,
        Some(Due::In(wait)) => {
            let next = slot_time(context).map(|now| now.plus(*wait));
            let is_close = record.last_slot.zip(next).is_some_and(|(last, next)| {
                next.since(last.slot.plus(context.settings.agenda.delay)) < CLOSE_SLOTS
            });
            *wait <= MAX_RIDE_WAIT || is_close
        }
        _ => false,
    };
    hold.has_unwritten_outcome && !(may_wait && (is_claim_soon || hold.beats.is_some()))
}

/// Returns the planned write, or the read that shows whether it was applied.
pub(super) fn next(hold: &mut Hold, context: &mut Context<'_>) -> Option<UnsignedRequest> {
    plan_write(hold, context);
    let write = hold.write.as_ref().filter(|write| write.pace.next_at <= context.now)?;
    let (now, timings) = (context.now, &context.settings.timings);
    let timeout = match timings.failover.filter(|_| hold.beats.is_some()) {
        Some(failover) => failover.beat_timeout(hold.time_left(now)).min(timings.request_timeout),
        None => timings.write_timeout(now, hold.renew.next_at, hold.valid_until),
    };
    let operation = write.operation(hold.lease);
    let is_mutated =
        mutant!(ClaimWithoutCondition) || (mutant!(BeatWithoutCondition) && hold.beats.is_some());
    let operation = mutants::unconditional(is_mutated, operation);
    Some(UnsignedRequest { operation, timeout })
}

/// Plans the next write, unless the last try is in doubt or its retry is not due yet.
fn plan_write(hold: &mut Hold, context: &mut Context<'_>) {
    let now = context.now;
    if hold
        .write
        .as_ref()
        .is_some_and(|write| write.uncertain_since.is_some() || write.pace.next_at > now)
    {
        return;
    }
    let planned = plan_record(hold, context);
    let pace = hold.write.take().map_or(RetrySchedule::due_at(now), |write| write.pace);
    hold.pending_claim = None;
    let Some(PlannedRecord { mut record, claim, abandoned }) = planned else { return };
    record.beat = next_beat(hold, context, mutant!(BeatNumberReused) && pace.failures > 0);
    hold.pending_claim = claim;
    claim.inspect(|claim| context.state.claims.propose(&record, claim.kind));
    if let (true, Some(claim)) = (mutant!(ClaimNotAwaited), claim) {
        hold.record = record;
        return start_turn(hold, claim, context);
    }
    hold.write = Some(Write::new(record, hold.etag.clone(), pace));
    if let Some(Task { slot, trigger, attempt, .. }) = abandoned {
        let description = match trigger {
            Some(id) => format!("the trigger {id}"),
            None => format!("the slot {}", slot.to_rfc3339()),
        };
        let detail = format!(
            "{description} is abandoned after its last attempt ({attempt}); find out why all attempts failed. \
             TENURE_MAX_ATTEMPTS limits them"
        );
        context.report_problem(ProblemClass::Work, detail);
    }
}

/// Handles the answer to a write of the record, or to the read that shows whether it was applied.
pub(super) fn on_answer(
    mut hold: Hold,
    completed: CompletedRequest<'_>,
    context: &mut Context<'_>,
) -> Phase {
    let now = context.now;
    let Some(mut write) = hold.write.take() else { return Phase::Holding(hold) };
    let is_read = matches!(completed.operation, Operation::Read { .. });
    match write.on_answer(completed.answer(), completed.sent_at) {
        Progress::Done(_, _) if now >= hold.valid_until => {
            // The answer came too late: an ended leadership does not resume.
            return end_leadership(&hold, EndingReason::ValidityEnded, context);
        }
        // The write had nothing new, so the record before it looks the same. The read does not
        // prove that the write succeeded.
        Progress::Done(etag, _)
            if is_read
                && !hold.has_unwritten_outcome
                && hold.record.is_result_of(&write.record) =>
        {
            hold.etag = etag.clone();
            write.try_again(etag, now);
        }
        Progress::Done(etag, sent) => {
            hold.etag = etag;
            let took = now.saturating_sub(completed.sent_at);
            on_record_written(&mut hold, write.record, (sent, took), context);
            return Phase::Holding(hold);
        }
        Progress::NotApplied(found, etag) => {
            if let Some(claim) = hold.merge_read(found.clone(), etag.clone()) {
                // An earlier try was applied after all, and its turn was never started.
                (hold.pending_claim, hold.stalled_since) = (None, None);
                context.state.claims.propose(&hold.record, claim.kind);
                on_claim_written(&mut hold, claim, context);
                return Phase::Holding(hold);
            }
            write.restart(found, etag, now);
        }
        Progress::Retry => {
            if write.pace.failures > 0 {
                context.report_failure(&completed);
            }
            write.pace.on_failure(now, BACK_OFF, completed.chance);
            if has_work(&hold, &write.record) && context.state.turn.is_none() {
                hold.stalled_since.get_or_insert(completed.sent_at);
            }
        }
        Progress::LeaseLost => return on_lease_lost(&hold, &completed, context),
        Progress::Superseded => {
            let detail = "the record was overwritten while this candidate held the lease: a follower took \
                          over when beats stopped, or the lease was broken, or the blob was restored";
            context.report_problem(ProblemClass::LeaseLost, detail.into());
            return end_leadership(&hold, EndingReason::LeaseLost, context);
        }
    }
    hold.write = Some(write);
    step_down_if_stalled(hold, context, completed.chance)
}

/// Applies a write that is on the blob. It was sent at `sent`; the request that showed its success
/// took `took`.
fn on_record_written(
    hold: &mut Hold,
    written: Record,
    (sent, took): (Moment, Duration),
    context: &mut Context<'_>,
) {
    let (now, timings) = (context.now, &context.settings.timings);
    let promised_at = if mutant!(PromiseFromAnswer) { now } else { sent };
    context.effects.turns_changed |= !written.has_same_turns(&hold.record);
    hold.record = written;
    if hold.beats.is_some() {
        context.effects.extension = Some(Extension::Beat);
    }
    match hold.record.beat {
        Some(_) => hold.on_beat_acknowledged(promised_at, timings.failover),
        None => hold.end_promise(),
    }
    (hold.has_unwritten_outcome, hold.stalled_since) = (false, None);
    hold.is_reset_requested &= is_ahead(&hold.record, context);
    if let Some(order) = context.state.steering.hand_over_mut() {
        order.on_record_written(hold.record.successor.as_deref(), took, now, timings);
    }
    if let Some(claim) = hold.pending_claim.take() {
        on_claim_written(hold, claim, context);
    }
}

/// Makes the host run the turn of a claim on record.
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
    context.state.turn_started = context.now;
    context.effects.turn_to_start = Some(turn);
}

/// Starts the claimed turn. A leader that gives up its leadership records instead that the turn did
/// not start.
fn on_claim_written(hold: &mut Hold, claim: Claim, context: &mut Context<'_>) {
    if context.state.steering.forbids_new_turns() {
        hold.record.put_outcome(claim.kind, turn_end(Outcome::NotStarted, None, context));
        hold.has_unwritten_outcome = true;
    } else {
        start_turn(hold, claim, context);
    }
}

/// Returns the end of a turn, as of now. Without `started_at` its duration is not known.
#[inline(never)]
fn turn_end(outcome: Outcome, started_at: Option<Moment>, context: &Context<'_>) -> End {
    let at = slot_time(context).unwrap_or_default();
    End { outcome, at, took: started_at.map(|began| context.now.saturating_sub(began)) }
}

/// Handles the end of a turn that was claimed under this lease.
pub(crate) fn on_turn_ended(
    hold: &mut Hold,
    turn: &Turn,
    result: &TurnResult,
    context: &mut Context<'_>,
) {
    let outcome = result.outcome;
    if mutant!(OutcomeNotRecorded) && hold.record.delivery == Delivery::AtMostOnce {
        return;
    }
    let started_at = Some(context.state.turn_started).filter(|_| outcome != Outcome::NotStarted);
    let end = turn_end(outcome, started_at, context);
    context.effects.turns_changed = true;
    // A write may be pending while a turn runs, such as one that names a successor.
    let pending_record = hold.write.as_mut().map(|write| &mut write.record);
    for record in [&mut hold.record].into_iter().chain(pending_record) {
        record.put_outcome(turn.kind(), end);
        if let Some(reason) = &result.reason {
            record.put_reason(end, reason);
        }
    }
    hold.has_unwritten_outcome = true;
    if outcome != Outcome::Succeeded {
        let factor = 1_u32.checked_shl(turn.attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        hold.retry_after = context.now + RETRY_PAUSE.saturating_mul(factor).min(MAX_RETRY_PAUSE);
    }
}

/// Requests that the record forgets a claimed slot that lies in the future, by an operator's order.
pub(crate) fn reset_slot(hold: &mut Hold, context: &Context<'_>) {
    if slot_time(context).is_some() {
        hold.is_reset_requested = is_ahead(&hold.record, context);
    }
}

fn is_ahead(record: &Record, context: &Context<'_>) -> bool {
    let agenda = &context.settings.agenda;
    slot_time(context).is_some_and(|time| agenda.slot_ahead(time, record).is_some())
}

impl Hold {
    /// Merges the record that a read found on the blob instead of the written one. Normally this
    /// leader wrote it, perhaps by an earlier try that was applied late. It lacks at most the
    /// outcome of the newest turn. Any other record is a restored older one, to be overwritten.
    ///
    /// Returns the claim of an earlier try that was applied after all. Its turn was never started.
    fn merge_read(&mut self, read_record: Option<Box<Record>>, etag: ETag) -> Option<Claim> {
        self.etag = etag;
        let Some(read_record) = read_record else {
            self.record.unknown = Metadata::default();
            self.has_unwritten_outcome = true;
            return None;
        };
        let is_own_term =
            (read_record.term, read_record.nonce) == (self.record.term, self.record.nonce);
        if !is_own_term || (has_older_claim(&read_record, &self.record) && !self.is_reset_requested)
        {
            (self.record.unknown, self.record.successor) =
                (read_record.unknown, read_record.successor);
            self.record.refusal = read_record.refusal;
            self.has_unwritten_outcome = true;
            return None;
        }
        let mut record = *read_record.clone();
        (record.success, record.failure) = (self.record.success, self.record.failure);
        record.failure_detail.clone_from(&self.record.failure_detail);
        let mut late_kind = None;
        if record.last_slot == self.record.last_slot {
            record.finished = self.record.finished;
        } else if record.last_slot.is_some_and(|last| last.attempt > 0) {
            late_kind = Some(Kind::Slot);
        }
        match (&mut record.triggers.newest, &self.record.triggers.newest) {
            (Some(read_newest), Some(known_newest))
                if (&read_newest.id, read_newest.attempt)
                    == (&known_newest.id, known_newest.attempt) =>
            {
                read_newest.outcome = known_newest.outcome;
            }
            (Some(read_newest), _) if read_newest.outcome.is_none() => {
                late_kind = Some(Kind::Trigger)
            }
            _ => {}
        }
        self.has_unwritten_outcome = !record.has_same_turns(&read_record);
        self.record = record;
        late_kind.map(|kind| Claim { kind, past_due: false, missed: 0 })
    }
}

/// Returns true if a claim on `record` is older than the one of the same kind on `reference`.
fn has_older_claim(record: &Record, reference: &Record) -> bool {
    let claim = |record: &Record, kind| record.claim(kind).map(|c| (c.slot, c.attempt));
    [Kind::Slot, Kind::Trigger].into_iter().any(|kind| claim(record, kind) < claim(reference, kind))
}
