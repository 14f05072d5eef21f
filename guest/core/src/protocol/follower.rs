//! A follower: its announcement as a successor, the leader's beats as the follower observes them,
//! and its polls that hints bring forward. protocol.md §4.5, §7.2, §13.
//!
//! Only the leader can write the election's blob while the blob is leased. So a follower that the
//! leader names as its successor announces itself in a side blob. The announcement has the lease id
//! by which the follower will lead. Then the follower polls until that id holds the lease. It reads
//! the side blob before it writes, to spare the announcement of another candidate.

use core::time::Duration;

use super::phase::Watch;
use crate::Moment;
use crate::mutants::{self, mutant};
use crate::record::history::Incumbent;
use crate::record::metadata::{Beat, Record};
use crate::side::announcement::{
    self, ANNOUNCE_INTERVAL, Announcement, MIN_TIMEOUT, QUICK_POLL, SUCCESSOR_POLL_TIME,
};
use crate::step::clocks::nanos;
use crate::step::pace::{Chance, Failover, RetrySchedule, fresh_lease_id};
use crate::step::settings::Settings;
use crate::step::settings::timings::BACK_OFF;
use serde::{Deserialize, Serialize};
use tenure_azure::answer::{Answer, Class};
use tenure_azure::blob::{LeaseId, SideBlob};
use tenure_azure::operation::{ETag, Operation};
use tenure_base::prelude::*;

/// The state of a follower: its view of the leader, and its announcement.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Follower {
    /// The leader at the last poll, if there was one. `Some(None)` is a leader without a record.
    pub following: Option<Option<Incumbent>>,
    /// The newest beat of a leader that beats.
    pub pulse: Option<Pulse>,
    /// The succession, if the leader named this candidate as its successor.
    pub successor: Option<Successor>,
    /// The tag of this candidate's announcement, if the write was answered.
    pub announcement_tag: Option<ETag>,
    /// The due request about the announcement.
    request: Option<AnnouncementRequest>,
}

/// A follower that the leader named as its successor.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Successor {
    lease: LeaseId,
    /// The leader's term. The lease id stays the same within a term: another id would look like
    /// that of another candidate with this name.
    term: u64,
    /// True if the record named this follower at the last poll.
    pub is_named: bool,
    /// Time until which this follower polls for the lease with its id.
    polls_until: Moment,
    /// Time of the next poll without a lease id, which shows the record.
    normal_poll_at: Moment,
    /// Time of the next announcement.
    announce_at: Moment,
}

