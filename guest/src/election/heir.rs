//! Handing over to a named heir. `protocol.md`, Handing over.
//!
//! The leader names the heir in the record. The candidate of that name comes forward: beside the
//! election's blob it leaves the lease id by which it will lead. The leader sees it there, brings its
//! work to an end, and gives its lease to that id. The heir asks whether its id holds the lease,
//! renews it, and raises the term as after any acquisition. The lease is never free in between, so
//! that no third candidate can win it.
//!
//! A follower of higher priority than the leader's comes forward too, without a lease id: the leader
//! then names it as its heir.

use core::time::Duration;

use chrono::TimeDelta;

use super::Moment;
use super::candidate::{Phase, Step};
use super::chance::{Chance, lease_id};
use super::chore::Chore;
use super::failure::Failure;
use super::holding::Hold;
use super::notice::{self, CANDIDATE};
use super::record::{Record, decoded, encoded};
use super::trouble::TroubleClass;
use super::winning::{Attempt, Watch};
use crate::azure::answer::{Answer, Class, LeaseState, Properties};
use crate::azure::lease_id::LeaseId;
use crate::azure::metadata::Metadata;
use crate::azure::name::Aside;
use crate::memory::remember;
use crate::mutants::mutant;
use crate::prelude::*;

/// How often the leader looks for the heir that it named, and the heir for its lease.
pub(super) const QUICK: Duration = Duration::from_millis(500);

/// How long an heir that came forward looks for its lease.
const HEIR_WAITS: Duration = Duration::from_secs(60);

/// How long after it saw the heir a leader still hands over: within what the heir waits.
pub(super) const LEADER_WAITS: Duration = Duration::from_secs(45);

/// How long a leader waits for the heir to come forward, beside two polls.
pub(super) const TO_COME: Duration = Duration::from_secs(10);

/// How often a follower of higher priority comes forward, and a leader looks for one.
const PRIORITY_EVERY: Duration = Duration::from_secs(30);

/// One that came forward longer ago does not wish to lead any more.
const FRESH: TimeDelta = TimeDelta::seconds(90);

/// A leader that waited for an heir in vain names none of its own accord for so long.
const AFTER_IN_VAIN: Duration = Duration::from_secs(5 * 60);

const PRIORITY: &str = "tenurepriority";
const LEASE: &str = "tenureheir";
const TERM: &str = "tenureterm";

/// What a candidate that comes forward tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Forward {
    /// Its name; not unique.
    candidate: String,
    priority: Option<u32>,
    /// The lease id by which it will lead, and the term in which it was named as the heir.
    called: Option<(LeaseId, u64)>,
}

/// A follower that the leader named as its heir.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heir {
    lease: LeaseId,
    /// That of the leader.
    term: u64,
    /// It came forward, and looks whether its id holds the lease.
    forward: bool,
    until: Moment,
}

remember!(struct Heir { lease, term, forward, until });

impl Forward {
    pub fn write(&self) -> Metadata {
        let mut metadata = Metadata::from_iter([(CANDIDATE, encoded(&self.candidate))]);
        let mut put = |name: &str, value: String| {
            metadata.insert(name.into(), value);
        };
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
        let number = |name| field(name)?.parse().ok();
        let lease = field(LEASE).and_then(LeaseId::parse);
        let forward = Self {
            candidate: decoded(field(CANDIDATE)?)?,
            priority: number(PRIORITY).and_then(|priority| u32::try_from(priority).ok()),
            called: lease.zip(number(TERM)),
        };
        notice::is_a_candidates(properties).then_some(forward)
    }

    fn seen(answer: &Answer) -> Option<Self> {
        Self::read(answer.properties.as_ref()?)
    }

    fn is_fresh(answer: &Answer) -> bool {
        let age =
            answer.date.zip(answer.modified).map(|(now, then)| now.signed_duration_since(then));
        age.is_some_and(|age| age.abs() < FRESH)
    }
}

type Reply = Result<Answer, Failure>;

