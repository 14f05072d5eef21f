//! A candidate of one election: as much of protocol.md §4, §5 and §7 as says who holds what, and when.

use fastrand::Rng;

use crate::store::{Id, Key, Op, Reply, State};
use tenure_shares::mutants::{Mutant, is_active};

/// Periods, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Of a lease.
    pub lease: u64,
    /// The most between two polls; the least is half of it.
    pub poll: u64,
    /// How long the work takes to stop.
    pub stop: u64,
}

/// Between the end of the validity and the end of the lease, as a part of the lease.
const MARGIN: u64 = 5;
/// An announcement is written again after that time, and counts for half as long again.
const ANNOUNCE: u64 = 4_000;
/// A successor is waited for so long.
const COME: u64 = 10_000;
/// Between two reads of the coordinating election by a holder that waits for a coordinator.
const LOOK_AGAIN: u64 = 1_000;
/// Between two looks for members by a leader without shares.
const MEMBERS: u64 = 10_000;
/// Between two looks of a leader that hands over, and of its successor.
const HAND_OVER: u64 = 500;

/// What the process does for a candidate.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Send this. It gets one answer.
    Send(Op),
    /// The work goes on until then, by the process's clock.
    Works(u64),
    /// The work was seen stopped.
    Stopped,
}

/// A candidate.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its election.
    pub key: Key,
    /// Its own among all that its process ever had.
    pub serial: u64,
    timing: Timing,
    phase: Phase,
    leaves: bool,
    /// When the next request is due, but for renewals.
    due: u64,
    /// True if its process has no shares: as the leader it works itself.
    pub whole: bool,
    /// True if the newest leader that it knows of coordinates shares.
    pub coordinated: bool,
    /// The earliest time at which it contends again.
    rests: u64,
    /// A request other than a renewal has no answer yet.
    waits: bool,
    failures: u32,
}

#[derive(Clone, Debug)]
enum Phase {
    Contending(Option<Offer>),
    Checking { id: Id, tag: u64 },
    Winning { id: Id, tag: u64 },
    Raising { id: Id, valid: u64 },
    Leading(Lead),
    Giving { id: Id, to: Id, valid: u64, name: usize },
    Releasing { id: Id, until: u64 },
    Over,
}

/// The lease id by which a successor is to lead.
#[derive(Clone, Copy, Debug)]
struct Offer {
    id: Id,
    announce: u64,
}

#[derive(Clone, Debug)]
struct Lead {
    id: Id,
    term: u64,
    valid: u64,
    renew: u64,
    renews: bool,
    /// True once a read or a list has shown that its work may begin.
    looked: bool,
    /// When it looks again for members.
    look_at: u64,
    gives: Option<Gives>,
    /// The work was told to stop, and is over then.
    stops: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Gives {
    name: usize,
    since: u64,
    named: bool,
    /// It has come, and will lead by that id.
    to: Option<Id>,
}

impl Candidate {
    /// One that contends from `now` on.
    #[must_use]
    pub fn new(key: Key, serial: u64, timing: Timing, now: u64) -> Self {
        let phase = Phase::Contending(None);
        Self {
            key,
            serial,
            timing,
            phase,
            leaves: false,
            due: now,
            whole: false,
            coordinated: false,
            rests: 0,
            waits: false,
            failures: 0,
        }
    }

    /// The term in which it leads.
    #[must_use]
    pub fn leads(&self) -> Option<u64> {
        match &self.phase {
            Phase::Leading(lead) if lead.stops.is_none() || lead.gives.is_some() => Some(lead.term),
            _ => None,
        }
    }

    /// It holds the share, or is handing it over.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.leads().is_some() || matches!(self.phase, Phase::Giving { .. })
    }

    /// The lease that it leads by, and until when it lasts.
    #[must_use]
    pub fn lease(&self) -> Option<(Id, u64)> {
        match &self.phase {
            Phase::Leading(lead) => Some((lead.id, lead.valid + self.timing.lease / MARGIN)),
            _ => None,
        }
    }

    /// Returns true while it acquires the lease or raises the term.
    #[must_use]
    pub fn wins(&self) -> bool {
        matches!(self.phase, Phase::Winning { .. } | Phase::Raising { .. })
    }

    /// To whom it is handing over.
    #[must_use]
    pub fn gives_to(&self) -> Option<usize> {
        match &self.phase {
            Phase::Leading(lead) => lead.gives.map(|gives| gives.name),
            Phase::Giving { name, .. } => Some(*name),
            _ => None,
        }
    }

