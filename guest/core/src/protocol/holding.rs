//! Leading: renewals, and the end of a leadership. protocol.md §5, §7.1, §13. The module
//! `recording` has the writes of the record, beats included.

mod recording;

pub(crate) use recording::{
    due, on_turn_ended, plan_record, progress, report_slot_ahead, reset_slot,
};

use core::time::Duration;

use super::context::{CompletedRequest, Context, Extension, UnsignedRequest};
use super::handing_over;
use super::health::Health;
use super::phase::{Hold, Phase};
use super::releasing::{self, step_down};
use crate::mutants::{memory, mutant};
use crate::step::clocks::nanos;
use crate::step::pace::{Chance, RetrySchedule};
use crate::step::problem::{Problem, ProblemClass};
use crate::step::report::{Ending, EndingReason};
use crate::step::settings::timings::BACK_OFF;
use tenure_azure::answer::Class;
use tenure_azure::operation::Operation;

/// Minimum gap after an answered renewal, reserved for a record write. Without it, renewals that
/// take longer than their interval would leave no time for writes.
const RENEWAL_GAP: Duration = Duration::from_millis(250);

/// Number of renewal tries below which a renewal is urgent: if the lease has no time for so many,
/// the next try gets all the time that beats can spare.
const RENEWAL_TRIES: u32 = 3;

/// Number of lease periods without a recorded claim or outcome after which a leader steps down.
const STALLED_LEASES: u32 = 2;

/// Returns the next request of a leader: a renewal if one is due, then a write of the record. A
/// leader that beats writes first, because its promise ends before its lease.
pub(crate) fn next(mut hold: Hold, context: &mut Context<'_>) -> (Phase, Option<UnsignedRequest>) {
    let time_left = hold.time_left(context.now);
    if time_left.is_zero() {
        return (end_leadership(&hold, EndingReason::ValidityEnded, context), None);
    }
    if let Some(release) = handing_over::give_up(&mut hold, context) {
        return releasing::next(release, context);
    }
    if hold.beats.is_some()
        && let Some(write) = recording::next(&mut hold, context)
    {
        return (Phase::Holding(hold), Some(write));
    }
    if hold.renew.next_at <= context.now {
        // Renewals may be so slow that one is always due and no write is ever tried. That counts as
        // a stall too.
        let is_work =
            |planned: recording::PlannedRecord| recording::has_work(&hold, &planned.record);
        if context.state.turn.is_none() && plan_record(&hold, context).is_some_and(is_work) {
            hold.stalled_since.get_or_insert(context.now);
        }
        let operation = Operation::Renew { lease: hold.lease };
        let timings = &context.settings.timings;
        let longest = match (hold.beats, timings.failover) {
            (Some(beats), Some(failover)) => {
                let promise_left = beats.acts_until.saturating_sub(context.now);
                let lease_left = hold.lease_until.saturating_sub(context.now);
                let is_urgent =
                    !hold.is_renewed() || lease_left < RENEWAL_TRIES * timings.request_timeout;
                failover.renewal_timeout(promise_left, is_urgent).min(time_left)
            }
            _ => time_left,
        };
        let timeout = timings.request_timeout.min(longest);
        return (Phase::Holding(hold), Some(UnsignedRequest { operation, timeout }));
    }
    // After a failed renewal the next try comes soon, and a new turn might be cut off.
    let write = if hold.is_renewed() { recording::next(&mut hold, context) } else { None };
    (Phase::Holding(hold), write)
}

pub(crate) fn on_answer(
    hold: Hold,
    completed: CompletedRequest<'_>,
    context: &mut Context<'_>,
) -> Phase {
    match completed.operation {
        Operation::Renew { .. } => on_renewal_answer(hold, completed, context),
        _ => recording::on_answer(hold, completed, context),
    }
}

