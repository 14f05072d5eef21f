//! Handing over to a named successor. protocol.md §7.2.
//!
//! The leader names the successor in the record. The candidate of that name announces itself: it writes
//! the lease id by which it will lead to a side blob, and writes it again every few
//! seconds while it is named. The leader reads the announcement, ends its work, and gives its lease to
//! that id if it has just read a fresh announcement. The successor polls until its id holds the lease. It
//! then acquires the lease anew by that id, with the length of its own settings, and raises the term as
//! after any acquisition. The lease is never free in between, so no third candidate can win it.
//!
//! A lease may be given to an announced id as long as the announcement is fresh, and somewhat longer. The
//! successor polls for it all that time, also when it was paused meanwhile or is not named any more. A
//! successor that leaves takes its announcement back.
//!
//! A follower of higher priority than the leader's announces itself too, without a lease id. The leader
//! then names it as its successor.

use core::time::Duration;

use super::Moment;
use super::candidate::{Phase, Step};
use super::chance::{Chance, lease_id};
use super::damping::ShortLeaderships;
use super::failure::Failure;
use super::holding::Hold;
use super::notice::{self, CANDIDATE, LEAST_NOTICE};
use super::problem::ProblemClass;
use super::record::{Judged, MOST_PRIORITY, Record, Unusable};
use super::releasing::LONGEST_OFFER;
use super::side_request::SideRequest;
use super::steering::{HandoverFailure, just_seen};
use super::text::{LONGEST_NAME, encoded, fit};
use super::timings::Timings;
use super::winning::{Attempt, SECOND, Watch};
use crate::mutants::mutant;
use serde::{Deserialize, Serialize};
use tenure_azure::answer::{Answer, Class, LeaseState, Properties};
use tenure_azure::lease_id::LeaseId;
use tenure_azure::metadata::Metadata;
use tenure_azure::name::SideBlob;
use tenure_azure::operation::{ETag, Operation};
use tenure_base::prelude::*;

/// How often the leader reads for an announcement of the successor that it named, and how often the
/// successor polls for its lease.
pub(super) const QUICK: Duration = Duration::from_millis(500);

/// How long after its newest announcement a successor polls for its lease: the leader may rely on
/// the announcement, and repeat the change, for that long.
const SUCCESSOR_POLLS: Duration = Duration::from_secs(60);

/// How often a successor announces itself again, and reads who leads and whom the leader names.
const ANEW: Duration = Duration::from_secs(4);

/// The age at which an announcement is not fresh any more. It is written every four seconds, both dates
/// have whole seconds, and the requests in between may take three seconds, or what [`REQUESTS`] of them
/// take.
const HERE: Duration = Duration::from_secs(9);
const FOR_REQUESTS: Duration = Duration::from_secs(3);

/// The longest age, also where requests take long: see [`longest_here`].
const LONGEST_HERE: Duration = Duration::from_secs(30);

/// How old an announcement may be in the answer to a read that took so long: the successor still polls
/// for its lease whenever the lease is given to it.
///
/// From the 60 s for which the successor polls are taken: 1 s, since dates have whole seconds; what
/// the read `took`, for the way back of its answer; 2 to 8 s, in which the leader may begin to give the
/// lease ([`just_seen`]); 21 s up to the end of its last try ([`LONGEST_OFFER`]); and 0.5 s up to
/// the next poll of the successor. That leaves 29.5 s or more, less what the read took. The longest
/// request time-out that the other periods allow is 27.75 s (60 − 2.5 − 1 = 2 × (27.75 + 0.5)), and
/// 1.75 s are left then.
fn longest_here(took: Duration) -> Duration {
    let given = SECOND + took + just_seen(took) + LONGEST_OFFER + QUICK;
    LONGEST_HERE.min(SUCCESSOR_POLLS.saturating_sub(given))
}

/// Where requests take long, an announcement is so many of them after the one before, beside the four
/// seconds: the successor polls as any follower, reads the announcement and writes it, which is three; it
/// polls for its lease before each of them.
const REQUESTS: u32 = 6;

/// How long a leader waits for the end of its work after it first read the announcement.
pub(super) const LEADER_WAITS: Duration = Duration::from_secs(45);