    /// All of it that a plan may have to do with.
    #[must_use]
    pub fn shows(&self) -> (bool, Option<usize>, bool, bool) {
        (self.holds(), self.gives_to(), self.is_over(), self.coordinated)
    }

    /// It has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// When something is due, by the process's clock.
    #[must_use]
    pub fn wake(&self) -> u64 {
        let next = if self.waits { u64::MAX } else { self.due };
        match &self.phase {
            Phase::Leading(lead) => {
                let renew = if lead.renews { u64::MAX } else { lead.renew };
                let is_open = lead.gives.is_some() || !lead.looked;
                let gives = if is_open && lead.stops.is_none() { next } else { u64::MAX };
                let lists = self.whole && !self.waits && lead.stops.is_none();
                let list = if lists { lead.look_at } else { u64::MAX };
                lead.valid.min(renew).min(gives).min(list).min(lead.stops.unwrap_or(u64::MAX))
            }
            Phase::Giving { valid, .. } => next.min(*valid),
            Phase::Releasing { until, .. } => next.min(*until),
            Phase::Over => u64::MAX,
            _ => next,
        }
    }

    /// It is to hand over to that member.
    pub fn hand_over(&mut self, name: usize, now: u64) {
        if let Phase::Leading(lead) = &mut self.phase
            && lead.stops.is_none()
        {
            lead.gives = Some(Gives { name, since: now, named: false, to: None });
            self.due = now;
        }
    }

    /// It is to give up what it holds, and to end.
    pub fn leave(&mut self, now: u64) {
        self.leaves = true;
        match &mut self.phase {
            Phase::Contending(Some(offer)) => {
                let id = offer.id;
                self.release(id, now);
            }
            Phase::Contending(None) | Phase::Checking { .. } => self.phase = Phase::Over,
            Phase::Leading(lead) if lead.stops.is_none() => {
                lead.gives = None;
                lead.stops = Some(now + self.timing.stop);
            }
            Phase::Winning { id, .. } | Phase::Raising { id, .. } if !self.waits => {
                let id = *id;
                self.release(id, now);
            }
            _ => {}
        }
    }

    /// It gives the leadership up, and contends again then.
    pub fn resign(&mut self, rests: u64, now: u64) {
        self.rests = rests;
        if let Phase::Leading(lead) = &mut self.phase {
            lead.stops.get_or_insert(now);
        }
    }

    fn release(&mut self, id: Id, now: u64) {
        self.phase = Phase::Releasing { id, until: now + self.timing.lease };
        (self.due, self.failures) = (now, 0);
    }

    /// It leads no longer, or never did.
    fn follow(&mut self, due: u64) {
        self.phase = if self.leaves { Phase::Over } else { Phase::Contending(None) };
        (self.due, self.failures) = (due.max(self.rests), 0);
    }

    fn send(&mut self, op: Op) -> Vec<Effect> {
        self.waits = true;
        vec![Effect::Send(op)]
    }

    /// What is due.
    pub fn step(&mut self, now: u64) -> Vec<Effect> {
        let ready = !self.waits && self.due <= now;
        match &mut self.phase {
            Phase::Leading(_) => return self.lead(now, ready),
            // Whatever becomes of it: nothing works any more.
            Phase::Giving { valid, .. } if *valid <= now => self.follow(now),
            Phase::Releasing { until, .. } if *until <= now => self.follow(now),
            _ if !ready => {}
            Phase::Contending(Some(offer)) if offer.announce <= now => {
                offer.announce = now + ANNOUNCE;
                let id = offer.id;
                return self.send(Op::Announce(id));
            }
            Phase::Contending(offer) => {
                let op = Op::Poll(offer.map(|offer| offer.id));
                return self.send(op);
            }
            Phase::Checking { .. } => return self.send(Op::ListSplit),
            Phase::Winning { id, tag } => {
                let op = Op::Acquire(*id, *tag);
                return self.send(op);
            }
            Phase::Raising { id, valid } => {
                let (id, valid) = (*id, *valid);
                if valid <= now {
                    self.release(id, now);
                }
                let coordinates = self.key == Key::Coordination && !self.whole;
                let raise = Op::Raise(id, coordinates);
                return self.send(if valid <= now { Op::Release(id) } else { raise });
            }
            Phase::Giving { id, to, .. } => {
                let op = Op::Change(*id, *to);
                return self.send(op);
            }
            Phase::Releasing { id, .. } => {
                let op = Op::Release(*id);
                return self.send(op);
            }
            Phase::Over => {}
        }
        Vec::new()
    }

