//! The phases of a candidate in the protocol, and the data of each.
//!
//! Each phase that sends requests has a module of its name with its rules. The module's functions
//! `next` and `on_answer` take the phase and return the next one. The end of `Stopping`, which
//! sends none, is in [`candidate`](super::candidate).

use core::time::Duration;

use crate::Moment;
use crate::record::metadata::{Kind, Record, Trigger};
use crate::record::write::Write;
use crate::step::pace::{Failover, RetrySchedule};
use serde::{Deserialize, Serialize};
use tenure_azure::blob::LeaseId;
use tenure_azure::operation::ETag;
use tenure_base::prelude::*;

/// The phase of a candidate in the protocol.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant, reason = "a step has only one; smaller on wasm")]
pub(crate) enum Phase {
    /// Polling, or creating a missing resource. protocol.md §4.1.
    Watching(Watch),
    /// Acquiring the lease. protocol.md §4.2.
    Acquiring(Attempt),
    /// Raising the term on the record. protocol.md §4.3.
    Raising(Raise),
    /// Leading. protocol.md §4.4, §5.
    Holding(Hold),
    /// Waiting until the host reports that the work has stopped. Then the lease is released, unless
    /// it is lost. protocol.md §7.1.
    Stopping { lease: Option<LeaseId> },
    /// Releasing a lease that may belong to this candidate. protocol.md §7.1.
    Releasing(Release),
    /// The candidate has left the election.
    Left,
}

impl Phase {
    /// Returns the leadership, if there is one.
    pub fn hold(&self) -> Option<&Hold> {
        match self {
            Self::Holding(hold) => Some(hold),
            _ => None,
        }
    }
}

/// Maximum immediate repetitions of a request. A request is repeated if the blob or the container
/// changed concurrently. It is also repeated if judging the record needs the service's time, but no
/// two `Date`s of its answers agree yet (protocol.md §8). After these repetitions, the candidate
/// waits as a follower does.
pub(crate) const MAX_IMMEDIATE_REPEATS: u32 = 3;

/// A candidate that polls.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Watch {
    /// The resource to create instead of the next poll.
    pub missing: Option<MissingResource>,
    pub pace: RetrySchedule,
    /// Number of immediately repeated polls so far.
    pub immediate_repeats: u32,
}

impl Watch {
    pub fn at(next: Moment) -> Self {
        Self { missing: None, pace: RetrySchedule::due_at(next), immediate_repeats: 0 }
    }
}

/// A resource that the last poll found missing.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum MissingResource {
    Blob,
    Container,
}

/// One attempt to win a term, with a lease id of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Attempt {
    pub lease: LeaseId,
    /// The tag of the blob as read; lease operations do not change it.
    pub etag: ETag,
    pub record: Option<Record>,
    /// True if this lease id may hold the lease already: a request may have been applied without an
    /// answer, or the leader gave its lease to this id.
    pub may_be_granted: bool,
    pub pace: RetrySchedule,
    /// Number of immediately repeated requests so far.
    pub immediate_repeats: u32,
    /// True if the leader gave its lease to this lease id.
    pub is_handed_over: bool,
    /// The check that must finish before the lease is acquired.
    pub check: Option<SplitCheck>,
}

/// The next page to list in a check for members and shares. protocol.md §14.6.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SplitCheck {
    pub list: SplitList,
    /// Start of the page. None: the first page.
    pub marker: Option<String>,
}

/// The lists of a check, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SplitList {
    Members,
    Shares,
}

/// An acquired lease whose term is not raised yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Raise {
    pub lease: LeaseId,
    pub acquired_at: Moment,
    /// End of the validity by this lease. The term has to be raised before.
    pub valid_until: Moment,
    pub write: Write,
    /// Earliest time of the record write, on the host's clock less its possible lead. Compare it
    /// with [`Context::without_clock_lead`](super::context::Context::without_clock_lead), not with
    /// the time itself.
    pub earliest_write: Moment,
    /// Time for which the candidate does not contend if the term is not raised in time.
    pub back_off: Duration,
    /// The check that follows the write of the term. It must finish before the candidate leads.
    pub check: Option<SplitCheck>,
    /// The tag of the record with the term, and the time at which the write was sent.
    pub term_write: Option<(ETag, Moment)>,
}

