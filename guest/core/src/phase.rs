//! Where a candidate stands in the protocol, and what it knows there. The rules of each phase are in the
//! module of its name: two functions, `next` and `answered`, from this value to the one that follows.

use core::time::Duration;

use super::Moment;
use super::failover::Failover;
use super::pace::RetrySchedule;
use super::record::{Kind, Record, Trigger};
use super::write::Write;
use serde::{Deserialize, Serialize};
use tenure_azure::lease_id::LeaseId;
use tenure_azure::operation::ETag;
use tenure_base::prelude::*;

/// Where a candidate stands in the protocol.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(
    clippy::large_enum_variant,
    reason = "there is one, for the length of a step; smaller on wasm"
)]
pub(super) enum Phase {
    /// protocol.md §4.1: polling, or making what is not there.
    Watching(Watch),
    /// protocol.md §4.2.
    Acquiring(Attempt),
    /// protocol.md §4.3.
    Raising(Raise),
    /// protocol.md §4.4, §5: leading.
    Holding(Hold),
    /// protocol.md §7.1: the host was told of the end; the work is not yet seen stopped. The lease is to
    /// be released then, unless it is lost.
    Stopping { lease: Option<LeaseId> },
    /// protocol.md §7.1: a lease that may be ours is given back.
    Releasing(Release),
    /// Nothing more to do.
    Left,
}

impl Phase {
    /// The leadership, if there is one.
    pub fn hold(&self) -> Option<&Hold> {
        match self {
            Self::Holding(hold) => Some(hold),
            _ => None,
        }
    }
}

/// How often a request is repeated at once, because the blob changed under it or no two dates of the
/// service agree, before the candidate waits like any follower.
pub(super) const MOST_ROUNDS: u32 = 3;

/// A candidate that polls.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Watch {
    /// What is to be made.
    pub missing: Option<MissingResource>,
    pub pace: RetrySchedule,
    /// Polls repeated at once so far.
    pub rounds: u32,
}

impl Watch {
    pub fn at(next: Moment) -> Self {
        Self { missing: None, pace: RetrySchedule::due_at(next), rounds: 0 }
    }
}

/// What is not there.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum MissingResource {
    Blob,
    Container,
}

/// One attempt to win a term, with a lease id of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Attempt {
    pub lease: LeaseId,
    /// The tag of the blob as it was read; lease operations do not change it.
    pub etag: ETag,
    pub record: Option<Record>,
    /// A request of this attempt may have been carried out unseen.
    pub may_be_granted: bool,
    pub pace: RetrySchedule,
    /// Requests repeated at once so far.
    pub rounds: u32,
    /// The leader gave its lease to that id.
    pub handed_over: bool,
    /// The check that ends before the lease is acquired.
    pub check: Option<SplitCheck>,
}

/// A check for members and shares that is under way (protocol.md §14.6): the page that is listed next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SplitCheck {
    /// The list.
    pub list: SplitList,
    /// Where the page begins.
    pub marker: Option<String>,
}

/// The lists of a check, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SplitList {
    Members,
    Shares,
}

/// The lease is ours; the term is not raised yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Raise {
    pub lease: LeaseId,
    pub acquired_at: Moment,
    /// When it is too late to lead by this lease.
    pub valid_until: Moment,
    pub write: Write,
    /// How long the candidate waits before it contends again when the term cannot be raised.
    pub back_off: Duration,
    /// The check that follows the write of the term, and ends before the candidate leads.
    pub check: Option<SplitCheck>,
    /// The tag of the record with the term, and when the write was sent.
    pub term_write: Option<(ETag, Moment)>,
}