/// A request about the announcement.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum AnnouncementRequest {
    /// Reads the side blob, to see whether another candidate announced itself.
    Read,
    /// Writes the announcement over the version with that tag, or creates the blob.
    Write { replaces: Option<ETag> },
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
            let lease = previous.map_or_else(|| fresh_lease_id(chance), |previous| previous.lease);
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

    /// Returns the time of a follower's next poll, by default `next`. The poll leaves time for a
    /// due request about the announcement. A successor that waits for the lease polls sooner.
    /// `was_slow` is true if the newest request was slow.
    pub fn next_poll(
        &mut self,
        next: Moment,
        was_slow: bool,
        settings: &Settings,
        now: Moment,
    ) -> Moment {
        if let Some(time) = self.time_for_request(settings) {
            return if self.insert_lease_poll(was_slow, now) { now } else { next.max(now + time) };
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

    /// Returns the interval of a successor's polls with its lease id, and that of its polls without
    /// one. They are short enough that before a beating leader's promise ends, the successor has
    /// the lease, or detects that the leader died.
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

    /// Returns the time that the requests about the announcement may take, if one is due.
    pub fn time_for_request(&self, settings: &Settings) -> Option<Duration> {
        // With failover they run in parallel with the polls.
        let request = self.request.as_ref().filter(|_| settings.timings.failover.is_none());
        request.map(|_| 2 * settings.timings.request_timeout + MIN_TIMEOUT)
    }

    /// Makes a successor poll for its lease before it continues with its announcement, if the
    /// newest request was slow. Returns true if it does. The leader does not renew a lease that it
    /// gave away, so a late poll would leave the successor little of it.
    fn insert_lease_poll(&mut self, was_slow: bool, now: Moment) -> bool {
        let Some(successor) = &mut self.successor else { return false };
        let polls_first = was_slow && now < successor.polls_until;
        if polls_first {
            successor.normal_poll_at = now + ANNOUNCE_INTERVAL;
        }
        polls_first
    }

    /// Returns the operation of the due request. None if no request is due.
    pub fn operation(&self, settings: &Settings) -> Option<Operation> {
        Some(match self.request.as_ref()? {
            AnnouncementRequest::Read => Operation::ReadSideBlob(SideBlob::Successor),
            AnnouncementRequest::Write { replaces } => Operation::WriteSideBlob {
                blob: SideBlob::Successor,
                replaces: mutants::announcement_condition(replaces.clone()),
                metadata: self.announcement(settings)?.to_metadata(),
            },
        })
    }

    /// Drops the due request. Either a poll was answered, which shows whether it is still needed,
    /// or this candidate no longer follows.
    pub fn clear_request(&mut self) {
        self.request = None;
    }

    /// Drops the due request, because an event may have removed its cause. The next poll was
    /// delayed to leave time for the request. So it now comes no later than the earliest regular
    /// poll: regular polls come after half to a whole poll interval.
    pub fn cancel_request_and_poll_sooner(
        &mut self,
        watch: Option<&mut Watch>,
        settings: &Settings,
        now: Moment,
    ) {
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

    /// Returns the succession if the record named this candidate at the last poll.
    pub fn named_successor(&self) -> Option<Successor> {
        self.successor.filter(|successor| successor.is_named)
    }

    /// Returns true if this candidate may replace the announcement that was read. It spares a fresh
    /// announcement by another candidate of its name, to which the leader may be giving the lease.
    fn may_announce(&self, read: &Answer, took: Duration, settings: &Settings) -> bool {
        let current = Announcement::from_current(read, took)
            .filter(|current| current.candidate == settings.name);
        self.named_successor().is_some_and(|successor| {
            let nomination = current.and_then(|other| other.nomination);
            !nomination
                .is_some_and(|(lease, term)| term == successor.term && lease != successor.lease)
        })
    }

    /// Returns the write that follows a read, which took `took`. None if the announcement must not
    /// replace what was read: a blob that no candidate wrote is not overwritten.
    fn plan_write(
        &self,
        read: &Answer,
        took: Duration,
        settings: &Settings,
    ) -> Option<AnnouncementRequest> {
        let replaces = match (read.class, &read.properties) {
            (Class::MissingBlob, _) => None,
            (Class::Done, Some(properties)) if announcement::is_from_candidate(properties) => {
                read.etag.clone()
            }
            _ => return None,
        };
        self.may_announce(read, took, settings).then_some(AnnouncementRequest::Write { replaces })
    }

    /// Handles the answer to a read or write of the announcement. The request took `took`;
    /// `was_slow` is true if that was long.
    pub fn on_announcement_answer(
        &mut self,
        (is_write, answer): (bool, Option<&Answer>),
        (took, was_slow): (Duration, bool),
        watch: &mut Watch,
        settings: &Settings,
        now: Moment,
    ) {
        self.request = match (self.request.take(), answer) {
            (Some(AnnouncementRequest::Read), Some(read)) => self.plan_write(read, took, settings),
            _ => None,
        };
        if self.request.is_some() && self.insert_lease_poll(was_slow, now) {
            watch.pace.next_at = now;
        }
        if self.request.is_none() {
            // Regular polls come after half to a whole poll interval. This one comes no later than
            // the earliest of these.
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
                (now + SUCCESSOR_POLL_TIME, now + ANNOUNCE_INTERVAL);
            self.announcement_tag = answer.and_then(|answer| answer.etag.clone());
        }
        if self.request.is_none() && now < successor.polls_until {
            successor.normal_poll_at = now + normal;
            watch.pace.next_at = now + quick;
        }
    }

    /// Returns the lease id to which the leader may give the lease.
    pub fn successor_lease(&self, now: Moment) -> Option<LeaseId> {
        Some(self.successor.filter(|successor| now < successor.polls_until)?.lease)
    }

    /// Returns the lease id to poll with. A successor polls with its own id, to learn whether that
    /// holds the lease. None makes a normal poll.
    pub fn poll_lease(&self, now: Moment) -> Option<LeaseId> {
        self.successor
            .filter(|successor| now < successor.normal_poll_at)
            .and_then(|_| self.successor_lease(now))
    }

    /// Makes the next poll a normal one, which shows whether the leader still names this candidate.
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

/// The newest observed beat of a leader, and the takeover after its promise ended. protocol.md §13.
///
/// A leader that beats promises to have stopped a given time after its newest beat. The follower
/// counts from the receipt of the first answer that showed that beat: the beat was sent before. All
/// instants here are readings of the host's clock less the time by which it may run ahead
/// (`promise_clock`).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Pulse {
    etag: ETag,
    record: Record,
    promise: Duration,
    /// Receipt of the newest answer that showed this beat.
    confirmed_at: Moment,
    /// Time of the takeover: the end of the promise plus a random delay, so that one of many
    /// followers is first. After a break with an unknown outcome: the time of its retry.
    takeover: RetrySchedule,
}

impl Pulse {
    /// Returns the pulse after an answer that was received at `now` and showed this record.
    /// `previous` is the pulse before. None if the leader does not beat.
    pub fn observe(
        previous: Option<Self>,
        record: &Record,
        etag: &ETag,
        now: Moment,
        own_failover: Option<Failover>,
        chance: &mut dyn Chance,
    ) -> Option<Self> {
        let Beat { promise, .. } = record.beat?;
        // The promise on record counts, whatever this follower's own failover is.
        let promise = match own_failover {
            Some(own_failover) if mutant!(OwnPromise) => own_failover.promise(),
            _ => promise,
        };
        let unchanged =
            previous.filter(|pulse| pulse.etag == *etag && pulse.record.is_same_beat(record));
        Some(match unchanged {
            Some(unchanged) => Self { confirmed_at: now, ..unchanged },
            None => {
                // The random delay is at most about a quarter of a beat interval.
                let spread = chance.bits() % nanos(promise / 16).max(1);
                let takeover = RetrySchedule::due_at(now + promise + Duration::from_nanos(spread));
                Self {
                    etag: etag.clone(),
                    record: record.clone(),
                    promise,
                    confirmed_at: now,
                    takeover,
                }
            }
        })
    }

    /// Returns the promise of the leader on record.
    pub fn promise(&self) -> Duration {
        self.promise
    }

    /// Handles a break with an unknown outcome. Another poll has to show this beat before the next
    /// try. The pauses between tries grow: a service that fails to break leases may still answer
    /// polls.
    pub fn on_break_unanswered(mut self, now: Moment, chance: &mut dyn Chance) -> Self {
        self.takeover.on_failure(now, BACK_OFF, chance);
        Self { confirmed_at: Moment::ZERO, ..self }
    }

    /// Returns the time of the takeover. None if another poll has to confirm the beat first.
    pub fn takeover_at(&self) -> Option<Moment> {
        Some(self.takeover.next_at).filter(|end| *end < self.confirmed_until())
    }

    /// Returns true if the takeover is due and the beat was confirmed recently. Without the second
    /// condition, a follower that polls rarely would break the lease of a leader that beats.
    pub fn is_takeover_due(&self, now: Moment) -> bool {
        now >= self.takeover.next_at && now < self.confirmed_until()
    }

    fn confirmed_until(&self) -> Moment {
        self.confirmed_at + self.promise / 2
    }

    /// Returns the request that breaks the lease, unless the leader beat again.
    pub fn take_over(&self) -> Operation {
        let if_match = (!mutant!(BreakWithoutCondition)).then(|| self.etag.clone());
        Operation::Break { period: Some(0), if_match }
    }

    /// Returns the tag and the record for the acquire that follows.
    pub fn into_parts(self) -> (ETag, Record) {
        (self.etag, self.record)
    }
}

/// Pauses between the polls that one hint brings forward. The first poll is sent at once, but the
/// store may show the change only later.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
];

/// Maximum number of polls brought forward in a minute.
const MAX_POLLS: usize = 10;

const MINUTE: Duration = Duration::from_secs(60);

/// The polls that hints bring forward. A hint says that the leader may have changed. protocol.md
/// §4.5.
///
/// Hints are untrusted, because any process at the address on record may send them. So they bring a
/// limited number of polls forward, and do nothing else.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Hints {
    /// Send times of the last minute's polls that hints brought forward, the oldest first.
    sent_at: Vec<Moment>,
    /// The polls of the newest hint that are still to come.
    series: Option<PollSeries>,
}