/// How long a leader waits for the successor to announce itself, beside two polls and [`TO_COME_REQUESTS`].
const TO_COME: Duration = Duration::from_secs(10);

/// The successor polls, reads the announcement of others and writes its own. The leader reads it after a
/// renewal, and perhaps after a read that came too early.
const TO_COME_REQUESTS: u32 = 6;

/// How often a follower of higher priority announces itself, and a leader reads for such an announcement.
const PRIORITY_EVERY: Duration = Duration::from_secs(30);

/// A follower of higher priority whose announcement is older does not wish to lead any more.
const FRESH: Duration = Duration::from_secs(90);

/// How long a leader names no successor of its own accord after a handover that failed.
const AFTER_FAILED_HANDOVER: Duration = Duration::from_secs(5 * 60);

const PRIORITY: &str = "tenurepriority";
const LEASE: &str = "tenurelease";
const TERM: &str = "tenureterm";

/// What a candidate says of itself when it announces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Announcement {
    /// Its name; not unique.
    candidate: String,
    priority: Option<u32>,
    /// The lease id by which it will lead, and the term in which it was named as the successor.
    called: Option<(LeaseId, u64)>,
}

/// A follower that the leader named as its successor.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Successor {
    lease: LeaseId,
    /// That of the leader. The id is the same as long as the term: another one would be taken for
    /// that of another candidate of this name.
    term: u64,
    /// The leader named it at the last poll.
    named: bool,
    /// Until then it polls whether its id holds the lease.
    until: Moment,
    /// When to poll as any follower does.
    plain: Moment,
}

impl Successor {
    pub fn is_named(self) -> bool {
        self.named
    }
}

impl Announcement {
    pub fn write(&self) -> Metadata {
        let mut metadata = Metadata::default();
        let mut put = |name: &str, value: String| metadata.insert(name.into(), value);
        put(CANDIDATE, encoded(&self.candidate));
        if let Some(priority) = self.priority {
            put(PRIORITY, priority.to_string());
        }
        if let Some((lease, term)) = self.called {
            put(LEASE, lease.to_string());
            put(TERM, term.to_string());
        }
        metadata
    }

    fn read(properties: &Properties) -> Option<Self> {
        let field = |name| properties.metadata.get(name);
        let priority = match field(PRIORITY) {
            None => None,
            Some(text) => Some(text.parse().ok().filter(|priority| *priority <= MOST_PRIORITY)?),
        };
        let called = match (field(LEASE), field(TERM)) {
            (Some(lease), Some(term)) => Some((LeaseId::parse(lease)?, term.parse().ok()?)),
            _ => None,
        };
        let announcement =
            Self { candidate: fit(field(CANDIDATE)?, LONGEST_NAME)?, priority, called };
        notice::is_a_candidates(properties).then_some(announcement)
    }

    /// Whether a candidate wrote this, or a version that is not known.
    pub fn is_fit(properties: &Properties) -> bool {
        Self::read(properties).is_some()
    }

    /// The announcement in an answer, unless it is too old. That of a named successor ages faster than
    /// that of a follower of higher priority, but slower where requests take as long as this one.
    fn fresh(answer: &Answer, took: Duration) -> Option<Self> {
        let seen = Self::read(answer.properties.as_ref()?)?;
        let age = answer.date?.signed_duration_since(answer.modified?);
        let here = HERE - FOR_REQUESTS + FOR_REQUESTS.max(REQUESTS * took);
        let here = here.min(longest_here(took));
        let most = if seen.called.is_some() { here } else { FRESH };
        (age.abs().to_std().ok()? < most || mutant!(AnnouncementIsStale)).then_some(seen)
    }
}

/// How long a leader waits for a successor that it has just named, where a request takes so long.
pub(super) fn time_to_come(timings: &Timings, took: Duration) -> Duration {
    2 * timings.poll + TO_COME + TO_COME_REQUESTS * took
}

type Reply = Result<Answer, Failure>;

