//! Candidate of one election: the part of protocol.md §4, §5 and §7 that determines the holder at
//! each time.

use fastrand::Rng;

use crate::store::{Id, Key, Op, Reply, State};
use tenure_shares::mutants::{Mutant, is_active};

/// Periods, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Duration of a lease.
    pub lease: u64,
    /// Longest interval between two polls; the shortest is half of it.
    pub poll: u64,
    /// Time that the work takes to stop.
    pub stop_duration: u64,
}

/// Divisor of the lease that gives the margin between the end of the validity and the end of the
/// lease.
const MARGIN_DIVISOR: u64 = 5;
/// Interval at which an announcement is rewritten; it counts for half as long again.
const ANNOUNCE_INTERVAL: u64 = 4_000;
/// Time that a leader waits for its successor.
const SUCCESSOR_TIMEOUT: u64 = 10_000;
/// Interval between two reads of the coordinating election by a holder that waits for a
/// coordinator.
const COORDINATION_POLL_INTERVAL: u64 = 1_000;
/// Interval between two checks for members by a leader without shares.
const MEMBER_POLL_INTERVAL: u64 = 10_000;
/// Interval between two polls of a leader that hands over, and of its successor.
const HANDOVER_POLL_INTERVAL: u64 = 500;

/// Effect of a candidate on its process.
#[derive(Clone, Debug)]
pub enum Effect {
    /// The process sends this request, which gets one reply.
    Send(Op),
    /// The work continues until then, by the process's clock.
    WorkUntil(u64),
    /// The work has stopped.
    Stopped,
}

/// A candidate of one election.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Election of the candidate.
    pub key: Key,
    /// Number of the candidate, unique in its process.
    pub serial: u64,
    timing: Timing,
    phase: Phase,
    leaving: bool,
    /// Time of the next request other than renewals.
    next_request: u64,
    /// True if its process has no shares: as the leader it works itself.
    pub unsharded: bool,
    /// True if the newest leader that it knows of coordinates shares.
    pub coordinated: bool,
    /// The earliest time at which it contends again.
    contends_after: u64,
    /// True while a request other than a renewal has no reply.
    awaiting_reply: bool,
    failures: u32,
}

#[derive(Clone, Debug)]
enum Phase {
    Contending(Option<Offer>),
    Checking { id: Id, tag: u64 },
    Winning { id: Id, tag: u64 },
    Raising { id: Id, valid_until: u64 },
    Leading(Lead),
    HandingOver { id: Id, successor_lease: Id, valid_until: u64, name: usize },
    Releasing { id: Id, until: u64 },
    Ended,
}

/// Lease id under which a successor is to lead.
#[derive(Clone, Copy, Debug)]
struct Offer {
    id: Id,
    next_announcement: u64,
}

#[derive(Clone, Debug)]
struct Lead {
    id: Id,
    term: u64,
    valid_until: u64,
    next_renewal: u64,
    renewing: bool,
    /// True once a read or a list has shown that its work may begin.
    may_work: bool,
    /// Time of the next check for members.
    next_member_check: u64,
    handover: Option<Handover>,
    /// End of the work, once it must stop.
    stops_at: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Handover {
    successor: usize,
    since: u64,
    is_named: bool,
    /// Lease id of the successor, once it has come.
    successor_lease: Option<Id>,
}

impl Candidate {
    /// Creates a candidate that contends from `now` on.
    #[must_use]
    pub fn new(key: Key, serial: u64, timing: Timing, now: u64) -> Self {
        let phase = Phase::Contending(None);
        Self {
            key,
            serial,
            timing,
            phase,
            leaving: false,
            next_request: now,
            unsharded: false,
            coordinated: false,
            contends_after: 0,
            awaiting_reply: false,
            failures: 0,
        }
    }

