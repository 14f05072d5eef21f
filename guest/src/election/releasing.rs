//! Giving a lease back, once the work was seen stopped. `protocol.md`, Losing and leaving.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::Moment;
use super::candidate::{Ask, Failure, Phase, Step, patience};
use super::chance::Chance;
use super::holding::Hold;
use super::pace::Pace;
use super::record::Record;
use super::report::{Ending, EndingReason};
use super::winning::Watch;
use crate::azure::answer::{Answer, Class};
use crate::azure::lease_id::LeaseId;
use crate::azure::operation::{ETag, Operation};

/// How long the last write of the record may keep the release waiting.
const LAST_WRITE: Duration = Duration::from_secs(1);

/// A lease that is to be given back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Release {
    lease: LeaseId,
    /// To be told before, so that the next leader and people know.
    outcome: Option<LastOutcome>,
    /// The lease has run out by then in any case.
    until: Moment,
    /// When to contend again.
    then: Moment,
    pub pace: Pace,
}

/// A record with the outcome of the last turn, which is not on the blob yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LastOutcome {
    pub record: Record,
    pub etag: ETag,
    pub valid_until: Moment,
}

type Reply = Result<Answer, Failure>;

impl Step<'_> {
    /// Ends a leadership whose work was seen stopped.
    pub(super) fn resign(&mut self, hold: &Hold, reason: EndingReason, now: Moment, then: Moment) {
        self.ending = Some(Ending { term: hold.term(), reason });
        self.state.phase = match self.release(Some(hold.lease), now, then) {
            Phase::Releasing(release) => {
                Phase::Releasing(Release { outcome: hold.last_outcome(), ..release })
            }
            other => other,
        };
    }

    /// Gives a lease back, if there is one; then leaves, or contends again at `then`.
    pub(super) fn release(&self, lease: Option<LeaseId>, now: Moment, then: Moment) -> Phase {
        match lease {
            Some(lease) => {
                let until = now + self.settings.timings.lease;
                let pace = Pace::at(now);
                Phase::Releasing(Release { lease, outcome: None, until, then, pace })
            }
            None if self.state.leaving => Phase::Left,
            None => Phase::Watching(Watch::at(then)),
        }
    }

    pub(super) fn send_release(&mut self, now: Moment) -> Option<Ask> {
        let Phase::Releasing(release) = &mut self.state.phase else { return None };
        if release.pace.next > now {
            return None;
        }
        let (lease, timeout) = (release.lease, self.settings.timings.request_timeout);
        // Under a lease that is certainly ours until the answer is there, or not at all.
        release.outcome.take_if(|outcome| now + LAST_WRITE >= outcome.valid_until);
        let Some(outcome) = &release.outcome else {
            return Some(Ask { operation: Operation::Release { lease }, timeout });
        };
        let (if_match, metadata) = (outcome.etag.clone(), outcome.record.write());
        let operation = Operation::WriteMetadata { lease, if_match, metadata };
        Some(Ask { operation, timeout: timeout.min(LAST_WRITE) })
    }

    pub(super) fn released(
        &mut self,
        mut release: Release,
        operation: &Operation,
        reply: &Reply,
        now: Moment,
        chance: &mut dyn Chance,
    ) -> Phase {
        if release.outcome.take().is_some() {
            // Written or not: the release does not wait for a second try.
            return Phase::Releasing(release);
        }
        let (unknown, refused) = match reply {
            Err(_) => (true, false),
            Ok(answer) => (
                matches!(answer.class, Class::Unavailable | Class::Nonsense),
                answer.class == Class::Refused,
            ),
        };
        if refused || (unknown && release.pace.failures > 0) {
            self.tell_reply(operation, reply, now);
        }
        if (unknown || refused) && now < release.until {
            release.pace.failed(now, patience(self.settings), chance);
            return Phase::Releasing(release);
        }
        // A conflict is an answer too: it was released by an earlier try, or is not ours.
        match self.state.leaving {
            true => Phase::Left,
            false => Phase::Watching(Watch::at(release.then)),
        }
    }
}