/// The polls that one hint brings forward.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct PollSeries {
    /// The term that the candidate knew when the hint arrived.
    term: Option<u64>,
    /// Number of polls that were sent.
    polls: usize,
}

impl Hints {
    /// Starts a series of polls for a hint; `term` is the known term. Returns true if a poll should
    /// follow at once.
    pub fn accept(&mut self, term: Option<u64>, now: Moment) -> bool {
        let may_poll = self.may_poll(now);
        if may_poll {
            self.series = Some(PollSeries { term, polls: 0 });
        }
        may_poll
    }

    /// Records a poll that was sent at `sent` and showed this term. Returns the time of the next
    /// poll of the series. `None` without a series, if the term changed, or if all polls of the
    /// series or of the minute are used up.
    pub fn on_poll(&mut self, sent: Moment, term: Option<u64>, now: Moment) -> Option<Moment> {
        let PollSeries { term: term_before, polls } = self.series.take()?;
        self.sent_at.retain(|earlier| sent < *earlier + MINUTE);
        self.sent_at.push(sent);
        let next = now + *PAUSES.get(polls)?;
        let continues = term == term_before && self.may_poll(next);
        continues.then(|| {
            self.series = Some(PollSeries { term, polls: polls + 1 });
            next
        })
    }

    /// Ends the current series.
    pub fn clear(&mut self) {
        self.series = None;
    }