/// Leadership.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Hold {
    pub lease: LeaseId,
    /// Until when the leader acts: by its lease, and by its promise if it gave one.
    pub valid_until: Moment,
    /// Until when it may act by its lease.
    pub lease_until: Moment,
    /// It promises to have stopped soon after each beat.
    pub beats: Option<Beats>,
    /// When the lease was acquired.
    pub acquired_at: Moment,
    pub orders: LeaderOrders,
    pub renew: RetrySchedule,
    /// What is on the blob, and the outcome of the last turn, which may not be there yet.
    pub record: Record,
    pub etag: ETag,
    pub outcome_unwritten: bool,
    /// What was to be written when that was decided last. It is decided anew before each try, unless a
    /// try is in doubt: a read tells first whether that one was applied.
    pub write: Option<Write>,
    /// This write claims a turn.
    pub pending_claim: Option<Claim>,
    /// When the first claim or outcome was sent that did not get on record, if none did since.
    pub stalled_since: Option<Moment>,
    /// An operator wants a claimed slot that lies in the future forgotten.
    pub reset_requested: bool,
    /// A slot that went wrong is not tried again before.
    pub retry_after: Moment,
}

/// The orders that a leader has read. protocol.md §7.5.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LeaderOrders {
    /// The triggers of the newest read; some of them may be claimed by now.
    pub triggers: Vec<Trigger>,
    /// When the next read is due.
    pub read_at: Moment,
    /// When the newest read was answered, or failed.
    pub answered_at: Moment,
    /// A hint came since the newest read.
    pub was_hinted: bool,
    /// The ids of the transfers that it obeyed in this term, the newest first.
    pub obeyed_transfers: Vec<String>,
}

/// The beats of a leader. protocol.md §13.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Beats {
    /// The number of the newest try.
    pub number: u64,
    /// When the next one is due.
    pub next: Moment,
    /// Until when the leader acts by the newest one that is known to be on record.
    pub acts_until: Moment,
}

impl Hold {
    /// How long the leader still acts at `now`.
    pub fn time_left(&self, now: Moment) -> Duration {
        self.valid_until.saturating_sub(now)
    }

    /// Acts by the lease until then.
    pub fn extend_lease(&mut self, lease_until: Moment) {
        self.lease_until = lease_until;
        self.update_validity();
    }

    /// Acts by a beat that is on record and was `sent` then.
    pub fn on_beat_acknowledged(&mut self, sent_at: Moment, failover: Option<Failover>) {
        if let (Some(beats), Some(failover)) = (&mut self.beats, failover) {
            beats.next = sent_at + failover.beat_interval();
            beats.acts_until = beats.acts_until.max(sent_at + failover.validity());
        }
        self.update_validity();
    }

    /// Its promise was taken back.
    pub fn fall_back_to_lease(&mut self) {
        self.beats = None;
        self.update_validity();
    }

    fn update_validity(&mut self) {
        let promised_until = self.beats.map_or(self.lease_until, |beats| beats.acts_until);
        self.valid_until = self.lease_until.min(promised_until);
    }

    /// Whether the newest renewal was answered.
    pub fn is_renewed(&self) -> bool {
        self.renew.failures == 0
    }

    /// Whether the record on the blob names this successor, as far as is known.
    pub fn names_successor(&self, successor: Option<&str>) -> bool {
        self.record.successor.as_deref() == successor
    }
}

/// What is not on record of a turn that is claimed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Claim {
    pub kind: Kind,
    pub past_due: bool,
    pub missed: u32,
}

/// A lease that is to be given back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Release {
    pub lease: LeaseId,
    /// The id that it is given to; none: it is released.
    pub successor: Option<LeaseId>,
    /// Its announcement as a successor, which is taken back first, in one try.
    pub announcement_tag: Option<ETag>,
    /// The outcome of the last turn, to be put on record before: others want to know it.
    pub last_write: Option<Write>,
    /// That write has to be answered by then: so long the lease is certainly ours. A turn that
    /// ended later than that has it tried all the same: the service refuses what is no longer ours.
    pub write_deadline: Moment,
    /// The lease has run out by then in any case.
    pub gives_up_at: Moment,
    /// When to contend again.
    pub contend_at: Moment,
    pub pace: RetrySchedule,
}