    /// Returns the term in which it leads.
    #[must_use]
    pub fn leading_term(&self) -> Option<u64> {
        match &self.phase {
            Phase::Leading(lead) if lead.stops_at.is_none() || lead.handover.is_some() => {
                Some(lead.term)
            }
            _ => None,
        }
    }

    /// Returns true if it holds the share, or is handing it over.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        self.leading_term().is_some() || matches!(self.phase, Phase::HandingOver { .. })
    }

    /// Returns the lease under which it leads, and the end of that lease.
    #[must_use]
    pub fn lease(&self) -> Option<(Id, u64)> {
        match &self.phase {
            Phase::Leading(lead) => {
                Some((lead.id, lead.valid_until + self.timing.lease / MARGIN_DIVISOR))
            }
            _ => None,
        }
    }

    /// Returns true while it acquires the lease or raises the term.
    #[must_use]
    pub fn is_winning(&self) -> bool {
        matches!(self.phase, Phase::Winning { .. } | Phase::Raising { .. })
    }

    /// Returns the member to which it is handing over.
    #[must_use]
    pub fn handover_target(&self) -> Option<usize> {
        match &self.phase {
            Phase::Leading(lead) => lead.handover.map(|handover| handover.successor),
            Phase::HandingOver { name, .. } => Some(*name),
            _ => None,
        }
    }

    /// Returns all of its state that may affect a plan.
    #[must_use]
    pub fn plan_inputs(&self) -> (bool, Option<usize>, bool, bool) {
        (self.is_holding(), self.handover_target(), self.has_ended(), self.coordinated)
    }

    /// Returns true if it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// Returns the time of the next due work, by the process's clock.
    #[must_use]
    pub fn next_wake(&self) -> u64 {
        let next = if self.awaiting_reply { u64::MAX } else { self.next_request };
        match &self.phase {
            Phase::Leading(lead) => {
                let next_renewal = if lead.renewing { u64::MAX } else { lead.next_renewal };
                let is_pending = lead.handover.is_some() || !lead.may_work;
                let next_handover_step =
                    if is_pending && lead.stops_at.is_none() { next } else { u64::MAX };
                let checks_members =
                    self.unsharded && !self.awaiting_reply && lead.stops_at.is_none();
                let next_list = if checks_members { lead.next_member_check } else { u64::MAX };
                lead.valid_until
                    .min(next_renewal)
                    .min(next_handover_step)
                    .min(next_list)
                    .min(lead.stops_at.unwrap_or(u64::MAX))
            }
            Phase::HandingOver { valid_until, .. } => next.min(*valid_until),
            Phase::Releasing { until, .. } => next.min(*until),
            Phase::Ended => u64::MAX,
            _ => next,
        }
    }

    /// Orders it to hand over to that member.
    pub fn hand_over(&mut self, name: usize, now: u64) {
        if let Phase::Leading(lead) = &mut self.phase
            && lead.stops_at.is_none()
        {
            lead.handover = Some(Handover {
                successor: name,
                since: now,
                is_named: false,
                successor_lease: None,
            });
            self.next_request = now;
        }
    }

    /// Orders it to give up what it holds, and to end.
    pub fn leave(&mut self, now: u64) {
        self.leaving = true;
        match &mut self.phase {
            Phase::Contending(Some(offer)) => {
                let id = offer.id;
                self.release(id, now);
            }
            Phase::Contending(None) | Phase::Checking { .. } => self.phase = Phase::Ended,
            Phase::Leading(lead) if lead.stops_at.is_none() => {
                lead.handover = None;
                lead.stops_at = Some(now + self.timing.stop_duration);
            }
            Phase::Winning { id, .. } | Phase::Raising { id, .. } if !self.awaiting_reply => {
                let id = *id;
                self.release(id, now);
            }
            _ => {}
        }
    }

    /// Gives up the leadership, and contends again at `contends_after`.
    pub fn resign(&mut self, contends_after: u64, now: u64) {
        self.contends_after = contends_after;
        if let Phase::Leading(lead) = &mut self.phase {
            lead.stops_at.get_or_insert(now);
        }
    }

