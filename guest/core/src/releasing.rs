//! Giving a lease back, once the work was seen stopped. protocol.md §7.1.

use core::time::Duration;

use super::Moment;
use super::announcement::{LAST_WRITE, LONGEST_TRY};
use super::context::{Answered, Context, Outgoing};
use super::follower::withdrawal;
use super::pace::Pace;
use super::phase::{Hold, Phase, Release, Watch};
use super::report::{Ending, EndingReason};
use super::write::Write;
use crate::mutants::{memory, mutant};
use tenure_azure::answer::Class;
use tenure_azure::lease_id::LeaseId;
use tenure_azure::operation::Operation;

/// How long the lease is offered to a successor; not shorter than one try takes.
const OFFER: Duration = Duration::from_secs(4);

/// How long a successor that leaves tries to give back what it was perhaps given.
const PERHAPS_OURS: Duration = Duration::from_secs(3);

/// Ends a leadership whose work was seen stopped. The others come first for a while, according to why.
pub(super) fn step_down(hold: &Hold, reason: EndingReason, context: &mut Context<'_>) -> Release {
    memory::given_up(hold);
    context.state.steering.settle();
    context.effects.ending = Some(Ending { term: hold.record.term, reason });
    let poll = context.settings.timings.poll;
    let pause = match reason {
        EndingReason::Left => Duration::ZERO,
        EndingReason::HandedOver => poll,
        _ => poll / 2,
    };
    Release {
        last_write: last_write(hold, context.now),
        write_until: hold.lease_until,
        ..release(hold.lease, context.now + pause, context)
    }
}

/// The write of an outcome that is not on the blob yet, while the service answers and no other write
/// is in doubt.
fn last_write(hold: &Hold, now: Moment) -> Option<Write> {
    let doubt = hold.write.as_ref().is_some_and(|write| write.doubt.is_some());
    let mut record = hold.record.clone();
    if let (Some(beat), Some(beats)) = (&mut record.beat, hold.beats) {
        beat.number = beats.number + 1;
    }
    // To one that beats the store has answered lately.
    (hold.outcome_unwritten && !doubt && (hold.is_renewed() || hold.beats.is_some()))
        .then(|| Write::new(record, hold.etag.clone(), Pace::at(now)))
}

/// The work of a leadership that ended was seen stopped: its lease is released now, unless it is lost.
pub(super) fn stopped(lease: Option<LeaseId>, context: &Context<'_>) -> Phase {
    let at_once = lease.is_some() && context.state.health.out_until() <= context.now;
    let pause = if at_once { Duration::ZERO } else { context.settings.timings.poll / 2 };
    let then = context.now + pause;
    lease.map_or_else(|| over(then, context), |l| Phase::Releasing(release(l, then, context)))
}

/// Gives back the lease of an attempt that failed.
pub(super) fn give_back(lease: LeaseId, context: &Context<'_>) -> Release {
    release(lease, context.now + context.settings.timings.poll / 2, context)
}

/// Gives a lease back; then leaves, or contends again at `then`.
pub(super) fn release(lease: LeaseId, then: Moment, context: &Context<'_>) -> Release {
    Release {
        lease,
        successor: None,
        withdraws: None,
        last_write: None,
        write_until: context.now,
        until: context.now + context.settings.timings.lease,
        then,
        pace: Pace::at(context.now),
    }
}

/// Leaves as one that does not lead; the leader may have given it the lease as its successor.
pub(super) fn leave_as_follower(context: &mut Context<'_>) -> Phase {
    let (now, follower) = (context.now, &mut context.state.follower);
    let Some(lease) = follower.lease(now) else { return Phase::Left };
    let withdraws = follower.announced.take().filter(|_| !mutant!(AnnouncementNotTakenBack));
    let until = now + PERHAPS_OURS;
    Phase::Releasing(Release { withdraws, until, ..release(lease, now, context) })
}

/// Takes an announcement back, writes the last outcome, and gives the lease to the successor or to
/// anybody, in this order.
pub(super) fn next(mut release: Release, context: &mut Context<'_>) -> (Phase, Option<Outgoing>) {
    let (now, timings) = (context.now, &context.settings.timings);
    if now >= release.until {
        // Nothing could be sent, for want of a token: the lease has run out by itself.
        return (over(release.then, context), None);
    }
    if release.pace.next > now {
        return (Phase::Releasing(release), None);
    }
    let (lease, timeout) = (release.lease, timings.request_timeout);
    if let Some(announced) = release.withdraws.take() {
        let operation = withdrawal(announced, context.settings);
        let timeout = timeout.min(LAST_WRITE);
        return (Phase::Releasing(release), Some(Outgoing { operation, timeout }));
    }
    let giving = timeout.min(LONGEST_TRY);
    let offered = OFFER.max(LAST_WRITE + giving);
    if now + timings.lease > release.until + offered && !mutant!(SuccessorOrNobody) {
        // It may be gone by now. Had the change been done, this would find another holder.
        release.successor = None;
    }
    // Under a lease that is certainly ours until the answer is there, or not at all.
    if now + LAST_WRITE >= release.write_until {
        release.last_write = None;
    }
    let (operation, timeout) = match (&release.last_write, release.successor) {
        (Some(write), _) => (write.operation(lease), timeout.min(LAST_WRITE)),
        (None, Some(to)) => (Operation::Change { lease, to }, giving),
        (None, None) => (Operation::Release { lease }, timeout),
    };
    (Phase::Releasing(release), Some(Outgoing { operation, timeout }))
}

/// Takes the answer.
pub(super) fn answered(
    mut release: Release,
    answered: Answered<'_>,
    context: &mut Context<'_>,
) -> Phase {
    let (now, timings) = (context.now, &context.settings.timings);
    let done = answered.class() == Some(Class::Done);
    if release.last_write.take().is_some() {
        // Written or not: the release does not wait for a second try.
        context.effects.recorded = done;
        return Phase::Releasing(release);
    }
    let (unknown, refused) = (answered.is_unknown(), answered.is_refused());
    let (resumes, until) = (unknown && !context.state.leaving, timings.valid_until(now, now));
    if let Some(hold) = memory::resumed(resumes, release.lease, until) {
        return Phase::Holding(hold);
    }
    if refused || (unknown && release.pace.failures > 0) {
        context.report_reply(&answered);
    }
    if (unknown || refused) && now < release.until && !mutant!(ReleaseNotRepeated) {
        release.pace.failed(now, timings.patience(), answered.chance);
        return Phase::Releasing(release);
    }
    // After a try that was refused, or whose outcome is unknown, it is not certain that somebody else won.
    if answered.class() == Some(Class::Conflict) && release.pace.failures == 0 {
        context.state.health.outrun();
    }
    // A conflict is an answer too: it was released by an earlier try, or is not ours.
    over(release.then, context)
}

fn over(then: Moment, context: &Context<'_>) -> Phase {
    match context.state.leaving {
        true => Phase::Left,
        false => Phase::Watching(Watch::at(then)),
    }
}
