//! From the lease to leading: the term is raised. protocol.md §4.3, §4.4.

use core::time::Duration;

use super::Moment;
use super::chance::Chance;
use super::context::{Answered, Context, Gained, Outgoing};
use super::next_record::next_record;
use super::orders;
use super::pace::Pace;
use super::phase::{Attempt, Beats, Hold, MOST_ROUNDS, Phase, Raise, SplitCheck};
use super::problem::{Problem, ProblemClass};
use super::releasing::{self, give_back};
use super::timings::{BACK_OFF, SECOND, Timings};
use super::write::{Progress, Write};
use crate::mutants::{self, mutant};
use tenure_azure::lease_id::LeaseId;
use tenure_azure::operation::ETag;

/// The lease was acquired by a request that was `sent` then: the term is to be raised.
pub(super) fn begin(
    mut attempt: Attempt,
    sent: Moment,
    context: &mut Context<'_>,
    chance: &mut dyn Chance,
) -> Phase {
    let (now, settings) = (context.now, context.settings);
    let Some(since) = context.service_time() else {
        if attempt.rounds < MOST_ROUNDS && context.service_estimate().is_some() {
            // No two dates agree so far, so no term can be raised. The same request again brings
            // another one.
            attempt.rounds += 1;
            (attempt.unsure, attempt.pace) = (true, Pace::at(now));
            return Phase::Acquiring(attempt);
        }
        report_no_date(context);
        return not_raised(attempt.lease, context, chance);
    };
    let Attempt { lease, etag, record: before, .. } = attempt;
    let check = SplitCheck::begin(before.as_ref(), settings);
    let judged = before.as_ref().map_or(Ok(()), |r| r.judge_term(&settings.election, since));
    if let Err(problem) = judged {
        context.report(Some(Problem::of_unusable(problem)));
        return not_raised(lease, context, chance);
    }
    // Without a record the second is waited out, under the lease: see `next_record`.
    let waits = before.is_none() && !mutant!(SecondNotWaitedOut);
    let wait = if waits { SECOND } else { Duration::ZERO };
    let mut record =
        next_record(settings, context.state.nonce, &context.state.began, before, since);
    record.beat = record.beat.filter(|_| context.failover().is_some());
    let write = Write::new(record, etag, Pace::at(now + wait));
    let valid_until = settings.timings.valid_until(sent, now);
    let stays_out = Duration::ZERO;
    let (acquired, written) = (sent, None);
    let raise = Raise { lease, acquired, valid_until, write, stays_out, check, written };
    if mutant!(LeadsBeforeFirstWrite) && raise.write.record.beat.is_some() {
        let etag = raise.write.etag.clone();
        return Phase::Holding(lead(raise, etag, sent, &settings.timings));
    }
    Phase::Raising(raise)
}

/// Writes the record, or reads what became of that; then checks whether members work on shares.
pub(super) fn next(raise: Raise, context: &mut Context<'_>) -> (Phase, Option<Outgoing>) {
    let left = raise.valid_until.saturating_sub(context.now);
    if left.is_zero() {
        // protocol.md §4.4. One that cannot finish inside its validity releases.
        if raise.written.is_some() {
            context.report(Some(SplitCheck::unfinished()));
        }
        context.state.health.not_raised(context.now + raise.stays_out);
        return releasing::next(give_back(raise.lease, context), context);
    }
    let timeout = context.settings.timings.request_timeout.min(left);
    if let (Some(_), Some(check)) = (&raise.written, &raise.check) {
        let operation = check.operation(context.settings);
        return (Phase::Raising(raise), Some(Outgoing { operation, timeout }));
    }
    let outgoing = (raise.write.pace.next <= context.now).then(|| Outgoing {
        operation: mutants::unconditional(
            mutant!(TermWithoutCondition),
            raise.write.operation(raise.lease),
        ),
        timeout,
    });
    (Phase::Raising(raise), outgoing)
}

