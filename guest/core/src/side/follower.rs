//! Requests of a follower next to the election's blob, which it cannot write while the blob is
//! leased: the announcement (protocol.md §7.2).
//!
//! A follower announces itself when the leader names it as its successor. It writes the lease id by
//! which it will lead, and polls until that id holds the lease. It reads the blob before it writes,
//! to spare the announcement of another candidate.

use core::time::Duration;

use super::announcement::{ANNOUNCE_INTERVAL, Announcement, QUICK_POLL, SUCCESSOR_POLLS};
use super::side_blob_rules::{self, LEAST_TIMEOUT};
use crate::Moment;
use crate::mutants::{self, mutant};
use crate::protocol::phase::Watch;
use crate::protocol::pulse::Pulse;
use crate::record::history::Incumbent;
use crate::record::metadata::Record;
use crate::step::chance::{Chance, lease_id};
use crate::step::settings::Settings;
use serde::{Deserialize, Serialize};
use tenure_azure::answer::{Answer, Class};
use tenure_azure::blob::{LeaseId, SideBlob};
use tenure_azure::operation::{ETag, Operation};

/// The state of a follower: its view of the leader, and its announcement.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Follower {
    /// The leader that was observed last; the inner none is a leader without a record.
    pub following: Option<Option<Incumbent>>,
    /// The newest beat of a leader that beats.
    pub pulse: Option<Pulse>,
    /// Set if the leader named this candidate as its successor.
    pub successor: Option<Successor>,
    /// The tag of its announcement, if the write was answered.
    pub announcement_tag: Option<ETag>,
    /// The due request.
    request: Option<AnnouncementRequest>,
}

/// A follower that the leader named as its successor.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Successor {
    lease: LeaseId,
    /// The leader's term. The lease id stays the same within a term: another id would look like
    /// that of another candidate with this name.
    term: u64,
    /// True if the leader named it at the last poll.
    pub is_named: bool,
    /// Time until which it polls for the lease with its id.
    polls_until: Moment,
    /// Time of the next normal poll.
    normal_poll_at: Moment,
    /// Time of the next announcement.
    announce_at: Moment,
}

/// A request about the announcement.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum AnnouncementRequest {
    /// Reads the blob, to see whether another candidate announced itself.
    Read,
    /// Writes the announcement over the version with that tag, or creates the blob.
    Write { over: Option<ETag> },
}

impl Follower {
    /// Plans the announcement if the leader named this candidate as its successor. At most one
    /// request is in flight at a time.
    pub fn announce(
        &mut self,
        record: &Record,
        (is_ineligible, has_pending_request): (bool, bool),
        settings: &Settings,
        now: Moment,
        chance: &mut dyn Chance,
    ) {
        let may_succeed =
            !settings.one_shot && !is_ineligible && settings.election.may_have_side_blobs();
        let is_named = may_succeed && record.successor.as_ref() == Some(&settings.name);
        let term = record.term;
        let previous = self.successor.filter(|_| mutant!(SuccessorKeepsLeaseId));
        self.successor = self.successor.filter(|successor| successor.term == term);
        if is_named && self.successor.is_none() {
            let lease = previous.map_or_else(|| lease_id(chance), |before| before.lease);
            let [polls_until, normal_poll_at, announce_at] = [Moment::ZERO; 3];
            self.successor =
                Some(Successor { lease, term, is_named, polls_until, normal_poll_at, announce_at });
        }
        if let Some(successor) = &mut self.successor {
            successor.is_named = is_named;
        }
        if !has_pending_request
            && self.successor.is_some_and(|s| s.is_named && s.announce_at <= now)
        {
            self.request = Some(AnnouncementRequest::Read);
        }
    }

    /// Returns the time of a follower's next poll; `next` is the default. It leaves time for a due
    /// side-blob request, and comes soon if the leader may give it the lease. `slow` tells whether
    /// the newest request was slow.
    pub fn next_poll(
        &mut self,
        next: Moment,
        slow: bool,
        settings: &Settings,
        now: Moment,
    ) -> Moment {
        if let Some(time) = self.time_for_request(settings) {
            return if self.polls_in_between(slow, now) { now } else { next.max(now + time) };
        }
        let (quick, normal) = self.poll_intervals();
        match &mut self.successor {
            Some(successor) if now < successor.polls_until => {
                successor.normal_poll_at = now + normal;
                now + quick
            }
            _ => next,
        }
    }

    /// Returns the poll interval of a successor for its lease, and its interval of normal polls.
    /// Before the promise of a beating leader ends, it detects either its own lease or the leader's
    /// death.
    pub fn poll_intervals(&self) -> (Duration, Duration) {
        let quick =
            self.pulse.as_ref().map_or(QUICK_POLL, |pulse| QUICK_POLL.min(pulse.promise() / 8));
        (quick, if self.pulse.is_some() { 2 * quick } else { ANNOUNCE_INTERVAL })
    }

    /// Returns the term of the leader that was observed last.
    pub fn known_term(&self) -> Option<u64> {
        Some(self.following.as_ref()?.as_ref()?.term)
    }

    pub fn has_request(&self) -> bool {
        self.request.is_some()
    }

    /// Returns the time for the requests about a side blob, if one is due.
    pub fn time_for_request(&self, settings: &Settings) -> Option<Duration> {
        // With failover they run in parallel with the polls.
        let request = self.request.as_ref().filter(|_| settings.timings.failover.is_none());
        request.map(|_| 2 * settings.timings.request_timeout + LEAST_TIMEOUT)
    }