    fn lead(&mut self, now: u64, ready: bool) -> Vec<Effect> {
        let Phase::Leading(lead) = &mut self.phase else { return Vec::new() };
        if lead.valid <= now {
            self.follow(now);
            return vec![Effect::Stopped];
        }
        if lead.stops.is_some_and(|at| at <= now) {
            let (id, valid) = (lead.id, lead.valid);
            match lead.gives.and_then(|gives| Some((gives.name, gives.to?))) {
                Some((name, to)) if !self.leaves => {
                    self.phase = Phase::Giving { id, to, valid, name };
                    (self.due, self.failures) = (now, 0);
                }
                _ => self.release(id, now),
            }
            let mut effects = vec![Effect::Stopped];
            // A request that is under way ends first.
            if !self.waits {
                effects.extend(self.step(now));
            }
            return effects;
        }
        let mut effects = Vec::new();
        if !lead.renews && lead.renew <= now {
            lead.renews = true;
            effects.push(Effect::Send(Op::Renew(lead.id)));
        }
        if let Some(gives) = &mut lead.gives
            && ready
            && lead.stops.is_none()
        {
            if now > gives.since + COME {
                lead.gives = None;
            } else {
                let named = std::mem::replace(&mut gives.named, true);
                let op = if named { Op::ReadAnnouncement } else { Op::Name(lead.id, gives.name) };
                self.waits = true;
                effects.push(Effect::Send(op));
            }
        }
        let again = self.whole && lead.look_at <= now && !self.waits;
        if ((!lead.looked && ready && !self.waits) || again) && lead.stops.is_none() {
            self.waits = true;
            effects.push(Effect::Send(if self.whole { Op::ListSplit } else { Op::Look }));
        }
        effects
    }