/// What a follower does.
impl Step<'_> {
    /// Announces itself when the leader named this candidate as its successor, or has a lower priority.
    pub(super) fn announce(&mut self, record: &Record, now: Moment, chance: &mut dyn Chance) {
        let one_shot = self.settings.one_shot;
        let able =
            !one_shot && !self.stays_out(now) && self.settings.election.may_have_side_blobs();
        let named = able && record.successor.as_ref() == Some(&self.settings.name);
        let term = record.term;
        self.state.successor = self.state.successor.filter(|successor| successor.term == term);
        if named && self.state.successor.is_none() {
            let (lease, until, plain) = (lease_id(chance), Moment::ZERO, Moment::ZERO);
            self.state.successor = Some(Successor { lease, term, named, until, plain });
        }
        if let Some(successor) = &mut self.state.successor {
            successor.named = named;
        }
        let lower = record.priority.zip(self.settings.priority).is_some_and(|(its, our)| its < our);
        let wishes = able && lower && record.successor.is_none() && self.state.wish <= now;
        if wishes {
            self.state.wish = now + PRIORITY_EVERY;
        }
        if named || wishes {
            self.state.side_request = SideRequest::Read(SideBlob::Successor);
        }
    }

    /// When a follower polls again: not before there was time for its request about a side blob, and soon when it may be
    /// given the lease.
    pub(super) fn next_poll(&mut self, now: Moment, chance: &mut dyn Chance) -> Moment {
        let next = self.next_try(now, chance);
        if self.state.side_request != SideRequest::None {
            let polls = self.polls_in_between(now);
            return if polls { now } else { next.max(now + self.time_for_side_request()) };
        }
        match &mut self.state.successor {
            Some(successor) if now < successor.until => {
                successor.plain = now + ANEW;
                now + QUICK
            }
            _ => next,
        }
    }

    /// How long the requests about a side blob may take.
    fn time_for_side_request(&self) -> Duration {
        2 * self.longest_side_request() + LEAST_NOTICE
    }

    /// Whether a successor polls for its lease before it goes on to announce itself again. Where requests
    /// take long it does so after each of them: nobody renews a lease that was given away, so it would find
    /// the lease too late otherwise.
    fn polls_in_between(&mut self, now: Moment) -> bool {
        let slow = self.exchanges.last().is_some_and(|exchange| exchange.took > QUICK);
        let Some(successor) = &mut self.state.successor else { return false };
        let polls = slow && now < successor.until;
        if polls {
            successor.plain = now + ANEW;
        }
        polls
    }

    /// What this candidate tells when it announces itself.
    pub(super) fn announcement(&self) -> Option<Announcement> {
        let (successor, priority) = (self.state.successor, self.settings.priority);
        let called = successor
            .filter(|successor| successor.named)
            .map(|successor| (successor.lease, successor.term));
        let candidate = self.settings.name.clone();
        (called.is_some() || priority.is_some()).then_some(Announcement {
            candidate,
            priority,
            called,
        })
    }

    /// Whether this candidate may write its announcement over the one that is there. A successor spares
    /// that of another candidate of its name, to which the leader may be giving its lease. One that only has
    /// the higher priority spares that of any successor, and of whoever has a still higher priority.
    pub(super) fn may_announce(&mut self, answer: &Answer, took: Duration) -> bool {
        let Some(other) = Announcement::fresh(answer, took) else { return true };
        match self.state.successor.filter(|successor| successor.named) {
            Some(successor) => !other.called.is_some_and(|(lease, term)| {
                term == successor.term
                    && lease != successor.lease
                    && other.candidate == self.settings.name
            }),
            None => other.called.is_none() && other.priority <= self.settings.priority,
        }
    }

    /// Takes the answer to a request about its announcement.
    pub(super) fn announced(&mut self, answer: Option<&Answer>, (sent, now): (Moment, Moment)) {
        let leaves = matches!(self.state.side_request, SideRequest::Write { .. });
        self.side_request_answered(answer, now.saturating_sub(sent));
        let poll = self.settings.timings.poll;
        let polls = self.state.side_request != SideRequest::None && self.polls_in_between(now);
        let Phase::Watching(watch) = &mut self.state.phase else { return };
        if polls {
            watch.pace.next = now;
        }
        if self.state.side_request == SideRequest::None {
            // No later than that of any follower.
            watch.pace.next = watch.pace.next.min(now + poll / 2);
        }
        let Some(successor) = &mut self.state.successor else { return };
        let unknown = answer.is_none_or(|answer| {
            matches!(answer.class, Class::Done | Class::Unavailable | Class::Nonsense)
        });
        if leaves && successor.named && unknown {
            // A write that was not answered may be there too.
            successor.until = now + SUCCESSOR_POLLS;
            self.state.announced = answer.and_then(|answer| answer.etag.clone());
        }
        if self.state.side_request == SideRequest::None && now < successor.until {
            successor.plain = now + ANEW;
            watch.pace.next = now + QUICK;
        }
    }

    /// The id by which this candidate may be given the lease.
    pub(super) fn successor_id(&self, now: Moment) -> Option<LeaseId> {
        Some(self.state.successor.filter(|successor| now < successor.until)?.lease)
    }

    /// With which id to poll: a successor's own, to learn whether it holds the lease.
    pub(super) fn poll_as(&self, now: Moment) -> Option<LeaseId> {
        self.state
            .successor
            .filter(|successor| now < successor.plain)
            .and_then(|_| self.successor_id(now))
    }

    /// Takes the announcement of this candidate back, unless somebody else wrote over it.
    pub(super) fn withdrawal(&self, announced: ETag) -> Operation {
        let candidate = self.settings.name.clone();
        let metadata = Announcement { candidate, priority: None, called: None }.write();
        Operation::WriteSideBlob { blob: SideBlob::Successor, over: Some(announced), metadata }
    }

    /// Takes the answer to that read.
    pub(super) fn polled_as_successor(
        &mut self,
        lease: LeaseId,
        reply: &Reply,
        now: Moment,
        chance: &mut dyn Chance,
    ) -> Phase {
        let waits = |answer: &Answer| {
            let code = answer.code.as_deref().unwrap_or_default();
            answer.class == Class::LeaseMismatch && code.starts_with("LeaseIdMismatch")
        };
        let inherited = reply.as_ref().ok().and_then(|answer| {
            let (seen, etag) = (answer.properties.as_ref()?, answer.etag.clone()?);
            let held = answer.class == Class::Done && seen.lease == LeaseState::Leased;
            held.then(|| self.inherited(lease, seen, etag, now))
        });
        if inherited.is_some() {
            self.state.side_request = SideRequest::None;
        }
        let pause = if self.state.side_request == SideRequest::None {
            QUICK
        } else {
            self.time_for_side_request()
        };
        match (inherited, reply) {
            // It was paused meanwhile.
            (Some(_), _) if self.stays_out(now) => {
                self.state.successor = None;
                self.give_back(lease, now)
            }
            // Nobody leads as long as it keeps a lease that it cannot lead by.
            (Some(Err(problem)), _) => {
                self.state.successor = None;
                self.report_problem(ProblemClass::Configuration, problem.detail, now);
                self.give_back(lease, now)
            }
            (Some(Ok(attempt)), _) => {
                (self.state.successor, self.state.following) = (None, None);
                self.state.steering.settle();
                if mutant!(SuccessorDoesNotAcquire) {
                    return self.raise_term(attempt, (now, now), chance);
                }
                Phase::Acquiring(attempt)
            }
            // The leader has it still; or nobody can tell now.
            (None, Ok(answer)) if waits(answer) => Phase::Watching(Watch::at(now + pause)),
            (None, Ok(Answer { class: Class::Unavailable | Class::Nonsense, .. }) | Err(_)) => {
                Phase::Watching(Watch::at(now + pause))
            }
            // The next poll finds out what it is, and whether to announce itself still.
            (None, Ok(_)) => {
                self.state.side_request = SideRequest::None;
                if let Some(successor) = &mut self.state.successor {
                    successor.plain = now;
                }
                Phase::Watching(Watch::at(now))
            }
        }
    }

    /// The attempt with a lease that the leader gave to this candidate, judged as any other before it
    /// is acquired.
    fn inherited(
        &self,
        lease: LeaseId,
        seen: &Properties,
        etag: ETag,
        now: Moment,
    ) -> Result<Attempt, Unusable> {
        let time = self.state.service.now(now);
        let Judged { record, .. } = Record::judge(&self.settings.election, seen, time)?;
        self.judge_next(record.clone(), now)?;
        Ok(Attempt::inherited(lease, etag, record, now))
    }
}