/// A leadership: its lease, its record, and its pending work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hold {
    pub lease: LeaseId,
    /// Instant until which the leader may act: the earlier of `lease_until` and the `acts_until` of
    /// its beats.
    pub valid_until: Moment,
    /// Instant until which the leader may act by its lease: the end of the lease less the margin.
    pub lease_until: Moment,
    /// The beats, if the leader promises to have stopped a given time after each of them.
    pub beats: Option<Beats>,
    /// Time at which the request that acquired the lease was sent.
    pub acquired_at: Moment,
    pub orders: LeaderOrders,
    pub renew: RetrySchedule,
    /// The record on the blob, plus the outcome of the last turn, which may not be written yet.
    pub record: Record,
    pub etag: ETag,
    /// True if the outcome of the last turn is not written yet.
    pub has_unwritten_outcome: bool,
    /// The newest planned write. It is planned again before each try. After a try with an unknown
    /// result, a read first shows whether that try was applied.
    pub write: Option<Write>,
    /// The turn that this write claims.
    pub pending_claim: Option<Claim>,
    /// Time of the first failed write of a claim or outcome since the last successful one.
    pub stalled_since: Option<Moment>,
    /// True if an operator asks to forget a claimed slot that lies in the future.
    pub is_reset_requested: bool,
    /// Earliest time at which a failed turn is retried.
    pub retry_after: Moment,
}

/// The orders that a leader has read. protocol.md §7.5.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LeaderOrders {
    /// The triggers of the newest read; some of them may be claimed by now.
    pub triggers: Vec<Trigger>,
    /// Time at which the next read is due.
    pub read_at: Moment,
    /// Time at which the newest read was answered or failed.
    pub answered_at: Moment,
    /// True if a hint came since the newest read.
    pub was_hinted: bool,
    /// The ids of the transfers that the leader obeyed in this term, the newest first.
    pub obeyed_transfers: Vec<String>,
}

/// The beats of a leader. protocol.md §13.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Beats {
    /// Number of the newest beat that was tried.
    pub number: u64,
    /// Time at which the next beat is due.
    pub next: Moment,
    /// Instant until which the leader may act by the newest beat that is known to be on record.
    pub acts_until: Moment,
}

impl Hold {
    /// Returns the remaining validity at `now`.
    pub fn time_left(&self, now: Moment) -> Duration {
        self.valid_until.saturating_sub(now)
    }

    /// Extends the validity by the lease to `lease_until`.
    pub fn extend_lease(&mut self, lease_until: Moment) {
        self.lease_until = lease_until;
        self.update_validity();
    }

    /// Extends the validity by a beat that was sent at `sent_at` and is on record.
    pub fn on_beat_acknowledged(&mut self, sent_at: Moment, failover: Option<Failover>) {
        if let (Some(beats), Some(failover)) = (&mut self.beats, failover) {
            beats.next = sent_at + failover.beat_interval();
            beats.acts_until = beats.acts_until.max(sent_at + failover.validity());
        }
        self.update_validity();
    }

    /// Stops the beats, after the promise was removed from the record. From now on the lease alone
    /// limits the validity.
    pub fn end_promise(&mut self) {
        self.beats = None;
        self.update_validity();
    }

    fn update_validity(&mut self) {
        let promised_until = self.beats.map_or(self.lease_until, |beats| beats.acts_until);
        self.valid_until = self.lease_until.min(promised_until);
    }

    /// Returns true if the newest renewal succeeded.
    pub fn is_renewed(&self) -> bool {
        self.renew.failures == 0
    }

    /// Returns true if the last known record names this successor, or no successor for `None`.
    pub fn names_successor(&self, successor: Option<&str>) -> bool {
        self.record.successor.as_deref() == successor
    }
}

/// The data of a claimed turn that the record does not have.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub kind: Kind,
    pub past_due: bool,
    pub missed: u32,
}

/// A lease to be released.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Release {
    pub lease: LeaseId,
    /// The id to which the lease is changed. If it is `None`, the lease is released.
    pub successor: Option<LeaseId>,
    /// Tag of this candidate's own announcement as a successor. The announcement is withdrawn
    /// first, in one try.
    pub announcement_tag: Option<ETag>,
    /// Write of the last turn's outcome, sent before the release: other candidates need the
    /// outcome.
    pub last_write: Option<Write>,
    /// Deadline for the answer to that write: the end of the validity by the lease. In one-turn
    /// mode (protocol.md §10), a turn may end after the validity. The deadline is then moved, so
    /// that the outcome has one try. If the lease is lost, the service refuses the write.
    pub write_deadline: Moment,
    /// Instant at which the candidate stops trying to release the lease.
    pub gives_up_at: Moment,
    /// Time at which the candidate contends again.
    pub contend_at: Moment,
    pub pace: RetrySchedule,
}
