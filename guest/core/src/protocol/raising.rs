//! Raising the term, from the lease to leadership. protocol.md §4.3, §4.4.

use core::time::Duration;

use super::context::{CompletedRequest, Context, Extension, UnsignedRequest};
use super::phase::{Attempt, Beats, Hold, MAX_IMMEDIATE_REPEATS, Phase, Raise, SplitCheck};
use super::releasing::{self, give_back};
use crate::Moment;
use crate::mutants::{self, mutant};
use crate::record::next_record::next_record;
use crate::record::write::{Progress, Write};
use crate::side::orders;
use crate::step::pace::{Chance, RetrySchedule};
use crate::step::problem::{Problem, ProblemClass};
use crate::step::settings::timings::{BACK_OFF, Timings};
use tenure_azure::blob::LeaseId;
use tenure_azure::operation::ETag;

/// Wait under the lease before the first record is written. A second of the service passes in it,
/// even if this clock is fast by a hundredth. protocol.md §4.3.
const WAIT_WITHOUT_RECORD: Duration = Duration::from_millis(1_020);

/// Starts to raise the term. The request that acquired the lease was sent at `sent`.
pub(crate) fn start(
    mut attempt: Attempt,
    sent: Moment,
    context: &mut Context<'_>,
    chance: &mut dyn Chance,
) -> Phase {
    let (now, settings) = (context.now, context.settings);
    let Some(since) = context.service_time() else {
        if attempt.immediate_repeats < MAX_IMMEDIATE_REPEATS && context.service_estimate().is_some()
        {
            // No two dates agree so far, so no term can be raised. Repeating the request brings
            // another date.
            attempt.immediate_repeats += 1;
            (attempt.may_be_granted, attempt.pace) = (true, RetrySchedule::due_at(now));
            return Phase::Acquiring(attempt);
        }
        report_no_date(context);
        return give_up_raise(attempt.lease, context, chance);
    };
    let Attempt { lease, etag, record: previous, .. } = attempt;
    let check = SplitCheck::new(previous.as_ref(), settings);
    let validated =
        previous.as_ref().map_or(Ok(()), |record| record.validate_term(&settings.election, since));
    if let Err(problem) = validated {
        context.report(Some(Problem::from_unusable(problem)));
        return give_up_raise(lease, context, chance);
    }
    // Without a record the second is waited out under the lease: see `next_record`.
    let must_wait = previous.is_none() && !mutant!(SecondNotWaitedOut);
    let wait = if must_wait { WAIT_WITHOUT_RECORD } else { Duration::ZERO };
    let earliest_write = context.without_clock_lead(now) + wait;
    let mut record =
        next_record(settings, context.state.nonce, &context.state.claims, previous, since);
    record.beat = record.beat.filter(|_| context.failover().is_some());
    let write = Write::new(record, etag, RetrySchedule::due_at(now));
    let valid_until = settings.timings.valid_until(sent, now);
    let back_off = Duration::ZERO;
    let (acquired_at, term_write) = (sent, None);
    let raise = Raise {
        lease,
        acquired_at,
        valid_until,
        write,
        earliest_write,
        back_off,
        check,
        term_write,
    };
    if mutant!(LeadsBeforeFirstWrite) && raise.write.record.beat.is_some() {
        let etag = raise.write.etag.clone();
        return Phase::Holding(lead(raise, etag, sent, &settings.timings));
    }
    Phase::Raising(raise)
}

/// Returns the next request: the write of the record, or the read that shows whether it was
/// applied. After these come the requests of the check for shares.
pub(crate) fn next(
    mut raise: Raise,
    context: &mut Context<'_>,
) -> (Phase, Option<UnsignedRequest>) {
    let time_left = raise.valid_until.saturating_sub(context.now);
    if time_left.is_zero() {
        // protocol.md §4.4. A candidate that cannot finish within its validity releases the lease.
        if raise.term_write.is_some() {
            context.report(Some(SplitCheck::unfinished_problem()));
        }
        context.state.health.on_raise_failed(context.now + raise.back_off);
        return releasing::next(give_back(raise.lease, context), context);
    }
    let timeout = context.settings.timings.request_timeout.min(time_left);
    if let (Some(_), Some(check)) = (&raise.term_write, &raise.check) {
        let operation = check.operation(context.settings);
        return (Phase::Raising(raise), Some(UnsignedRequest { operation, timeout }));
    }
    // Each step computes the rest of the wait, because the host's clock may run ahead meanwhile.
    let early = raise.earliest_write.saturating_sub(context.without_clock_lead(context.now));
    if !early.is_zero() {
        raise.write.pace.next_at = context.now + early;
    }
    let outgoing = (raise.write.pace.next_at <= context.now).then(|| UnsignedRequest {
        operation: mutants::unconditional(
            mutant!(TermWithoutCondition),
            raise.write.operation(raise.lease),
        ),
        timeout,
    });
    (Phase::Raising(raise), outgoing)
}