    /// Takes the answer to a request that was sent at that time.
    pub fn answered(
        &mut self,
        op: &Op,
        reply: &Reply,
        sent: u64,
        own: usize,
        now: u64,
        rng: &mut Rng,
    ) -> Vec<Effect> {
        if let Op::Renew(id) = op {
            return self.renewed(*id, reply, sent, now);
        }
        self.waits = false;
        // The first time at once.
        let again = if self.failures == 0 { 0 } else { (100 << self.failures.min(5)).min(2_000) };
        self.failures = if matches!(reply, Reply::Unknown) { self.failures + 1 } else { 0 };
        let validity = sent + self.timing.lease - self.timing.lease / MARGIN;
        match (&mut self.phase, op, reply) {
            (Phase::Contending(_), Op::Poll(_), Reply::State(state)) => {
                self.polled(*state, own, now, rng)
            }
            (Phase::Checking { id, tag }, Op::ListSplit, Reply::Split(false)) => {
                self.phase = Phase::Winning { id: *id, tag: *tag };
                self.due = now;
            }
            (Phase::Checking { .. }, ..) => self.follow(now + self.timing.poll),
            (Phase::Leading(lead), Op::Look, Reply::State(State { coordinated: true, .. })) => {
                lead.looked = true;
                return vec![Effect::Works(lead.valid)];
            }
            (Phase::Leading(_), Op::Look, Reply::State(_)) => self.due = now + LOOK_AGAIN,
            (Phase::Leading(lead), Op::ListSplit, Reply::Split(false)) => {
                lead.look_at = now + MEMBERS;
                if !std::mem::replace(&mut lead.looked, true) {
                    return vec![Effect::Works(lead.valid)];
                }
            }
            (Phase::Leading(lead), Op::ListSplit, Reply::Split(true)) => {
                let (id, looked) = (lead.id, lead.looked);
                self.rests = now + 2 * self.timing.poll;
                match looked {
                    true => {
                        let stop = now + self.timing.stop;
                        lead.stops.get_or_insert(stop);
                    }
                    false => self.release(id, now),
                }
            }
            (Phase::Contending(_), _, _) => {
                self.due = now + rng.u64(self.timing.poll / 2..=self.timing.poll)
            }
            (
                Phase::Winning { id, .. } | Phase::Raising { id, .. },
                Op::Acquire(..) | Op::Raise(..),
                reply,
            ) if self.leaves => {
                let id = *id;
                match reply {
                    Reply::Lost => self.follow(now),
                    _ => self.release(id, now),
                }
            }
            (Phase::Winning { id, .. }, Op::Acquire(..), Reply::Done) => {
                self.phase = Phase::Raising { id: *id, valid: validity };
                self.due = now;
            }
            (Phase::Raising { id, valid }, Op::Raise(..), Reply::Raised(term)) if now < *valid => {
                let (id, valid, renew) = (*id, *valid, now + self.timing.lease * 4 / 15);
                let unseen = match (self.key, self.whole) {
                    (Key::Share(_), _) => is_active(Mutant::WorksUnseen),
                    (Key::Coordination, true) => is_active(Mutant::WholeUnseen),
                    (Key::Coordination, false) => true,
                };
                self.coordinated = !self.whole;
                self.due = now;
                self.phase = Phase::Leading(Lead {
                    id,
                    term: *term,
                    valid,
                    renew,
                    renews: false,
                    looked: unseen,
                    look_at: now + MEMBERS,
                    gives: None,
                    stops: None,
                });
                return unseen.then_some(Effect::Works(valid)).into_iter().collect();
            }
            (
                Phase::Winning { .. } | Phase::Raising { .. },
                Op::Acquire(..) | Op::Raise(..),
                Reply::Lost,
            ) => {
                self.follow(now + rng.u64(..=self.timing.poll));
            }
            (Phase::Leading(lead), Op::ReadAnnouncement, Reply::Announcement(seen)) => {
                self.due = now + HAND_OVER;
                let seen = seen.filter(|(_, _, age)| *age < ANNOUNCE * 3 / 2);
                if let Some(gives) = &mut lead.gives
                    && let Some((_, id, _)) = seen.filter(|(name, ..)| *name == gives.name)
                    && lead.stops.is_none()
                {
                    gives.to = Some(id);
                    lead.stops = Some(now + self.timing.stop);
                    if is_active(Mutant::GivesBeforeStop) {
                        let op = Op::Change(lead.id, id);
                        return self.send(op);
                    }
                }
            }
            (Phase::Leading(_), Op::Name(..), Reply::Done) => self.due = now + 25,
            (Phase::Leading(lead), Op::Name(..), _) => {
                if let Some(gives) = &mut lead.gives {
                    gives.named = false;
                }
                self.due = now + again;
            }
            (Phase::Giving { .. }, Op::Change(..), Reply::Done | Reply::Lost) => self.follow(now),
            (Phase::Releasing { .. }, Op::Release(_), Reply::Done | Reply::Lost) => {
                self.follow(now)
            }
            _ => self.due = now + again,
        }
        Vec::new()
    }

    fn polled(&mut self, state: State, own: usize, now: u64, rng: &mut Rng) {
        let Phase::Contending(offer) = &mut self.phase else { return };
        self.due = now + rng.u64(self.timing.poll / 2..=self.timing.poll);
        if state.closed {
            return;
        }
        if state.leased {
            self.coordinated = state.coordinated;
        }
        if !state.leased || state.mine {
            // A lease id that was announced may be given the lease yet.
            let id = offer.map_or_else(|| rng.u64(..), |offer| offer.id);
            let tag = state.tag;
            self.phase = match self.whole && state.split {
                true => Phase::Checking { id, tag },
                false => Phase::Winning { id, tag },
            };
            self.due = now;
        } else if state.successor == Some(own) {
            let offer = offer.get_or_insert_with(|| Offer { id: rng.u64(..), announce: now });
            self.due = if offer.announce <= now { now } else { now + HAND_OVER };
        }
    }

    fn renewed(&mut self, id: Id, reply: &Reply, sent: u64, now: u64) -> Vec<Effect> {
        let Phase::Leading(lead) = &mut self.phase else { return Vec::new() };
        if lead.id != id {
            return Vec::new();
        }
        lead.renews = false;
        match reply {
            _ if lead.valid <= now => {}
            Reply::Done => {
                lead.valid = sent + self.timing.lease - self.timing.lease / MARGIN;
                lead.renew = sent + self.timing.lease * 4 / 15;
                return lead.looked.then_some(Effect::Works(lead.valid)).into_iter().collect();
            }
            Reply::Lost => {
                self.follow(now);
                return vec![Effect::Stopped];
            }
            _ => lead.renew = now + 200,
        }
        Vec::new()
    }
}
