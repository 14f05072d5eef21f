//! Leading: renewals, beats, and the end of a leadership. protocol.md §5, §7.1, §13. What a leader puts on
//! record is in `recording`.

mod recording;

pub(super) use recording::{due, prospect, report_slot_ahead, reset_slot, turn_ended, wanted};

use core::time::Duration;

use super::chance::Chance;
use super::context::{Answered, Context, Gained, Outgoing};
use super::handing_over;
use super::health::Health;
use super::pace::Pace;
use super::phase::{Hold, Phase};
use super::problem::{Problem, ProblemClass};
use super::releasing::{self, step_down};
use super::report::{Ending, EndingReason};
use super::service_clock::nanos;
use super::timings::BACK_OFF;
use crate::mutants::{memory, mutant};
use tenure_azure::answer::Class;
use tenure_azure::operation::Operation;

/// So long after a renewal was answered no other one is due: where renewals take longer than the time
/// between them, a record write goes out in this gap.
const GAP: Duration = Duration::from_millis(250);

/// Where a lease lasts for no more tries of a renewal than these, the next one has all the time that beats can spare.
const TRIES: u32 = 3;

/// A leader whose claims and outcomes do not get on record for so many leases steps down.
const STALLED_LEASES: u32 = 2;

/// Renews before anything else; then writes what is to be written; then claims. A leader that beats writes
/// first: its promise ends before its lease.
pub(super) fn next(mut hold: Hold, context: &mut Context<'_>) -> (Phase, Option<Outgoing>) {
    let left = hold.left(context.now);
    if left.is_zero() {
        return (end(&hold, EndingReason::ValidityEnded, context), None);
    }
    if let Some(release) = handing_over::give_up(&mut hold, context) {
        return releasing::next(release, context);
    }
    if hold.beats.is_some()
        && let Some(write) = recording::next(&mut hold, context)
    {
        return (Phase::Holding(hold), Some(write));
    }
    if hold.renew.next <= context.now {
        // Where renewals take so long that one is always due, no write would ever be tried.
        let is_work = |wanted: recording::Wanted| recording::is_of_work(&hold, &wanted.record);
        if context.state.turn.is_none() && wanted(&hold, context).is_some_and(is_work) {
            hold.stalled.get_or_insert(context.now);
        }
        let operation = Operation::Renew { lease: hold.lease };
        let timings = &context.settings.timings;
        let most = match (hold.beats, timings.failover) {
            (Some(beats), Some(failover)) => {
                let promised = beats.until.saturating_sub(context.now);
                let lasts = hold.lease_until.saturating_sub(context.now);
                let urgent = !hold.is_renewed() || lasts < TRIES * timings.request_timeout;
                failover.beside(promised, urgent).min(left)
            }
            _ => left,
        };
        let timeout = timings.request_timeout.min(most);
        return (Phase::Holding(hold), Some(Outgoing { operation, timeout }));
    }
    // The next try of a renewal that failed comes soon, and a turn would soon be cut off.
    let write = if hold.is_renewed() { recording::next(&mut hold, context) } else { None };
    (Phase::Holding(hold), write)
}

/// Takes the answer.
pub(super) fn answered(hold: Hold, answered: Answered<'_>, context: &mut Context<'_>) -> Phase {
    match answered.operation {
        Operation::Renew { .. } => renewed(hold, answered, context),
        _ => recording::answered(hold, answered, context),
    }
}

fn renewed(mut hold: Hold, answered: Answered<'_>, context: &mut Context<'_>) -> Phase {
    let (now, timings) = (context.now, &context.settings.timings);
    match answered.answer().map(|answer| (answer.class, answer.lease)) {
        Some((Class::Done, lease))
            if lease == Some(hold.lease)
                || mutant!(LeaseIdNotCompared)
                || mutant!(LeaseIdAdopted) =>
        {
            if let (true, Some(lease)) = (mutant!(LeaseIdAdopted), lease) {
                hold.lease = lease;
            }
            if now >= hold.valid_until && !mutant!(LateRenewalAdopted) {
                // Too late: it does not resurrect the leadership.
                return end(&hold, EndingReason::ValidityEnded, context);
            }
            hold.renewed(timings.valid_until(answered.sent, now));
            if mutant!(RenewalExtendsPromise) {
                hold.beaten(answered.sent, timings.failover);
            }
            // Up to an eighth early, so that the answers come at all phases of a second:
            // their dates have whole seconds, and the service's clock is read from them.
            let early = answered.chance.bits() % nanos(timings.renew / 8);
            let next = answered.sent + timings.renew - Duration::from_nanos(early);
            let gap = GAP.min(timings.beside_renewals(now, hold.lease_until));
            hold.renew = Pace::at(next.max(now + gap));
            context.effects.gained = Some(Gained::Renewal);
            unless_stalled(hold, context, answered.chance)
        }
        // Azurite renews whoever holds the lease, whatever the id that was sent.
        Some((
            Class::Done
            | Class::Conflict
            | Class::LeaseMismatch
            | Class::MissingBlob
            | Class::MissingContainer,
            _,
        )) => lose(&hold, &answered, context),
        Some((
            Class::Refused | Class::Unavailable | Class::Nonsense | Class::ConditionNotMet,
            _,
        ))
        | None => {
            if answered.is_refused() || hold.renew.failures > 0 {
                context.report_reply(&answered);
            }
            hold.renew.failed(now, BACK_OFF, answered.chance);
            Phase::Holding(hold)
        }
    }
}

/// The service says that the lease is gone: there is nothing to release.
fn lose(hold: &Hold, answered: &Answered<'_>, context: &mut Context<'_>) -> Phase {
    if let Some(answer) = answered.answer() {
        let detail = Problem::of_answer(answer, answered.operation, context.settings).detail;
        context.report_problem(ProblemClass::LeaseLost, detail);
    }
    end(hold, EndingReason::LeaseLost, context);
    Phase::Stopping { lease: None }
}

/// Ends the leadership. The host stops the work; what follows waits until it was seen stopped.
fn end(hold: &Hold, reason: EndingReason, context: &mut Context<'_>) -> Phase {
    memory::given_up(hold);
    context.state.steering.settle();
    context.effects.ending = Some(Ending { term: hold.record.term, reason });
    if context.effects.run.take().is_some() {
        context.state.turn = None; // Claimed in this very step, and never to be started.
    }
    Phase::Stopping { lease: Some(hold.lease) }
}

/// Gives up a leadership without work that gets through: none for two leases since the first try. A
/// try and the renewal before it may be under way then, so that this is known at the latest two
/// request time-outs and a back-off later.
fn unless_stalled(hold: Hold, context: &mut Context<'_>, chance: &mut dyn Chance) -> Phase {
    let (now, settings) = (context.now, context.settings);
    let most = STALLED_LEASES * settings.timings.lease;
    let stalled = hold.stalled.map(|since| now.saturating_sub(since));
    let Some(stalled) = stalled.filter(|stalled| *stalled >= most && !mutant!(StalledLeaderStays))
    else {
        return Phase::Holding(hold);
    };
    let span = context.state.health.cool_down(&settings.failure_policy, now, chance);
    context.report_problem(ProblemClass::Work, Health::explain_stall(stalled, span));
    Phase::Releasing(step_down(&hold, EndingReason::WorkFailed, context))
}