    /// Returns true if a successor polls for its lease before it continues with its announcement.
    /// Slow requests make it poll after each of them: no leader renews a lease that was given away,
    /// so it would find the lease too late otherwise.
    fn polls_in_between(&mut self, slow: bool, now: Moment) -> bool {
        let Some(successor) = &mut self.successor else { return false };
        let polls_first = slow && now < successor.polls_until;
        if polls_first {
            successor.normal_poll_at = now + ANNOUNCE_INTERVAL;
        }
        polls_first
    }

    /// Returns the due request about the side blob. None if nothing is due.
    pub fn operation(&self, settings: &Settings) -> Option<Operation> {
        Some(match self.request.as_ref()? {
            AnnouncementRequest::Read => Operation::ReadSideBlob(SideBlob::Successor),
            AnnouncementRequest::Write { over } => Operation::WriteSideBlob {
                blob: SideBlob::Successor,
                replaces: mutants::over(over.clone()),
                metadata: self.announcement(settings)?.to_metadata(),
            },
        })
    }

    /// Drops the due request.
    pub fn forget_request(&mut self) {
        self.request = None;
    }

    /// Drops the request, because an event may have removed its cause. The next poll then need not
    /// wait for it.
    pub fn drop_request(&mut self, watch: Option<&mut Watch>, settings: &Settings, now: Moment) {
        let had_request = self.request.take().is_some();
        if let Some(watch) = watch.filter(|_| had_request) {
            watch.pace.next_at = watch.pace.next_at.min(now + settings.timings.poll / 2);
        }
    }

    /// Returns this candidate's announcement.
    fn announcement(&self, settings: &Settings) -> Option<Announcement> {
        let Successor { lease, term, .. } = self.named_successor()?;
        Some(Announcement { candidate: settings.name.clone(), nomination: Some((lease, term)) })
    }

    /// Returns this candidate as the successor that the leader named at the last poll.
    pub fn named_successor(&self) -> Option<Successor> {
        self.successor.filter(|successor| successor.is_named)
    }

    /// Returns true if this candidate may write its announcement over the one that was read. It
    /// spares that of another candidate of its name, to which the leader may be giving its lease.
    fn may_announce(&self, read: &Answer, took: Duration, settings: &Settings) -> bool {
        let current = Announcement::from_current(read, took)
            .filter(|current| current.candidate == settings.name);
        self.named_successor().is_some_and(|successor| {
            let nomination = current.and_then(|other| other.nomination);
            !nomination
                .is_some_and(|(lease, term)| term == successor.term && lease != successor.lease)
        })
    }

    /// Returns the write that follows the answer to a read, which took `took`. A blob that no
    /// candidate wrote is not overwritten.
    fn plan_write(
        &self,
        read: &Answer,
        took: Duration,
        settings: &Settings,
    ) -> Option<AnnouncementRequest> {
        let over = match (read.class, &read.properties) {
            (Class::MissingBlob, _) => None,
            (Class::Done, Some(properties)) if side_blob_rules::is_from_candidate(properties) => {
                read.etag.clone()
            }
            _ => return None,
        };
        self.may_announce(read, took, settings).then_some(AnnouncementRequest::Write { over })
    }

    /// Handles the answer to a request about its announcement, a read or a write. `took` is its
    /// duration, and `slow` tells whether that was long.
    pub fn on_announcement_answer(
        &mut self,
        (is_write, answer): (bool, Option<&Answer>),
        (took, slow): (Duration, bool),
        watch: &mut Watch,
        settings: &Settings,
        now: Moment,
    ) {
        self.request = match (self.request.take(), answer) {
            (Some(AnnouncementRequest::Read), Some(read)) => self.plan_write(read, took, settings),
            _ => None,
        };
        if self.request.is_some() && self.polls_in_between(slow, now) {
            watch.pace.next_at = now;
        }
        if self.request.is_none() {
            // No later than the poll of any follower.
            watch.pace.next_at = watch.pace.next_at.min(now + settings.timings.poll / 2);
        }
        let (quick, normal) = self.poll_intervals();
        let Some(successor) = &mut self.successor else { return };
        let may_be_written = answer.is_none_or(|answer| {
            matches!(answer.class, Class::Done | Class::Unavailable | Class::Nonsense)
        });
        if is_write && successor.is_named && may_be_written {
            // A write without an answer may have been applied too.
            (successor.polls_until, successor.announce_at) =
                (now + SUCCESSOR_POLLS, now + ANNOUNCE_INTERVAL);
            self.announcement_tag = answer.and_then(|answer| answer.etag.clone());
        }
        if self.request.is_none() && now < successor.polls_until {
            successor.normal_poll_at = now + normal;
            watch.pace.next_at = now + quick;
        }
    }

    /// Returns the id by which the leader may give this candidate the lease.
    pub fn successor_lease(&self, now: Moment) -> Option<LeaseId> {
        Some(self.successor.filter(|successor| now < successor.polls_until)?.lease)
    }

    /// Returns the lease id to poll with: a successor polls with its own, to learn whether it holds
    /// the lease.
    pub fn poll_lease(&self, now: Moment) -> Option<LeaseId> {
        self.successor
            .filter(|successor| now < successor.normal_poll_at)
            .and_then(|_| self.successor_lease(now))
    }

    /// Makes the next poll a normal one, which shows whether to continue the announcement.
    pub fn poll_normally(&mut self, now: Moment) {
        self.request = None;
        if let Some(successor) = &mut self.successor {
            successor.normal_poll_at = now;
        }
    }
}

/// Returns the request that withdraws the announcement with that tag, unless another candidate
/// overwrote it.
pub(crate) fn withdrawal(tag: ETag, settings: &Settings) -> Operation {
    let metadata =
        Announcement { candidate: settings.name.clone(), nomination: None }.to_metadata();
    Operation::WriteSideBlob { blob: SideBlob::Successor, replaces: Some(tag), metadata }
}
