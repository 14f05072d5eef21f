//! Giving a lease back, once the work was seen stopped. protocol.md §7.1.

use core::time::Duration;

use super::Moment;
use super::candidate::{Phase, Step, Wish, patience};
use super::chance::Chance;
use super::failure::Failure;
use super::pace::Pace;
use super::record::Outcome;
use super::report::{Ending, EndingReason};
use super::winning::Watch;
use super::write::Write;
use crate::mutants::mutant;
use serde::{Deserialize, Serialize};
use tenure_azure::answer::{Answer, Class};
use tenure_azure::lease_id::LeaseId;
use tenure_azure::operation::{ETag, Operation};

/// How long the lease is offered to a successor; not shorter than one try takes.
const OFFER: Duration = Duration::from_secs(4);

/// The longest that one try to give the lease to a successor may take: the successor does not poll for it
/// for ever. A try that was not answered in time may have been applied all the same.
const LONGEST_TRY: Duration = Duration::from_secs(10);

/// The longest from the first offer to a successor to the end of the last try.
pub(super) const LONGEST_OFFER: Duration =
    LAST_WRITE.saturating_add(LONGEST_TRY).saturating_add(LONGEST_TRY);

/// How long a successor that leaves tries to give back what it was perhaps given.
const PERHAPS_OURS: Duration = Duration::from_secs(3);

/// How long the last write of the record may keep the release waiting.
const LAST_WRITE: Duration = Duration::from_secs(1);

/// A lease that is to be given back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Release {
    lease: LeaseId,
    /// The id that it is given to; none: it is released.
    successor: Option<LeaseId>,
    /// Its announcement as a successor, which is taken back first, in one try.
    withdraws: Option<ETag>,
    /// The outcome of the last turn, to be put on record before: others want to know it.
    last_write: Option<Write>,
    /// That write has to be answered by then: so long the lease is certainly ours. A turn that
    /// ended later than that has it tried all the same: the service refuses what is no longer ours.
    write_until: Moment,
    /// The lease has run out by then in any case.
    until: Moment,
    /// When to contend again.
    then: Moment,
    pub pace: Pace,
}

type Reply = Result<Answer, Failure>;

impl Release {
    /// When the lease has run out in any case.
    pub fn until(&self) -> Moment {
        self.until
    }
}