/// Handles the answer. The candidate leads only after the term is on record.
pub(crate) fn on_answer(
    mut raise: Raise,
    completed: CompletedRequest<'_>,
    context: &mut Context<'_>,
) -> Phase {
    if let Some((etag, sent)) = raise.term_write.take()
        && let Some(check) = raise.check.take()
    {
        let mut checked = check.on_answer(&completed, context.settings);
        // After the end of the validity, the check counts as unfinished, because its last request
        // had little time. Only an answer that forbids leading still counts.
        let has_verdict = completed.answer().is_some() && checked.is_err();
        if context.now >= raise.valid_until && !has_verdict {
            checked = Err(SplitCheck::unfinished_problem());
        }
        return match checked {
            Ok(None) => start_leading(raise, (etag, sent), completed, context),
            Ok(check) => Phase::Raising(Raise { check, term_write: Some((etag, sent)), ..raise }),
            Err(problem) => {
                context.report(Some(problem));
                give_up_raise(raise.lease, context, completed.chance)
            }
        };
    }
    match raise.write.on_answer(completed.answer(), completed.sent_at) {
        Progress::Done(etag, sent) => {
            if raise.check.is_none() {
                return start_leading(raise, (etag, sent), completed, context);
            }
            // Members read this record before they work on a share, and this candidate lists them
            // after it wrote the record. So at least one of the two sees the other. A candidate
            // that promised beats has to finish within the validity of its first beat.
            if let (Some(_), Some(failover)) = (raise.write.record.beat, context.failover()) {
                raise.valid_until = raise.valid_until.min(sent + failover.validity());
            }
            raise.term_write = Some((etag, sent));
            raise.back_off =
                context.state.health.raise_back_off(context.settings, completed.chance);
            Phase::Raising(raise)
        }
        Progress::NotApplied(found, etag) => {
            raise.write.restart(found, etag, context.now);
            Phase::Raising(raise)
        }
        Progress::Retry => {
            if raise.write.pace.failures > 0 {
                context.report_failure(&completed);
            }
            raise.write.pace.on_failure(context.now, BACK_OFF, completed.chance);
            raise.back_off =
                context.state.health.raise_back_off(context.settings, completed.chance);
            Phase::Raising(raise)
        }
        // The lease is released even if the service reports it as lost: that is harmless.
        Progress::LeaseLost | Progress::Superseded => {
            give_up_raise(raise.lease, context, completed.chance)
        }
    }
}

/// Starts to lead, unless the validity is over. The write of the term was sent at `sent`, and the
/// check has passed.
fn start_leading(
    raise: Raise,
    (etag, sent): (ETag, Moment),
    completed: CompletedRequest<'_>,
    context: &mut Context<'_>,
) -> Phase {
    let hold = lead(raise, etag, sent, &context.settings.timings);
    if context.now >= hold.valid_until {
        return give_up_raise(hold.lease, context, completed.chance);
    }
    context.effects.extension = Some(Extension::Term);
    context.effects.turns_changed = true;
    context.state.health.on_raised();
    Phase::Holding(hold)
}

/// Creates the leadership of protocol.md §4.4, with the validity of the acquire. The write of the
/// record, sent at `sent`, is the first beat.
fn lead(raise: Raise, etag: ETag, sent: Moment, timings: &Timings) -> Hold {
    let Raise { lease, acquired_at, valid_until, write, .. } = raise;
    let beats =
        write.record.beat.map(|beat| Beats { number: beat.number, next: sent, acts_until: sent });
    let mut hold = Hold {
        lease,
        valid_until,
        lease_until: valid_until,
        beats,
        acquired_at,
        orders: orders::new_leader_orders(acquired_at),
        renew: RetrySchedule::due_at(acquired_at + timings.renew),
        record: write.record,
        etag,
        has_unwritten_outcome: false,
        write: None,
        pending_claim: None,
        stalled_since: None,
        is_reset_requested: false,
        retry_after: Moment::ZERO,
    };
    hold.on_beat_acknowledged(sent, timings.failover);
    hold
}

/// Releases the lease of a term that cannot be raised. After each failure in a row, other
/// candidates have priority for longer.
fn give_up_raise(lease: LeaseId, context: &mut Context<'_>, chance: &mut dyn Chance) -> Phase {
    let back_off = context.state.health.raise_back_off(context.settings, chance);
    context.state.health.on_raise_failed(context.now + back_off);
    Phase::Releasing(give_back(lease, context))
}

/// Reports that no term can be raised, because the service's time is not known.
#[inline(never)]
pub(crate) fn report_no_date(context: &mut Context<'_>) {
    let (class, detail) = match context.service_estimate() {
        None => (
            ProblemClass::Nonsense,
            "the service's answers carry no date, so no term can be raised; check whether a proxy removes the \
             headers Date or x-ms-request-id",
        ),
        Some(_) => (
            ProblemClass::Clock,
            "the dates of the service's answers jump by more than ten seconds, so no term can be raised; check \
             whether a proxy or a cache writes the header Date",
        ),
    };
    context.report_problem(class, detail.into());
}
