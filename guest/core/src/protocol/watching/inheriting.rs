//! Polling of a successor for its lease, and the acquire that follows. protocol.md §7.2.

use super::super::context::{CompletedRequest, Context};
use super::super::phase::{Attempt, MOST_ROUNDS, Phase, Watch};
use super::super::raising;
use super::super::releasing::give_back;
use super::validate_next_record;
use crate::mutants::mutant;
use crate::record::metadata::Record;
use crate::step::chance::Chance;
use crate::step::pace::RetrySchedule;
use crate::step::problem::Problem;
use tenure_azure::answer::{Class, LeaseState, Properties};
use tenure_azure::blob::LeaseId;
use tenure_azure::operation::ETag;

/// Handles the answer to a read with the lease id of this successor.
pub(super) fn on_answer(
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
