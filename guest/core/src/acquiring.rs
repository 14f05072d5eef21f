//! Acquiring the lease with the attempt's lease id. protocol.md §4.2.
//!
//! An acquire that is applied late, after another candidate raised a term, meets a changed tag
//! instead of leaving a ghost lease.

use super::context::{Answered, Context, Outgoing};
use super::phase::{Attempt, Phase, Watch};
use super::raising;
use super::watching::{poll_again, report_unless};
use crate::mutants::{self, mutant};
use tenure_azure::answer::Class;
use tenure_azure::operation::Operation;

/// Codes with which another candidate's lease answers an acquire.
const RACE_LOST: [&str; 2] = ["LeaseAlreadyPresent", "LeaseIsBreakingAndCannotBeAcquired"];

/// Acquires, with the same request until it was answered.
pub(super) fn next(attempt: Attempt, context: &Context<'_>) -> (Phase, Option<Outgoing>) {
    let timings = &context.settings.timings;
    let timeout = timings.request_timeout;
    if let Some(check) = &attempt.check {
        let operation = check.operation(context.settings);
        return (Phase::Acquiring(attempt), Some(Outgoing { operation, timeout }));
    }
    let outgoing = (attempt.pace.next <= context.now).then(|| Outgoing {
        operation: mutants::acquire(
            attempt.handed,
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

/// Takes the answer.
pub(super) fn answered(
    mut attempt: Attempt,
    answered: Answered<'_>,
    context: &mut Context<'_>,
) -> Phase {
    if let Some(check) = attempt.check.take() {
        return match check.answered(&answered, context.settings) {
            Ok(check) => Phase::Acquiring(Attempt { check, ..attempt }),
            Err(problem) => {
                context.report(Some(problem));
                Phase::Watching(Watch::at(context.next_try(answered.chance)))
            }
        };
    }
    match answered.class() {
        Some(Class::Done) => {
            let ours = answered.answer().is_some_and(|answer| answer.lease == Some(attempt.lease));
            if ours || mutant!(LeaseIdNotCompared) {
                return raising::begin(attempt, answered.sent, context, answered.chance);
            }
            context.report_reply(&answered);
            Phase::Watching(Watch::at(context.next_try(answered.chance)))
        }
        // Somebody else was faster.
        Some(Class::Conflict | Class::LeaseMismatch) => {
            report_unless(&RACE_LOST, &answered, context);
            Phase::Watching(Watch::at(context.next_after_race(answered.chance)))
        }
        Some(Class::ConditionNotMet | Class::MissingBlob | Class::MissingContainer) => {
            poll_again(attempt.rounds, context, answered.chance)
        }
        Some(Class::Refused) => {
            context.report_reply(&answered);
            let next = context.next_try(answered.chance);
            if !attempt.unsure {
                return Phase::Watching(Watch::at(next));
            }
            // An earlier request may have been carried out: ask until that is known.
            attempt.pace.next = next;
            Phase::Acquiring(attempt)
        }
        Some(Class::Unavailable | Class::Nonsense) | None => {
            if attempt.pace.failures > 0 {
                context.report_reply(&answered);
            }
            attempt.unsure = true;
            attempt.pace.failed(context.now, context.settings.timings.patience(), answered.chance);
            Phase::Acquiring(attempt)
        }
    }
}