impl Step<'_> {
    /// Ends a leadership whose work was seen stopped, and gives the lease to the successor, if there is
    /// one.
    pub(super) fn step_down(
        &mut self,
        reason: EndingReason,
        now: Moment,
        then: Moment,
        successor: Option<LeaseId>,
    ) {
        self.state.steering.settle();
        let Phase::Holding(hold) = &mut self.state.phase else { return };
        #[cfg(feature = "mutants")]
        super::holding::given_up::note(hold);
        let (lease, write_until) = (hold.lease, hold.valid_until);
        self.ending = Some(Ending { term: hold.term(), reason });
        let last_write = hold.last_write(now);
        let mut phase = self.release(Some(lease), now, then);
        if let Phase::Releasing(release) = &mut phase {
            (release.successor, release.last_write, release.write_until) =
                (successor, last_write, write_until);
        }
        self.state.phase = phase;
    }

    /// Leaves after a turn that ended later than the leadership, in an invocation of its own: its
    /// outcome has one try to get on record, so that it is not run again without need.
    pub(super) fn leave_late(&mut self, outcome: Outcome, now: Moment) {
        self.leave(Some(outcome), now);
        if let Phase::Releasing(release) = &mut self.state.phase {
            release.write_until = now + 2 * LAST_WRITE;
        }
    }

    /// Gives a lease back, if there is one; then leaves, or contends again at `then`.
    pub(super) fn release(&self, lease: Option<LeaseId>, now: Moment, then: Moment) -> Phase {
        match lease {
            Some(lease) => Phase::Releasing(Release {
                lease,
                successor: None,
                withdraws: None,
                last_write: None,
                write_until: now,
                until: now + self.settings.timings.lease,
                then,
                pace: Pace::at(now),
            }),
            None if self.state.leaving => Phase::Left,
            None => Phase::Watching(Watch::at(then)),
        }
    }

    /// Leaves as one that does not lead; the leader may have given it the lease as its successor.
    pub(super) fn leave_as_follower(&mut self, now: Moment) -> Phase {
        let mut phase = self.release(self.successor_id(now), now, now);
        if let Phase::Releasing(release) = &mut phase {
            release.withdraws =
                self.state.announced.take().filter(|_| !mutant!(AnnouncementNotTakenBack));
            release.until = now + PERHAPS_OURS;
        }
        phase
    }

    pub(super) fn send_release(&mut self, now: Moment) -> Option<Wish> {
        let Phase::Releasing(release) = &mut self.state.phase else { return None };
        if now >= release.until {
            // Nothing could be sent, for want of a token: the lease has run out by itself.
            let then = release.then;
            self.state.phase = self.after_release(then);
            return None;
        }
        if release.pace.next > now {
            return None;
        }
        let (lease, timeout) = (release.lease, self.settings.timings.request_timeout);
        if let Some(announced) = release.withdraws.take() {
            let timeout = timeout.min(LAST_WRITE);
            return Some(Wish { operation: self.withdrawal(announced), timeout });
        }
        let giving = timeout.min(LONGEST_TRY);
        let offered = OFFER.max(LAST_WRITE + giving);
        let over = now + self.settings.timings.lease > release.until + offered;
        if over && !mutant!(SuccessorOrNobody) {
            // It may be gone by now. Had the change been done, this would find another holder.
            release.successor = None;
        }
        // Under a lease that is certainly ours until the answer is there, or not at all.
        if now + LAST_WRITE >= release.write_until {
            release.last_write = None;
        }
        Some(match &release.last_write {
            Some(write) => {
                Wish { operation: write.operation(lease), timeout: timeout.min(LAST_WRITE) }
            }
            None => {
                let (operation, timeout) = match release.successor {
                    Some(to) => (Operation::Change { lease, to }, giving),
                    None => (Operation::Release { lease }, timeout),
                };
                Wish { operation, timeout }
            }
        })
    }

    pub(super) fn released(
        &mut self,
        mut release: Release,
        operation: &Operation,
        reply: &Reply,
        now: Moment,
        chance: &mut dyn Chance,
    ) -> Phase {
        if release.last_write.take().is_some() {
            // Written or not: the release does not wait for a second try.
            self.recorded = reply.as_ref().is_ok_and(|answer| answer.class == Class::Done);
            return Phase::Releasing(release);
        }
        let (unknown, refused) = match reply {
            Err(_) => (true, false),
            Ok(answer) => (
                matches!(answer.class, Class::Unavailable | Class::Nonsense),
                answer.class == Class::Refused,
            ),
        };
        #[cfg(feature = "mutants")]
        if crate::mutants::mutant!(ResumedAfterRelease) && unknown && !self.state.leaving {
            let timings = &self.settings.timings;
            let until = now + timings.lease - timings.margin;
            if let Some(hold) = super::holding::given_up::resume(release.lease, until) {
                return Phase::Holding(hold);
            }
        }
        if refused || (unknown && release.pace.failures > 0) {
            self.report_reply(operation, reply, now);
        }
        if (unknown || refused) && now < release.until {
            release.pace.failed(now, patience(self.settings), chance);
            return Phase::Releasing(release);
        }
        let done = reply.as_ref().is_ok_and(|answer| answer.class == Class::Done);
        if done && matches!(operation, Operation::Change { .. }) {
            self.state.handed.given();
        }
        // A conflict is an answer too: it was released by an earlier try, or is not ours.
        self.after_release(release.then)
    }

    fn after_release(&self, then: Moment) -> Phase {
        match self.state.leaving {
            true => Phase::Left,
            false => Phase::Watching(Watch::at(then)),
        }
    }
}
