//! Acquires the lease with the attempt's lease id. protocol.md §4.2.
//!
//! A delayed acquire may reach the service after another candidate raised a term. Then the tag has
//! changed, so the acquire fails instead of leaving an orphaned lease.

use super::context::{CompletedRequest, Context, UnsignedRequest};
use super::phase::{Attempt, Phase, Watch};
use super::raising;
use super::watching::{poll_again, report_unless};
use crate::mutants::{self, mutant};
use tenure_azure::answer::Class;
use tenure_azure::operation::Operation;

/// Error codes of an acquire if another candidate holds the lease.
const RACE_LOST: [&str; 2] = ["LeaseAlreadyPresent", "LeaseIsBreakingAndCannotBeAcquired"];

/// Returns the next request: first those of the check for members and shares, then the acquire. The
/// acquire stays the same until it is answered.
pub(crate) fn next(attempt: Attempt, context: &Context<'_>) -> (Phase, Option<UnsignedRequest>) {
    let timings = &context.settings.timings;
    let timeout = timings.request_timeout;
    if let Some(check) = &attempt.check {
        let operation = check.operation(context.settings);
        return (Phase::Acquiring(attempt), Some(UnsignedRequest { operation, timeout }));
    }
    let outgoing = (attempt.pace.next_at <= context.now).then(|| UnsignedRequest {
        operation: mutants::acquire(
            attempt.is_handed_over,
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
                Phase::Watching(Watch::at(context.next_follower_request(completed.chance)))
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
            Phase::Watching(Watch::at(context.next_follower_request(completed.chance)))
        }
        // Another candidate acquired the lease first.
        Some(Class::Conflict | Class::LeaseMismatch) => {
            report_unless(&RACE_LOST, &completed, context);
            Phase::Watching(Watch::at(context.next_after_race(completed.chance)))
        }
        Some(Class::ConditionNotMet | Class::MissingBlob | Class::MissingContainer) => {
            poll_again(attempt.immediate_repeats, context, completed.chance)
        }
        Some(Class::Refused) => {
            context.report_failure(&completed);
            let next = context.next_follower_request(completed.chance);
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
