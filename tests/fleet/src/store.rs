//! The account, with atomic operations in sequence. Its leases have the properties that protocol.md
//! §3, §4, §5 and §7 prove.

use std::collections::BTreeMap;

use std::time::Duration;

use fastrand::Rng;
use tenure_shares::mutants::{Mutant, is_active};
use tenure_shares::{ListedSign, Plan, Share, Sign, StoreRequest, StoreResponse, Tag};

/// An election: the coordinating one, or the election of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Election whose leader writes the plan.
    Coordination,
    /// Election whose leader holds the share.
    Share(Share),
}

/// A lease id.
pub type Id = u64;

/// Id of a broken lease: no candidate can renew it.
const BROKEN: Id = u64::MAX;

/// A request of a candidate.
#[derive(Clone, Debug)]
pub enum Op {
    /// Reads lease and record; with a lease id, to check whether it holds the lease.
    Poll(Option<Id>),
    /// Acquires the lease, if the blob still has that version.
    Acquire(Id, u64),
    /// Writes the next term to the record; true if its leader coordinates shares.
    Raise(Id, bool),
    /// Renews the lease.
    Renew(Id),
    /// Writes the successor to the record.
    NameSuccessor(Id, usize),
    /// Announces a successor and its future lease id, in a side blob.
    Announce(Id),
    /// Reads the announcement.
    ReadAnnouncement,
    /// Changes the lease to that id.
    Change(Id, Id),
    /// Releases the lease.
    Release(Id),
    /// Reads lease and record of the coordinating election.
    ReadCoordination,
    /// Lists signs and shares, as a candidate without shares does.
    ListSplit,
}

/// Reply to a candidate's request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// No reply in time: the request may have been applied, or may be later.
    Unknown,
    /// The request was applied.
    Done,
    /// The lease or the version differs.
    Lost,
    /// The term that was written.
    Raised(u64),
    /// State of the blob.
    State(State),
    /// True if a member is alive or a share is held.
    Split(bool),
    /// Announced successor, its lease id, and the age of the announcement in milliseconds.
    Announcement(Option<(usize, Id, u64)>),
}

/// State of a blob, from a poll.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// Version of the blob.
    pub tag: u64,
    /// True if the lease is held.
    pub leased: bool,
    /// True if the lease id of the poll holds it.
    pub held_by_caller: bool,
    /// Successor that is to take over.
    pub successor: Option<usize>,
    /// True if no candidate may contend any more.
    pub closed: bool,
    /// True if the work was split once.
    pub split: bool,
    /// True if the newest leader coordinates shares.
    pub coordinated: bool,
}

#[derive(Clone, Debug, Default)]
struct Election {
    /// Lease id and its end.
    lease: Option<(Id, u64)>,
    tag: u64,
    term: u64,
    coordinator_term: Option<u64>,
    successor: Option<usize>,
    announced: Option<(usize, Id, u64)>,
    closed: bool,
}

/// Stored sign of life.
#[derive(Clone, Debug)]
pub struct StoredSign {
    sign: Sign,
    tag: u64,
    /// Life of the process that wrote it.
    life: u32,
    /// Time of the write.
    written_at: u64,
    /// Reading of the member's clock when the sign was sent.
    pub sent_at: u64,
}

impl StoredSign {
    /// Returns the sign as listed in a response with this date, in whole seconds.
    fn to_listed(&self, date: u64) -> ListedSign {
        ListedSign {
            sign: self.sign.clone(),
            tag: format_tag(self.tag),
            age: Duration::from_secs(date - self.written_at / 1_000),
        }
    }
}

/// All blobs.
#[derive(Debug)]
pub struct Store {
    rng: Rng,
    /// Duration of a lease, in milliseconds.
    lease_duration: u64,
    elections: BTreeMap<Key, Election>,
    signs: BTreeMap<String, StoredSign>,
    plan: Option<(Plan, u64)>,
    last_tag: u64,
}

impl Store {
    /// Creates an empty store with this lease duration in milliseconds.
    #[must_use]
    pub fn new(seed: u64, lease_duration: u64) -> Self {
        let rng = Rng::with_seed(seed);
        Self {
            rng,
            lease_duration,
            elections: BTreeMap::new(),
            signs: BTreeMap::new(),
            plan: None,
            last_tag: 0,
        }
    }

