//! Acquires the lease with the attempt's lease id. protocol.md §4.2. A successor polls for the lease
//! of its leader before (§7.2).
//!
//! A delayed acquire, applied after another candidate raised a term, meets a changed tag. So it
//! fails instead of leaving an orphaned lease.

use super::context::{CompletedRequest, Context, UnsignedRequest};
use super::phase::{Attempt, MOST_ROUNDS, Phase, Watch};
use super::raising;
use super::releasing::give_back;
use super::watching::{poll_again, report_unless, validate_next_record};
use crate::mutants::{self, mutant};
use crate::record::metadata::Record;
use crate::step::environment::Chance;
use crate::step::problem::Problem;
use crate::step::timings::RetrySchedule;
use tenure_azure::answer::{Class, LeaseState, Properties};
use tenure_azure::lease_id::LeaseId;
use tenure_azure::operation::{ETag, Operation};

/// Error codes of an acquire that another candidate's lease prevents.
const RACE_LOST: [&str; 2] = ["LeaseAlreadyPresent", "LeaseIsBreakingAndCannotBeAcquired"];

/// Acquires the lease with the same request until it is answered.
pub(crate) fn next(attempt: Attempt, context: &Context<'_>) -> (Phase, Option<UnsignedRequest>) {
    let timings = &context.settings.timings;
    let timeout = timings.request_timeout;
    if let Some(check) = &attempt.check {
        let operation = check.operation(context.settings);
        return (Phase::Acquiring(attempt), Some(UnsignedRequest { operation, timeout }));
    }
    let outgoing = (attempt.pace.next_at <= context.now).then(|| UnsignedRequest {
        operation: mutants::acquire(
            attempt.handed_over,
            Operation::Acquire {
                lease: attempt.lease,
                seconds: u32::try_from(timings.lease.as_secs()).unwrap_or(u32::MAX),
                if_match: Some(attempt.etag.clone()),
            },
        ),
        timeout,
    });
    (Phase::Acquiring(attempt), outgoing)
}

pub(crate) fn on_answer(
    mut attempt: Attempt,
    completed: CompletedRequest<'_>,
    context: &mut Context<'_>,
) -> Phase {
    if let Some(check) = attempt.check.take() {
        return match check.on_answer(&completed, context.settings) {
            Ok(check) => Phase::Acquiring(Attempt { check, ..attempt }),
            Err(problem) => {
                context.report(Some(problem));
                Phase::Watching(Watch::at(context.next_try(completed.chance)))
            }
        };
    }
    match completed.class() {
        Some(Class::Done) => {
            let is_granted =
                completed.answer().is_some_and(|answer| answer.lease == Some(attempt.lease));
            if is_granted || mutant!(LeaseIdNotCompared) {
                return raising::start(attempt, completed.sent_at, context, completed.chance);
            }
            context.report_failure(&completed);
            Phase::Watching(Watch::at(context.next_try(completed.chance)))
        }
        // Another candidate was faster.
        Some(Class::Conflict | Class::LeaseMismatch) => {
            report_unless(&RACE_LOST, &completed, context);
            Phase::Watching(Watch::at(context.next_after_race(completed.chance)))
        }
        Some(Class::ConditionNotMet | Class::MissingBlob | Class::MissingContainer) => {
            poll_again(attempt.rounds, context, completed.chance)
        }
        Some(Class::Refused) => {
            context.report_failure(&completed);
            let next = context.next_try(completed.chance);
            if !attempt.may_be_granted {
                return Phase::Watching(Watch::at(next));
            }
            // An earlier request may have been applied: repeat it until that is known.
            attempt.pace.next_at = next;
            Phase::Acquiring(attempt)
        }
        Some(Class::Unavailable | Class::Nonsense) | None => {
            if attempt.pace.failures > 0 {
                context.report_failure(&completed);
            }
            attempt.may_be_granted = true;
            attempt.pace.on_failure(
                context.now,
                context.settings.timings.patience(),
                completed.chance,
            );
            Phase::Acquiring(attempt)
        }
    }
}

/// Handles the answer to a read with the lease id of this successor.
pub(super) fn on_successor_read(
    lease: LeaseId,
    completed: CompletedRequest<'_>,
    context: &mut Context<'_>,
) -> Phase {
    let held_blob = completed.answer().and_then(|answer| {
        let (properties, etag) = (answer.properties.as_ref()?, answer.etag.clone()?);
        (answer.class == Class::Done && properties.lease == LeaseState::Leased)
            .then_some((properties, etag))
    });
    if let Some((properties, etag)) = held_blob {
        return inherit(lease, properties, etag, context, completed.chance);
    }
    let must_wait = completed.answer().is_some_and(|answer| {
        let code = answer.code.as_deref().unwrap_or_default();
        answer.class == Class::LeaseMismatch && code.starts_with("LeaseIdMismatch")
    });
    let (now, follower) = (context.now, &mut context.state.follower);
    let next = if must_wait || completed.is_outcome_unknown() {
        // The leader still has the lease, or the state is unknown.
        let (quick, _) = follower.poll_intervals();
        follower.time_for_request(context.settings).map_or(now + quick, |time| now + time)
    } else {
        // The next poll shows the state.
        follower.poll_normally(now);
        now
    };
    Phase::Watching(Watch::at(next))
}

/// Handles the received lease. The record is validated like before any other attempt.
fn inherit(
    lease: LeaseId,
    properties: &Properties,
    etag: ETag,
    context: &mut Context<'_>,
    chance: &mut dyn Chance,
) -> Phase {
    let time = context.service_time();
    let validated = Record::validate(&context.settings.election, properties, time);
    let validated = validated.and_then(|current| {
        validate_next_record(current.record.clone(), context).map(|()| current.record)
    });
    context.state.follower.forget_request();
    context.state.follower.successor = None;
    context.state.follower.pulse = None;
    let record = match validated {
        // The candidate was paused meanwhile.
        _ if context.is_ineligible() => return Phase::Releasing(give_back(lease, context)),
        Ok(record) => record,
        // While it holds a lease that it cannot lead by, no other candidate leads.
        Err(problem) => {
            context.report(Some(Problem::from_unusable(problem)));
            return Phase::Releasing(give_back(lease, context));
        }
    };
    context.state.follower.following = None;
    context.state.steering.clear();
    // The holder acquires it again, which sets the length that this candidate configures. A renewal
    // would keep the leader's length.
    let (pace, rounds) = (RetrySchedule::due_at(context.now), MOST_ROUNDS);
    let (may_be_granted, handed_over) = (true, true);
    let attempt =
        Attempt { lease, etag, record, may_be_granted, pace, rounds, handed_over, check: None };
    match mutant!(SuccessorDoesNotAcquire) {
        true => raising::start(attempt, context.now, context, chance),
        false => Phase::Acquiring(attempt),
    }
}