/// What a leader does.
impl Step<'_> {
    /// When a leader reads for an announcement; none when it does not.
    pub(super) fn announcement_due(&self, hold: &Hold) -> Option<Moment> {
        match self.state.steering.hand_over() {
            Some(order) => order.reads_at(hold),
            None => self.settings.priority.map(|_| hold.read_announcement_at),
        }
    }

    /// Takes the answer to that read.
    pub(super) fn announcement_read(
        &mut self,
        answer: Option<&Answer>,
        (sent, now): (Moment, Moment),
    ) {
        let (own, priority) = (&self.settings.name, self.settings.priority);
        let Phase::Holding(hold) = &mut self.state.phase else { return };
        let known = answer.filter(|a| matches!(a.class, Class::Done | Class::MissingBlob));
        let seen = known.and_then(|answer| Announcement::fresh(answer, now.saturating_sub(sent)));
        if let Some(order) = self.state.steering.hand_over_mut() {
            let here = seen.and_then(|seen| {
                let (lease, term) = seen.called?;
                (seen.candidate == order.to && term == hold.term()).then_some(lease)
            });
            return order.announcement_read(known.map(|_| here), (sent, now));
        }
        hold.read_announcement_at = now + PRIORITY_EVERY;
        let higher = seen.filter(|seen| seen.priority > priority && seen.candidate != *own);
        if let Some(Announcement { candidate, .. }) = higher
            && !self.is_to_wait(&candidate, now)
        {
            self.hand_over(candidate, now);
        }
    }

    /// Whether a candidate of higher priority is not handed the leadership yet, because it did not keep
    /// it. That is reported. One that handed it to this leader itself did keep it.
    fn is_to_wait(&mut self, candidate: &str, now: Moment) -> bool {
        let Phase::Holding(hold) = &mut self.state.phase else { return false };
        let short = hold.short_leaderships(candidate, self.settings.max_tenure);
        let short = self.state.handed.with(candidate, short);
        let Some((ShortLeaderships { count, until }, time)) =
            short.zip(self.state.service.now(now))
        else {
            return false;
        };
        let left = until.since(time);
        hold.read_announcement_at = now + left.clamp(PRIORITY_EVERY, AFTER_FAILED_HANDOVER);
        if !left.is_zero() {
            let until = until.to_rfc3339();
            let detail = format!(
                "\"{candidate}\" has a higher priority, but is not handed the leadership before {until}: \
                 {count} of its leaderships in a row ended soon; see why it does not keep it. An order \
                 to hand over is carried out at once"
            );
            self.report_problem(ProblemClass::Order, detail, now);
        }
        !left.is_zero()
    }

    /// Nothing came of an order to hand over: the leadership goes on.
    pub(super) fn handover_failed(&mut self, to: &str, why: HandoverFailure, now: Moment) {
        if let Phase::Holding(hold) = &mut self.state.phase {
            hold.read_announcement_at = now + AFTER_FAILED_HANDOVER;
        }
        let why = match why {
            HandoverFailure::NotNamed => {
                "its name could not be put on record, so that it did not hear of it; see why writes of \
                 the record fail"
            }
            HandoverFailure::NotAsked => {
                "it could not be asked for: the blob beside the election's, which tells whether it is \
                 there, could not be read in time; try again when the service answers faster"
            }
            HandoverFailure::DidNotCome => {
                "no candidate of that name announced itself; is one running, not paused, and permitted to \
                 write beside the blob?"
            }
            HandoverFailure::WentAway => {
                "the candidate of that name was there, and is not any more"
            }
            HandoverFailure::WorkWentOn => "the work did not end in time",
        };
        let detail = format!("not handed over to \"{to}\", the leader goes on: {why}");
        self.answer_order(ProblemClass::Order, detail);
    }
}
