//! How a successor polls for its lease, and acquires it anew once it was given it. protocol.md §7.2.

use super::super::chance::Chance;
use super::super::context::{Answered, Context};
use super::super::pace::Pace;
use super::super::phase::{Attempt, MOST_ROUNDS, Phase, Watch};
use super::super::problem::Problem;
use super::super::raising;
use super::super::record::Record;
use super::super::releasing::give_back;
use super::judge_next;
use crate::mutants::mutant;
use tenure_azure::answer::{Class, LeaseState, Properties};
use tenure_azure::lease_id::LeaseId;
use tenure_azure::operation::ETag;

/// Takes the answer to a read with the lease id of this successor.
pub(super) fn answered(lease: LeaseId, answered: Answered<'_>, context: &mut Context<'_>) -> Phase {
    let held = answered.answer().and_then(|answer| {
        let (seen, etag) = (answer.properties.as_ref()?, answer.etag.clone()?);
        (answer.class == Class::Done && seen.lease == LeaseState::Leased).then_some((seen, etag))
    });
    if let Some((seen, etag)) = held {
        return inherit(lease, seen, etag, context, answered.chance);
    }
    let waits = answered.answer().is_some_and(|answer| {
        let code = answer.code.as_deref().unwrap_or_default();
        answer.class == Class::LeaseMismatch && code.starts_with("LeaseIdMismatch")
    });
    let (now, follower) = (context.now, &mut context.state.follower);
    let next = if waits || answered.is_unknown() {
        // The leader has it still; or nobody can tell now.
        let (quick, _) = follower.quick();
        follower.time_for_request(context.settings).map_or(now + quick, |time| now + time)
    } else {
        // The next poll finds out what it is.
        follower.polls_plainly(now);
        now
    };
    Phase::Watching(Watch::at(next))
}

/// The leader gave the lease to this candidate. What it would lead with is judged as before any other
/// attempt.
fn inherit(
    lease: LeaseId,
    seen: &Properties,
    etag: ETag,
    context: &mut Context<'_>,
    chance: &mut dyn Chance,
) -> Phase {
    let time = context.service_time();
    let judged = Record::judge(&context.settings.election, seen, time);
    let judged = judged.and_then(|j| judge_next(j.record.clone(), context).map(|()| j.record));
    context.state.follower.forget_request();
    context.state.follower.successor = None;
    context.state.follower.pulse = None;
    let record = match judged {
        // It was paused meanwhile.
        _ if context.stays_out() => return Phase::Releasing(give_back(lease, context)),
        Ok(record) => record,
        // Nobody leads as long as it keeps a lease that it cannot lead by.
        Err(problem) => {
            context.report(Some(Problem::of_unusable(problem)));
            return Phase::Releasing(give_back(lease, context));
        }
    };
    context.state.follower.following = None;
    context.state.steering.settle();
    // It is acquired anew by its holder, which gives it the length that this candidate configures; a
    // renewal would leave it the leader's.
    let (pace, rounds) = (Pace::at(context.now), MOST_ROUNDS);
    let (unsure, handed) = (true, true);
    let attempt = Attempt { lease, etag, record, unsure, pace, rounds, handed, check: None };
    match mutant!(SuccessorDoesNotAcquire) {
        true => raising::begin(attempt, context.now, context, chance),
        false => Phase::Acquiring(attempt),
    }
}