    fn release(&mut self, id: Id, now: u64) {
        self.phase = Phase::Releasing { id, until: now + self.timing.lease };
        (self.next_request, self.failures) = (now, 0);
    }

    /// Becomes a follower again.
    fn follow(&mut self, due: u64) {
        self.phase = if self.leaving { Phase::Ended } else { Phase::Contending(None) };
        (self.next_request, self.failures) = (due.max(self.contends_after), 0);
    }

    fn send(&mut self, op: Op) -> Vec<Effect> {
        self.awaiting_reply = true;
        vec![Effect::Send(op)]
    }

    /// Does the due work.
    pub fn step(&mut self, now: u64) -> Vec<Effect> {
        let ready = !self.awaiting_reply && self.next_request <= now;
        match &mut self.phase {
            Phase::Leading(_) => return self.lead(now, ready),
            // The outcome does not matter: no work is running.
            Phase::HandingOver { valid_until, .. } if *valid_until <= now => self.follow(now),
            Phase::Releasing { until, .. } if *until <= now => self.follow(now),
            _ if !ready => {}
            Phase::Contending(Some(offer)) if offer.next_announcement <= now => {
                offer.next_announcement = now + ANNOUNCE_INTERVAL;
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
            Phase::Raising { id, valid_until } => {
                let (id, valid_until) = (*id, *valid_until);
                if valid_until <= now {
                    self.release(id, now);
                }
                let coordinates = self.key == Key::Coordination && !self.unsharded;
                let raise = Op::Raise(id, coordinates);
                return self.send(if valid_until <= now { Op::Release(id) } else { raise });
            }
            Phase::HandingOver { id, successor_lease: to, .. } => {
                let op = Op::Change(*id, *to);
                return self.send(op);
            }
            Phase::Releasing { id, .. } => {
                let op = Op::Release(*id);
                return self.send(op);
            }
            Phase::Ended => {}
        }
        Vec::new()
    }

    fn lead(&mut self, now: u64, ready: bool) -> Vec<Effect> {
        let Phase::Leading(lead) = &mut self.phase else { return Vec::new() };
        if lead.valid_until <= now {
            self.follow(now);
            return vec![Effect::Stopped];
        }
        if lead.stops_at.is_some_and(|at| at <= now) {
            let (id, valid_until) = (lead.id, lead.valid_until);
            match lead
                .handover
                .and_then(|handover| Some((handover.successor, handover.successor_lease?)))
            {
                Some((name, to)) if !self.leaving => {
                    self.phase = Phase::HandingOver { id, successor_lease: to, valid_until, name };
                    (self.next_request, self.failures) = (now, 0);
                }
                _ => self.release(id, now),
            }
            let mut effects = vec![Effect::Stopped];
            // A pending request ends first.
            if !self.awaiting_reply {
                effects.extend(self.step(now));
            }
            return effects;
        }
        let mut effects = Vec::new();
        if !lead.renewing && lead.next_renewal <= now {
            lead.renewing = true;
            effects.push(Effect::Send(Op::Renew(lead.id)));
        }
        if let Some(handover) = &mut lead.handover
            && ready
            && lead.stops_at.is_none()
        {
            if now > handover.since + SUCCESSOR_TIMEOUT {
                lead.handover = None;
            } else {
                let was_named = std::mem::replace(&mut handover.is_named, true);
                let op = if was_named {
                    Op::ReadAnnouncement
                } else {
                    Op::NameSuccessor(lead.id, handover.successor)
                };
                self.awaiting_reply = true;
                effects.push(Effect::Send(op));
            }
        }
        let check_members = self.unsharded && lead.next_member_check <= now && !self.awaiting_reply;
        if ((!lead.may_work && ready && !self.awaiting_reply) || check_members)
            && lead.stops_at.is_none()
        {
            self.awaiting_reply = true;
            effects.push(Effect::Send(if self.unsharded {
                Op::ListSplit
            } else {
                Op::ReadCoordination
            }));
        }
        effects
    }

    /// Handles the reply to a request that was sent at `sent_at`.
    pub fn on_reply(
        &mut self,
        op: &Op,
        reply: &Reply,
        sent_at: u64,
        process: usize,
        now: u64,
        rng: &mut Rng,
    ) -> Vec<Effect> {
        if let Op::Renew(id) = op {
            return self.on_renewal_reply(*id, reply, sent_at, now);
        }
        self.awaiting_reply = false;
        // The first retry is immediate.
        let retry_delay =
            if self.failures == 0 { 0 } else { (100 << self.failures.min(5)).min(2_000) };
        self.failures = if matches!(reply, Reply::Unknown) { self.failures + 1 } else { 0 };
        let validity = sent_at + self.timing.lease - self.timing.lease / MARGIN_DIVISOR;
        match (&mut self.phase, op, reply) {
            (Phase::Contending(_), Op::Poll(_), Reply::State(state)) => {
                self.on_poll_reply(*state, process, now, rng)
            }
            (Phase::Checking { id, tag }, Op::ListSplit, Reply::Split(false)) => {
                self.phase = Phase::Winning { id: *id, tag: *tag };
                self.next_request = now;
            }
            (Phase::Checking { .. }, ..) => self.follow(now + self.timing.poll),
            (
                Phase::Leading(lead),
                Op::ReadCoordination,
                Reply::State(State { coordinated: true, .. }),
            ) => {
                lead.may_work = true;
                return vec![Effect::WorkUntil(lead.valid_until)];
            }
            (Phase::Leading(_), Op::ReadCoordination, Reply::State(_)) => {
                self.next_request = now + COORDINATION_POLL_INTERVAL
            }
            (Phase::Leading(lead), Op::ListSplit, Reply::Split(false)) => {
                lead.next_member_check = now + MEMBER_POLL_INTERVAL;
                if !std::mem::replace(&mut lead.may_work, true) {
                    return vec![Effect::WorkUntil(lead.valid_until)];
                }
            }
            (Phase::Leading(lead), Op::ListSplit, Reply::Split(true)) => {
                let (id, may_work) = (lead.id, lead.may_work);
                self.contends_after = now + 2 * self.timing.poll;
                match may_work {
                    true => {
                        let stops_at = now + self.timing.stop_duration;
                        lead.stops_at.get_or_insert(stops_at);
                    }
                    false => self.release(id, now),
                }
            }
            (Phase::Contending(_), _, _) => {
                self.next_request = now + rng.u64(self.timing.poll / 2..=self.timing.poll)
            }
            (
                Phase::Winning { id, .. } | Phase::Raising { id, .. },
                Op::Acquire(..) | Op::Raise(..),
                reply,
            ) if self.leaving => {
                let id = *id;
                match reply {
                    Reply::Lost => self.follow(now),
                    _ => self.release(id, now),
                }
            }
            (Phase::Winning { id, .. }, Op::Acquire(..), Reply::Done) => {
                self.phase = Phase::Raising { id: *id, valid_until: validity };
                self.next_request = now;
            }
            (Phase::Raising { id, valid_until }, Op::Raise(..), Reply::Raised(term))
                if now < *valid_until =>
            {
                let (id, valid_until, next_renewal) =
                    (*id, *valid_until, now + self.timing.lease * 4 / 15);
                let may_work = match (self.key, self.unsharded) {
                    (Key::Share(_), _) => is_active(Mutant::WorksUnseen),
                    (Key::Coordination, true) => is_active(Mutant::WholeUnseen),
                    (Key::Coordination, false) => true,
                };
                self.coordinated = !self.unsharded;
                self.next_request = now;
                self.phase = Phase::Leading(Lead {
                    id,
                    term: *term,
                    valid_until,
                    next_renewal,
                    renewing: false,
                    may_work,
                    next_member_check: now + MEMBER_POLL_INTERVAL,
                    handover: None,
                    stops_at: None,
                });
                return may_work.then_some(Effect::WorkUntil(valid_until)).into_iter().collect();
            }
            (
                Phase::Winning { .. } | Phase::Raising { .. },
                Op::Acquire(..) | Op::Raise(..),
                Reply::Lost,
            ) => {
                self.follow(now + rng.u64(..=self.timing.poll));
            }
            (Phase::Leading(lead), Op::ReadAnnouncement, Reply::Announcement(announcement)) => {
                self.next_request = now + HANDOVER_POLL_INTERVAL;
                let announcement =
                    announcement.filter(|(_, _, age)| *age < ANNOUNCE_INTERVAL * 3 / 2);
                if let Some(handover) = &mut lead.handover
                    && let Some((_, id, _)) =
                        announcement.filter(|(name, ..)| *name == handover.successor)
                    && lead.stops_at.is_none()
                {
                    handover.successor_lease = Some(id);
                    lead.stops_at = Some(now + self.timing.stop_duration);
                    if is_active(Mutant::GivesBeforeStop) {
                        let op = Op::Change(lead.id, id);
                        return self.send(op);
                    }
                }
            }
            (Phase::Leading(_), Op::NameSuccessor(..), Reply::Done) => self.next_request = now + 25,
            (Phase::Leading(lead), Op::NameSuccessor(..), _) => {
                if let Some(handover) = &mut lead.handover {
                    handover.is_named = false;
                }
                self.next_request = now + retry_delay;
            }
            (Phase::HandingOver { .. }, Op::Change(..), Reply::Done | Reply::Lost) => {
                self.follow(now)
            }
            (Phase::Releasing { .. }, Op::Release(_), Reply::Done | Reply::Lost) => {
                self.follow(now)
            }
            _ => self.next_request = now + retry_delay,
        }
        Vec::new()
    }

    fn on_poll_reply(&mut self, state: State, process: usize, now: u64, rng: &mut Rng) {
        let Phase::Contending(offer) = &mut self.phase else { return };
        self.next_request = now + rng.u64(self.timing.poll / 2..=self.timing.poll);
        if state.closed {
            return;
        }
        if state.leased {
            self.coordinated = state.coordinated;
        }
        if !state.leased || state.held_by_caller {
            // The leader may still give the lease to an announced lease id.
            let id = offer.map_or_else(|| rng.u64(..), |offer| offer.id);
            let tag = state.tag;
            self.phase = match self.unsharded && state.split {
                true => Phase::Checking { id, tag },
                false => Phase::Winning { id, tag },
            };
            self.next_request = now;
        } else if state.successor == Some(process) {
            let offer =
                offer.get_or_insert_with(|| Offer { id: rng.u64(..), next_announcement: now });
            self.next_request =
                if offer.next_announcement <= now { now } else { now + HANDOVER_POLL_INTERVAL };
        }
    }

    fn on_renewal_reply(&mut self, id: Id, reply: &Reply, sent_at: u64, now: u64) -> Vec<Effect> {
        let Phase::Leading(lead) = &mut self.phase else { return Vec::new() };
        if lead.id != id {
            return Vec::new();
        }
        lead.renewing = false;
        match reply {
            _ if lead.valid_until <= now => {}
            Reply::Done => {
                lead.valid_until = sent_at + self.timing.lease - self.timing.lease / MARGIN_DIVISOR;
                lead.next_renewal = sent_at + self.timing.lease * 4 / 15;
                return lead
                    .may_work
                    .then_some(Effect::WorkUntil(lead.valid_until))
                    .into_iter()
                    .collect();
            }
            Reply::Lost => {
                self.follow(now);
                return vec![Effect::Stopped];
            }
            _ => lead.next_renewal = now + 200,
        }
        Vec::new()
    }
}