/// What a follower does.
impl Step<'_> {
    /// Comes forward when the leader named this candidate as its heir, or has a lower priority.
    pub(super) fn come_forward(&mut self, record: &Record, now: Moment, chance: &mut dyn Chance) {
        let remembers = !self.settings.one_shot;
        if !remembers || self.stays_out(now) || !self.settings.election.may_have_asides() {
            self.state.heir = None;
            return;
        }
        if record.heir.as_ref() == Some(&self.settings.name) {
            let before = self.state.heir.filter(|heir| heir.term == record.term);
            if before.is_none_or(|heir| now >= heir.until) {
                // The same id again, or what it left before would be taken for another's.
                let lease = before.map_or_else(|| lease_id(chance), |heir| heir.lease);
                let until = now + HEIR_WAITS;
                self.state.heir = Some(Heir { lease, term: record.term, forward: false, until });
            }
            if self.state.heir.is_some_and(|heir| !heir.forward) {
                self.chore = Chore::Look(Aside::Heir);
            }
            return;
        }
        self.state.heir = None;
        let lower = record.priority.zip(self.settings.priority).is_some_and(|(its, our)| its < our);
        if lower && self.state.wish <= now {
            self.state.wish = now + PRIORITY_EVERY;
            self.chore = Chore::Look(Aside::Heir);
        }
    }

    /// What this candidate tells when it comes forward.
    pub(super) fn forward(&self) -> Option<Forward> {
        let (heir, priority) = (self.state.heir, self.settings.priority);
        let called = heir.map(|heir| (heir.lease, heir.term));
        let candidate = self.settings.name.clone();
        (called.is_some() || priority.is_some()).then_some(Forward { candidate, priority, called })
    }

    /// Whether nobody else stands where this candidate would: another one of its name that the
    /// leader may be giving its lease to, or one of a higher priority.
    pub(super) fn may_come_forward(&mut self, answer: &Answer) -> bool {
        let Some(other) = Forward::seen(answer).filter(|_| Forward::is_fresh(answer)) else {
            return true;
        };
        match self.state.heir {
            Some(heir) => !other.called.is_some_and(|(lease, term)| {
                term == heir.term && lease != heir.lease && other.candidate == self.settings.name
            }),
            None => other.priority.is_none_or(|priority| Some(priority) <= self.settings.priority),
        }
    }

    /// It stands there now.
    pub(super) fn came_forward(&mut self, now: Moment) {
        let (Some(heir), Phase::Watching(watch)) = (&mut self.state.heir, &mut self.state.phase)
        else {
            return;
        };
        heir.forward = true;
        watch.pace.next = now + QUICK;
    }

    /// The id of an heir that looks whether it holds the lease.
    pub(super) fn heir_id(&self, now: Moment) -> Option<LeaseId> {
        let heir = self.state.heir.filter(|heir| heir.forward && now < heir.until)?;
        Some(heir.lease)
    }

    /// Takes the answer to that look.
    pub(super) fn looked_as_heir(&mut self, lease: LeaseId, reply: &Reply, now: Moment) -> Phase {
        let waits = |answer: &Answer| {
            let code = answer.code.as_deref().unwrap_or_default();
            answer.class == Class::LeaseMismatch && code.starts_with("LeaseIdMismatch")
        };
        let inherited = reply.as_ref().ok().and_then(|answer| {
            let (seen, etag) = (answer.properties.as_ref()?, answer.etag.clone()?);
            let held = answer.class == Class::Done && seen.lease == LeaseState::Leased;
            let election = &self.settings.election;
            let record = Record::judge(election, seen.content_length, &seen.metadata).ok()?;
            held.then(|| Attempt::inherited(lease, etag, record, now))
        });
        match (inherited, reply) {
            (Some(attempt), _) => {
                (self.state.heir, self.state.following) = (None, None);
                if mutant!(HeirDoesNotRenew) {
                    return self.raise_term(attempt, now, now);
                }
                Phase::Acquiring(attempt)
            }
            // The leader has it still; or nobody can tell now.
            (None, Ok(answer)) if waits(answer) => Phase::Watching(Watch::at(now + QUICK)),
            (None, Err(_)) => Phase::Watching(Watch::at(now + QUICK)),
            // Whatever it is, a look like any other finds out.
            (None, Ok(_)) => {
                self.state.heir = None;
                Phase::Watching(Watch::at(now))
            }
        }
    }
}

/// What a leader does.
impl Step<'_> {
    /// When a leader looks for somebody who came forward; none when it does not.
    pub(super) fn heir_due(&self, hold: &Hold) -> Option<Moment> {
        match self.state.steering.hand_over() {
            Some(order) => order.looks_at(hold),
            None => self.settings.priority.map(|_| hold.look_for_heir),
        }
    }

    /// Takes the answer to that look.
    pub(super) fn looked_for_heir(&mut self, answer: Option<&Answer>, now: Moment) {
        let (own, priority) = (&self.settings.name, self.settings.priority);
        let Phase::Holding(hold) = &mut self.state.phase else { return };
        let seen = answer.and_then(|answer| Some((Forward::seen(answer)?, answer)));
        if let Some(order) = self.state.steering.hand_over_mut() {
            let here = seen.and_then(|(seen, _)| {
                let (lease, term) = seen.called?;
                (seen.candidate == order.to && term == hold.term()).then_some(lease)
            });
            return order.looked(here, now);
        }
        hold.look_for_heir = now + PRIORITY_EVERY;
        let better = seen.filter(|(seen, answer)| {
            seen.priority > priority && seen.candidate != *own && Forward::is_fresh(answer)
        });
        if let Some((seen, _)) = better {
            self.hand_over(seen.candidate, now);
        }
    }

    /// The heir did not come, or the work did not end in time: the leadership goes on.
    pub(super) fn in_vain(&mut self, to: &str, came: bool, now: Moment) {
        if let Phase::Holding(hold) = &mut self.state.phase {
            hold.look_for_heir = now + AFTER_IN_VAIN;
        }
        let why = match came {
            true => "the work did not end in time",
            false => {
                "no candidate of that name came forward. See whether one runs, is not paused, and \
                 may write beside the blob"
            }
        };
        let detail = format!("not handed over to \"{to}\", this one goes on leading: {why}");
        self.tell(TroubleClass::Work, detail, now);
    }
}