fn on_renewal_answer(
    mut hold: Hold,
    completed: CompletedRequest<'_>,
    context: &mut Context<'_>,
) -> Phase {
    let (now, timings) = (context.now, &context.settings.timings);
    match completed.answer().map(|answer| (answer.class, answer.lease)) {
        Some((Class::Done, lease))
            if lease == Some(hold.lease)
                || mutant!(LeaseIdNotCompared)
                || mutant!(LeaseIdAdopted) =>
        {
            if let (true, Some(lease)) = (mutant!(LeaseIdAdopted), lease) {
                hold.lease = lease;
            }
            if now >= hold.valid_until && !mutant!(LateRenewalAdopted) {
                // The answer came too late: an ended leadership does not resume.
                return end_leadership(&hold, EndingReason::ValidityEnded, context);
            }
            hold.extend_lease(timings.valid_until(completed.sent_at, now));
            if mutant!(RenewalExtendsPromise) {
                hold.on_beat_acknowledged(completed.sent_at, timings.failover);
            }
            // Up to an eighth early, so that answers arrive at all phases of a second. Their dates
            // have whole seconds, and the service's clock is derived from them.
            let jitter = completed.chance.bits() % nanos(timings.renew / 8);
            let next = completed.sent_at + timings.renew - Duration::from_nanos(jitter);
            let gap = RENEWAL_GAP.min(timings.background_timeout(now, hold.lease_until));
            hold.renew = RetrySchedule::due_at(next.max(now + gap));
            context.effects.extension = Some(Extension::Renewal);
            step_down_if_stalled(hold, context, completed.chance)
        }
        // `Done` with another lease id: Azurite renews any holder's lease, whatever id was sent.
        Some((
            Class::Done
            | Class::Conflict
            | Class::LeaseMismatch
            | Class::MissingBlob
            | Class::MissingContainer,
            _,
        )) => on_lease_lost(&hold, &completed, context),
        Some((
            Class::Refused | Class::Unavailable | Class::Nonsense | Class::ConditionNotMet,
            _,
        ))
        | None => {
            if completed.is_refused() || hold.renew.failures > 0 {
                context.report_failure(&completed);
            }
            hold.renew.on_failure(now, BACK_OFF, completed.chance);
            Phase::Holding(hold)
        }
    }
}

/// Ends a leadership whose lease is lost, according to the service. There is nothing to release.
fn on_lease_lost(
    hold: &Hold,
    completed: &CompletedRequest<'_>,
    context: &mut Context<'_>,
) -> Phase {
    if let Some(answer) = completed.answer() {
        let detail = Problem::from_answer(answer, completed.operation, context.settings).detail;
        context.report_problem(ProblemClass::LeaseLost, detail);
    }
    end_leadership(hold, EndingReason::LeaseLost, context);
    Phase::Stopping { lease: None }
}

/// Ends the leadership. The next phase waits until the host reports that the work has stopped.
fn end_leadership(hold: &Hold, reason: EndingReason, context: &mut Context<'_>) -> Phase {
    memory::on_leadership_ended(hold);
    context.state.steering.clear();
    context.effects.ending = Some(Ending { term: hold.record.term, reason });
    if context.effects.turn_to_start.take().is_some() {
        context.state.turn = None; // Claimed in this very step: the host never starts it.
    }
    Phase::Stopping { lease: Some(hold.lease) }
}

/// Steps down if no claim or outcome was recorded for two lease periods since the first try. The
/// check follows each answer. So it may come two request time-outs and a back-off later, those of a
/// renewal and a write.
fn step_down_if_stalled(hold: Hold, context: &mut Context<'_>, chance: &mut dyn Chance) -> Phase {
    let (now, settings) = (context.now, context.settings);
    let longest_stall = STALLED_LEASES * settings.timings.lease;
    let stalled = hold.stalled_since.map(|since| now.saturating_sub(since));
    let Some(stalled) =
        stalled.filter(|stalled| *stalled >= longest_stall && !mutant!(StalledLeaderStays))
    else {
        return Phase::Holding(hold);
    };
    let cool_down = context.state.health.cool_down(&settings.failure_policy, now, chance);
    context.report_problem(ProblemClass::Work, Health::explain_stall(stalled, cool_down));
    Phase::Releasing(step_down(&hold, EndingReason::WorkFailed, context))
}