    /// Returns the plan.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref().map(|(plan, _)| plan)
    }

    /// Applies a command's request for another number of shares, between two other operations.
    pub fn reshare(&mut self, shares: u32) -> Option<&Plan> {
        let (plan, _) = self.plan.take()?;
        let tag = self.next_tag();
        Some(&self.plan.insert((plan.reshare(shares), tag)).0)
    }

    /// Deletes the record of the coordinating election, whose terms were far ahead.
    pub fn forget_coordination(&mut self) {
        self.elections.remove(&Key::Coordination);
        if let Some((plan, _)) = &mut self.plan {
            plan.term += 1_000_000;
        }
    }

    /// Returns true if a sign of that member exists.
    #[must_use]
    pub fn has_sign(&self, member: &str) -> bool {
        self.signs.contains_key(member)
    }

    fn next_tag(&mut self) -> u64 {
        self.last_tag += 1;
        self.last_tag
    }

    /// Handles a request about shares, from the process of that name in that life.
    pub fn shares(
        &mut self,
        request: &StoreRequest,
        (name, life): (&str, u32),
        sender_clock: u64,
        now: u64,
    ) -> StoreResponse {
        match request {
            StoreRequest::WriteSign(sign) => {
                let tag = self.next_tag();
                let sent_at = sender_clock;
                let stored = StoredSign { sign: sign.clone(), tag, life, written_at: now, sent_at };
                self.signs.insert(sign.member.clone(), stored);
                StoreResponse::Signed(format_tag(tag))
            }
            StoreRequest::WithdrawSign => {
                self.signs.remove(name);
                StoreResponse::Done
            }
            StoreRequest::RemoveSign(member, tag) => {
                if self.signs.get(member).is_some_and(|stored| *tag == format_tag(stored.tag)) {
                    self.signs.remove(member);
                }
                StoreResponse::Done
            }
            StoreRequest::ReadPlan(known_tag) => match &self.plan {
                None => StoreResponse::NoPlan,
                Some((_, tag)) if *known_tag == Some(format_tag(*tag)) => {
                    StoreResponse::PlanUnchanged
                }
                Some((plan, tag)) => StoreResponse::Plan(plan.clone(), format_tag(*tag)),
            },
            StoreRequest::ListSigns => StoreResponse::Signs(self.list(sender_clock, now)),
            StoreRequest::WritePlan(plan, expected) => {
                let current = self.plan.as_ref().map(|(_, tag)| format_tag(*tag));
                if *expected != current && !is_active(Mutant::PlanUnconditional) {
                    return StoreResponse::Refused;
                }
                let tag = self.next_tag();
                self.plan = Some((plan.clone(), tag));
                StoreResponse::Plan(plan.clone(), format_tag(tag))
            }
            StoreRequest::CloseShares { shares, .. } => {
                let closed = shares.iter().filter(|share| self.close_share(**share, now));
                StoreResponse::Closed(closed.copied().collect())
            }
            StoreRequest::BreakLease { share, .. } => {
                if let Some((id, until)) =
                    &mut self.elections.entry(Key::Share(*share)).or_default().lease
                {
                    *id = BROKEN;
                    *until = if is_active(Mutant::BreaksAtOnce) { now } else { *until };
                }
                StoreResponse::Done
            }
        }
    }

    /// Applies a last will: deletes the sign of that name, if it has this tag. Returns the life of
    /// the deleted sign.
    pub fn delete_sign(&mut self, name: &str, tag: &Tag) -> Option<u32> {
        let matches_tag = |sign: &&StoredSign| {
            *tag == format_tag(sign.tag) || is_active(Mutant::WillUnconditional)
        };
        let life = self.signs.get(name).filter(matches_tag)?.life;
        self.signs.remove(name);
        Some(life)
    }

    fn list(&mut self, sender_clock: u64, now: u64) -> Vec<ListedSign> {
        // The clock that dates the response may be ahead of the clock that dates writes.
        let date = (now + self.rng.u64(..=1_000)) / 1_000;
        // The leader's own clock, which differs.
        let is_fresh = |sign: &&StoredSign| {
            !is_active(Mutant::TheirClocks) || sender_clock < sign.sent_at + 15_000
        };
        let sign = self.signs.values().filter(is_fresh);
        sign.map(|sign| sign.to_listed(date)).collect()
    }

    fn is_split(&self, now: u64) -> bool {
        let is_alive = |sign: &StoredSign| sign.to_listed(now / 1_000).is_alive();
        let is_held = |(key, election): (&Key, &Election)| {
            matches!(key, Key::Share(_)) && election.lease.is_some_and(|(_, until)| now < until)
        };
        self.signs.values().any(is_alive) || self.elections.iter().any(is_held)
    }

    fn close_share(&mut self, share: Share, now: u64) -> bool {
        let election = self.elections.entry(Key::Share(share)).or_default();
        if election.lease.is_some_and(|(_, until)| now < until) {
            return false;
        }
        if !election.closed && !is_active(Mutant::NotClosed) {
            election.closed = true;
            election.lease = None;
            election.tag += 1;
        }
        true
    }

    /// Handles a request of a candidate.
    pub fn election(&mut self, key: Key, op: &Op, process: usize, now: u64) -> Reply {
        // A1: a lease ends up to 2 s early or late.
        let until = now + self.lease_duration - 2_000 + self.rng.u64(..=4_000);
        match op {
            Op::ReadCoordination => {
                return self.election(Key::Coordination, &Op::Poll(None), process, now);
            }
            Op::ListSplit => return Reply::Split(self.is_split(now)),
            _ => {}
        }
        let election = self.elections.entry(key).or_default();
        let held_by = election.lease.filter(|(_, until)| now < *until).map(|(id, _)| id);
        match op {
            Op::Poll(id) => Reply::State(State {
                tag: election.tag,
                leased: held_by.is_some(),
                held_by_caller: held_by.is_some() && held_by == *id,
                successor: election.successor.filter(|_| held_by.is_some()),
                closed: election.closed,
                split: election.coordinator_term.is_some(),
                coordinated: election.coordinator_term == Some(election.term),
            }),
            Op::Acquire(id, tag) => {
                if *tag != election.tag || held_by.is_some_and(|holder| holder != *id) {
                    return Reply::Lost;
                }
                election.lease = Some((*id, until));
                Reply::Done
            }
            Op::Renew(id) => match &mut election.lease {
                // The service also renews an expired lease, if no candidate wrote or acquired
                // since.
                Some((lease, expires)) if lease == id => {
                    *expires = until;
                    Reply::Done
                }
                _ => Reply::Lost,
            },
            Op::Raise(id, coordinates) if held_by == Some(*id) => {
                election.term = (now / 1_000).max(election.term) + 1;
                if *coordinates {
                    election.coordinator_term = Some(election.term);
                }
                election.tag += 1;
                // Announcements belong to a term.
                (election.successor, election.announced) = (None, None);
                Reply::Raised(election.term)
            }
            Op::NameSuccessor(id, successor) if held_by == Some(*id) => {
                election.tag += 1;
                election.successor = Some(*successor);
                Reply::Done
            }
            Op::Change(from, to) if held_by == Some(*from) => {
                if let Some((id, _)) = &mut election.lease {
                    *id = *to;
                }
                Reply::Done
            }
            Op::Release(id) if held_by == Some(*id) => {
                election.lease = None;
                Reply::Done
            }
            Op::Raise(..) | Op::NameSuccessor(..) | Op::Change(..) | Op::Release(_) => Reply::Lost,
            Op::ReadCoordination | Op::ListSplit => Reply::Unknown,
            Op::Announce(id) => {
                election.announced = Some((process, *id, now));
                Reply::Done
            }
            Op::ReadAnnouncement => {
                let announced = election.announced;
                Reply::Announcement(announced.map(|(process, id, at)| (process, id, now - at)))
            }
        }
    }
}

fn format_tag(tag: u64) -> Tag {
    Tag(tag.to_string())
}