    fn may_poll(&self, at: Moment) -> bool {
        let recent_polls = self.sent_at.iter().filter(|sent| at < **sent + MINUTE).count();
        recent_polls < MAX_POLLS || mutant!(HintsWithoutLimit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Moment {
        Moment::from_millis(millis)
    }

    #[test]
    fn one_hint_brings_five_polls_forward_and_no_more() {
        let mut hints = Hints::default();
        assert!(hints.accept(Some(7), millis(1_000)));
        let mut at = millis(1_000);
        for pause in [50, 100, 200, 400] {
            let next = hints.on_poll(at, Some(7), at + millis(3));
            assert_eq!(next, Some(at + millis(3 + pause)));
            at += millis(3 + pause);
        }
        assert_eq!(hints.on_poll(at, Some(7), at), None);
        assert_eq!(hints.on_poll(at, Some(7), at), None, "an ordinary poll");
        assert_eq!(hints.sent_at.len(), 5);
    }

    #[test]
    fn a_changed_term_ends_the_series() {
        for (before, after) in [(Some(7), Some(8)), (Some(7), None), (None, Some(1))] {
            let mut hints = Hints::default();
            assert!(hints.accept(before, millis(0)));
            assert_eq!(hints.on_poll(millis(0), after, millis(1)), None);
            assert_eq!(hints.on_poll(millis(0), before, millis(1)), None);
        }
    }

    #[test]
    fn hints_are_limited_to_ten_polls_a_minute() {
        let mut hints = Hints::default();
        let (mut polls, mut next) = (Vec::new(), None);
        for at in (0..180_000).map(millis) {
            if hints.accept(Some(7), at) || next.is_some_and(|next| next <= at) {
                polls.push(at);
                next = hints.on_poll(at, Some(7), at);
            }
            assert!(hints.sent_at.len() <= MAX_POLLS);
        }
        assert_eq!(polls.len(), 3 * MAX_POLLS);
        for minute in polls.windows(MAX_POLLS + 1) {
            assert!(minute[MAX_POLLS] >= minute[0] + MINUTE, "{minute:?}");
        }
    }

    #[test]
    fn a_series_keeps_to_the_limit_too() {
        let mut hints = Hints::default();
        for n in 0..7 {
            assert!(hints.accept(Some(7), millis(n)));
            hints.on_poll(millis(n), None, millis(n));
        }
        assert!(hints.accept(Some(7), millis(10)));
        let next = hints.on_poll(millis(10), Some(7), millis(10)).unwrap();
        let next = hints.on_poll(next, Some(7), next).unwrap();
        assert_eq!(hints.on_poll(next, Some(7), next), None, "the tenth was the last");
        assert!(!hints.accept(Some(7), millis(59_999)));
        assert!(hints.accept(Some(7), millis(60_000)));
    }
}