/// Takes the answer. Only when the term is on record does the candidate lead.
pub(super) fn answered(
    mut raise: Raise,
    answered: Answered<'_>,
    context: &mut Context<'_>,
) -> Phase {
    if let Some((etag, sent)) = raise.written.take()
        && let Some(check) = raise.check.take()
    {
        let mut checked = check.answered(&answered, context.settings);
        // The time-out of the last request says nothing about the service then.
        let is_told = answered.answer().is_some() && checked.is_err();
        if context.now >= raise.valid_until && !is_told {
            checked = Err(SplitCheck::unfinished());
        }
        return match checked {
            Ok(None) => begin_to_lead(raise, (etag, sent), answered, context),
            Ok(check) => Phase::Raising(Raise { check, written: Some((etag, sent)), ..raise }),
            Err(problem) => {
                context.report(Some(problem));
                not_raised(raise.lease, context, answered.chance)
            }
        };
    }
    match raise.write.answered(answered.answer(), answered.sent) {
        Progress::Done(etag, sent) => {
            if raise.check.is_none() {
                return begin_to_lead(raise, (etag, sent), answered, context);
            }
            // Members read this record before they work on a share, so the lists come after it: one of the two sees the
            // other. A candidate that promised to beat has until its next beat.
            if let (Some(_), Some(failover)) = (raise.write.record.beat, context.failover()) {
                raise.valid_until = raise.valid_until.min(sent + failover.acts());
            }
            raise.written = Some((etag, sent));
            raise.stays_out =
                context.state.health.out_after_raise(context.settings, answered.chance);
            Phase::Raising(raise)
        }
        Progress::NotApplied(found, etag) => {
            raise.write.begin_again(found, etag, context.now);
            Phase::Raising(raise)
        }
        Progress::Again => {
            if raise.write.pace.failures > 0 {
                context.report_reply(&answered);
            }
            raise.write.pace.failed(context.now, BACK_OFF, answered.chance);
            raise.stays_out =
                context.state.health.out_after_raise(context.settings, answered.chance);
            Phase::Raising(raise)
        }
        // Released also when the service says that it is lost: that harms nobody.
        Progress::LeaseLost | Progress::Outdone => {
            not_raised(raise.lease, context, answered.chance)
        }
    }
}

/// The term is on record, by a write that was `sent` then, and nothing speaks against leading.
fn begin_to_lead(
    raise: Raise,
    (etag, sent): (ETag, Moment),
    answered: Answered<'_>,
    context: &mut Context<'_>,
) -> Phase {
    let hold = lead(raise, etag, sent, &context.settings.timings);
    if context.now >= hold.valid_until {
        return not_raised(hold.lease, context, answered.chance);
    }
    context.effects.gained = Some(Gained::Term);
    context.effects.turns_changed = true;
    context.state.health.raised();
    Phase::Holding(hold)
}

/// protocol.md §4.4: leads, with the validity of the acquire. The record was written by a request that was
/// `sent` then: that is the first beat.
fn lead(raise: Raise, etag: ETag, sent: Moment, timings: &Timings) -> Hold {
    let Raise { lease, acquired, valid_until, write, .. } = raise;
    let beats =
        write.record.beat.map(|beat| Beats { number: beat.number, next: sent, until: sent });
    let mut hold = Hold {
        lease,
        valid_until,
        lease_until: valid_until,
        beats,
        won: acquired,
        orders: orders::unread(acquired),
        renew: Pace::at(acquired + timings.renew),
        record: write.record,
        etag,
        outcome_unwritten: false,
        write: None,
        claiming: None,
        stalled: None,
        resets_slot: false,
        rest_until: Moment::ZERO,
    };
    hold.beaten(sent, timings.failover);
    hold
}

/// Gives back the lease of a term that cannot be raised: each time in a row the others come first for
/// longer.
fn not_raised(lease: LeaseId, context: &mut Context<'_>, chance: &mut dyn Chance) -> Phase {
    let stays_out = context.state.health.out_after_raise(context.settings, chance);
    context.state.health.not_raised(context.now + stays_out);
    Phase::Releasing(give_back(lease, context))
}

/// Without the service's time there is no term.
#[inline(never)]
pub(super) fn report_no_date(context: &mut Context<'_>) {
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
