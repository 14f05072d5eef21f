//! Process with shares: the shipped code decides, and candidates follow it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use fastrand::Rng;
use tenure_shares::{
    Action, CoordinatorProblem, Leader, Member, RunningShare, Sign, SignTiming, StoreRequest,
    StoreResponse,
};

use crate::candidate::{Candidate, Effect, Timing};
use crate::checker::{Checker, Observations};
use crate::clock::Clock;
use crate::store::{Key, Op, Reply};
use crate::supervisor::{LastWill, WillAction};

/// Part of a process that sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The member.
    Member,
    /// The coordinator in that term.
    Leader(u64),
    /// A candidate, with its number.
    Candidate(Key, u64),
}

/// Kind and contents of a request.
#[derive(Clone, Debug)]
pub enum RequestKind {
    /// A request about shares; for a plan, with its leader's observations.
    Shares(StoreRequest, Option<Box<Observations>>),
    /// A request about an election.
    Election(Key, Op),
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Process that sent it.
    pub process: usize,
    /// Life of the process.
    pub life: u32,
    /// Part of the process.
    pub sender: Sender,
    /// Contents.
    pub kind: RequestKind,
    /// Send time, by the process's clock.
    pub sent_at: u64,
}

/// Outcome of a request.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Reply about shares, and the number of the store's operation.
    Shares(StoreResponse, u64),
    /// Reply about an election.
    Election(Reply),
}

/// State that all processes share.
pub struct Scene {
    /// True time, in milliseconds.
    pub now: u64,
    /// Checker of the rules.
    pub checker: Checker,
    /// Requests to send.
    pub outbox: Vec<Request>,
    /// Indices of the processes, by name.
    pub indexes_by_name: HashMap<String, usize>,
    /// Names of the processes, by index.
    pub names_by_index: Vec<String>,
    /// Periods of the elections of shares.
    pub timing: Timing,
    /// Pace of signs.
    pub pace: SignTiming,
    /// Initial number of shares.
    pub shares: u32,
}

/// A process of the fleet.
pub struct Process {
    /// Index of the process.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Its sign, with its capacity.
    pub sign: Sign,
    /// Its zone.
    pub zone: usize,
    /// Its clock.
    pub clock: Clock,
    /// Number of starts.
    pub life: u32,
    /// True if it is running.
    pub is_running: bool,
    /// End of its freeze.
    pub frozen_until: Option<u64>,
    /// Time of the request to leave, by its clock.
    pub leaving_since: Option<u64>,
    /// Next wake-up, in true time.
    pub next_wake: u64,
    /// True if it has no shares: as the leader it runs all of the work.
    pub unsharded: bool,
    rng: Rng,
    member: Member,
    leader: Option<(u64, Leader, Observations)>,
    /// Its candidates.
    pub candidates: BTreeMap<Key, Candidate>,
    /// Version of the plan that it read last.
    plan_version_read: u64,
    /// True while a sign is in transit.
    sign_pending: bool,
    /// Last will of the sign before the newest one.
    previous_will: Option<tenure_shares::LastWill>,
    sign_withdrawn: bool,
    changed: bool,
    serial: u64,
}

/// Interval between two polls of a coordinating candidate.
const POLL: u64 = 4_000;
/// Time that a member that could not coordinate leaves the coordination to other members.
pub const COORDINATION_BACKOFF: u64 = 60_000;
/// Time after which a leaving process gives up everything.
const LEAVE_GRACE: u64 = 20_000;

/// Returns the duration in whole milliseconds, rounded up.
pub(crate) fn milliseconds(at: Duration) -> u64 {
    u64::try_from(at.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

fn period(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

impl Process {
    /// Creates a process that is not running yet.
    #[must_use]
    pub fn new(index: usize, sign: Sign, zone: usize, clock: Clock) -> Self {
        Self {
            index,
            name: sign.member.clone(),
            member: Member::new_joined(sign.clone(), Duration::ZERO),
            sign,
            zone,
            clock,
            life: 0,
            is_running: false,
            frozen_until: None,
            leaving_since: None,
            next_wake: u64::MAX,
            unsharded: false,
            rng: Rng::with_seed(index as u64),
            leader: None,
            candidates: BTreeMap::new(),
            plan_version_read: 0,
            sign_pending: false,
            previous_will: None,
            sign_withdrawn: false,
            changed: false,
            serial: 0,
        }
    }

    /// Starts or restarts it.
    pub fn start(&mut self, scene: &mut Scene) {
        let now = self.clock.now_at(scene.now);
        self.life += 1;
        (self.is_running, self.frozen_until, self.leaving_since) = (true, None, None);
        (self.next_wake, self.plan_version_read, self.sign_withdrawn) = (u64::MAX, 0, false);
        (self.sign_pending, self.previous_will) = (false, None);
        self.member = match self.unsharded {
            true => Member::new(self.sign.clone()),
            false => Member::new_joined(self.sign.clone(), period(now)),
        };
        let stop_duration = if self.unsharded { scene.timing.stop_duration } else { 0 };
        self.begin_candidate(
            Key::Coordination,
            Timing { poll: POLL, stop_duration, ..scene.timing },
            now,
        );
    }

    /// Kills it.
    pub fn kill(&mut self, scene: &mut Scene) {
        for key in std::mem::take(&mut self.candidates).into_keys() {
            scene.checker.record_work_stopped(key, self.index, self.life);
        }
        (self.is_running, self.leader, self.frozen_until) = (false, None, None);
    }

    /// Returns the wills that its supervisor would send if it died now.
    ///
    /// `former` is true if the newest will of its sign is still in transit, so that the supervisor
    /// has the one before.
    #[must_use]
    pub fn last_wills(&self, former: bool) -> Vec<LastWill> {
        let last_will =
            |deed, until| LastWill::new(self.index, deed, self.clock.true_time_of(until));
        let leases =
            self.candidates.iter().filter_map(|(key, candidate)| Some((*key, candidate.lease()?)));
        let releases =
            leases.map(|(key, (id, until))| last_will(WillAction::Release(key, id), until));
        let will = if former { self.previous_will.as_ref() } else { self.member.last_will() };
        let will = will
            .map(|will| last_will(WillAction::Delete(will.sign.clone()), milliseconds(will.until)));
        releases.chain(will).collect()
    }

    /// Returns true if its newest sign is known and all its elections are decided: then its last
    /// wills are complete.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let of_share = |key: &Key| matches!(key, Key::Share(_));
        !self.sign_pending
            && self.plan_version_read > 0
            && self
                .candidates
                .iter()
                .all(|(key, candidate)| !of_share(key) || candidate.lease().is_some())
    }

    /// Asks it to leave.
    pub fn leave(&mut self, scene: &Scene) {
        let now = self.clock.now_at(scene.now);
        self.leaving_since = Some(now);
        self.changed = true;
        self.member.leave(period(now));
        if let Some((_, leader, observations)) = &mut self.leader {
            leader.leave(period(now));
            observations.leaving = true;
        }
    }

    /// Returns true if it coordinates.
    #[must_use]
    pub fn is_coordinator(&self) -> bool {
        self.leader.is_some()
    }

    fn begin_candidate(&mut self, key: Key, timing: Timing, now: u64) {
        self.serial += 1;
        let mut candidate = Candidate::new(key, self.serial, timing, now);
        candidate.unsharded = self.unsharded;
        self.candidates.insert(key, candidate);
    }

    /// Handles a reply.
    pub fn on_reply(&mut self, request: &Request, outcome: Outcome, scene: &mut Scene) {
        let now = self.clock.now_at(scene.now);
        match (&request.kind, outcome) {
            (RequestKind::Shares(ask, _), Outcome::Shares(answer, done)) => match request.sender {
                Sender::Member => self.on_member_reply(ask, answer, now),
                Sender::Leader(term) => self.on_leader_reply(term, ask, answer, done, scene),
                Sender::Candidate(..) => {}
            },
            (RequestKind::Election(key, op), Outcome::Election(reply)) => {
                // The process may have been frozen beyond its validity.
                self.step_due_candidates(scene);
                let Some(candidate) = self.candidates.get_mut(key) else { return };
                if request.sender == Sender::Candidate(*key, candidate.serial) {
                    let (sent_at, process, before) =
                        (request.sent_at, self.index, candidate.plan_inputs());
                    let effects =
                        candidate.on_reply(op, &reply, sent_at, process, now, &mut self.rng);
                    self.changed |= candidate.plan_inputs() != before;
                    self.apply_effects(*key, effects, scene);
                }
            }
            _ => {}
        }
    }

    fn on_member_reply(&mut self, ask: &StoreRequest, answer: StoreResponse, now: u64) {
        if let StoreResponse::Plan(plan, _) = &answer {
            self.plan_version_read = plan.version;
        }
        self.changed |= matches!(answer, StoreResponse::Plan(..) | StoreResponse::Unknown);
        self.sign_withdrawn |= *ask == StoreRequest::WithdrawSign && answer == StoreResponse::Done;
        self.sign_pending &= !matches!(ask, StoreRequest::WriteSign(_));
        let before = self.member.last_will().cloned();
        let was_unread = self.member.is_plan_unread();
        self.member.on_response(ask, answer, period(now));
        self.changed |= self.member.is_plan_unread() != was_unread;
        if self.member.last_will() != before.as_ref() {
            self.previous_will = before;
        }
    }

    fn on_leader_reply(
        &mut self,
        for_term: u64,
        ask: &StoreRequest,
        answer: StoreResponse,
        done: u64,
        scene: &mut Scene,
    ) {
        let now = self.clock.now_at(scene.now);
        let Some((term, leader, observations)) = &mut self.leader else { return };
        if for_term != *term {
            return;
        }
        match &answer {
            StoreResponse::Signs(_) => observations.polls.push((done, scene.now)),
            StoreResponse::Plan(plan, _) if observations.polls.is_empty() => {
                observations.initial_members.extend(plan.members.iter().cloned())
            }
            _ => {}
        }
        let next = leader.on_response(ask, answer, self.member.signs(), period(now));
        let must_resign = matches!(
            leader.problem(),
            Some(CoordinatorProblem::Signs | CoordinatorProblem::Rounds)
        );
        if must_resign && let Some(coordination) = self.candidates.get_mut(&Key::Coordination) {
            coordination.resign(now + COORDINATION_BACKOFF, now);
        }
        self.send_leader_request(next, scene);
    }

    fn send_leader_request(&mut self, ask: Option<StoreRequest>, scene: &mut Scene) {
        let (Some(ask), Some((term, _, observations))) = (ask, &self.leader) else { return };
        let observations =
            matches!(ask, StoreRequest::WritePlan(..)).then(|| Box::new(observations.clone()));
        self.send(Sender::Leader(*term), RequestKind::Shares(ask, observations), scene);
    }

    fn send(&self, sender: Sender, kind: RequestKind, scene: &mut Scene) {
        let sent_at = self.clock.now_at(scene.now);
        scene.outbox.push(Request { process: self.index, life: self.life, sender, kind, sent_at });
    }

    fn apply_effects(&mut self, key: Key, effects: Vec<Effect>, scene: &mut Scene) {
        let serial = self.candidates.get(&key).map_or(0, |candidate| candidate.serial);
        for effect in effects {
            match effect {
                Effect::Send(op) => {
                    self.send(Sender::Candidate(key, serial), RequestKind::Election(key, op), scene)
                }
                Effect::WorkUntil(until) => {
                    let until = self.clock.true_time_of(until);
                    let process = (self.index, self.life);
                    scene.checker.record_work(key, process, self.unsharded, until, scene.now);
                }
                Effect::Stopped => scene.checker.record_work_stopped(key, self.index, self.life),
            }
        }
    }

    /// Runs the due steps of candidates.
    fn step_due_candidates(&mut self, scene: &mut Scene) {
        let now = self.clock.now_at(scene.now);
        let due_keys = self.candidates.iter().filter(|(_, candidate)| candidate.next_wake() <= now);
        for key in due_keys.map(|(key, _)| *key).collect::<Vec<_>>() {
            let Some(candidate) = self.candidates.get_mut(&key) else { continue };
            let before = candidate.plan_inputs();
            let effects = candidate.step(now);
            self.changed |= candidate.plan_inputs() != before;
            self.apply_effects(key, effects, scene);
        }
    }

    /// Does all due work, and returns the time of the next wake-up.
    pub fn run_due_work(&mut self, scene: &mut Scene) -> u64 {
        let now = self.clock.now_at(scene.now);
        self.step_due_candidates(scene);
        for ask in self.member.next_requests(period(now)) {
            self.sign_pending |= matches!(ask, StoreRequest::WriteSign(_));
            self.send(Sender::Member, RequestKind::Shares(ask, None), scene);
        }
        self.coordinate(now, scene);
        if std::mem::take(&mut self.changed) {
            self.apply_share_actions(now, scene);
        }
        self.candidates.retain(|_, candidate| !candidate.has_ended());
        if self.leaving_since.is_some_and(|since| self.has_left(since, now)) {
            self.kill(scene);
            return u64::MAX;
        }
        let candidates = self.candidates.values().map(Candidate::next_wake).min();
        let leader = self.leader.as_ref().and_then(|(_, leader, _)| leader.wake_at());
        let others = [self.member.wake_at(), leader].into_iter().flatten().map(milliseconds);
        let next_leave_check = self
            .leaving_since
            .map(|since| if now < since + LEAVE_GRACE { since + LEAVE_GRACE } else { now + 1_000 });
        let next = others.chain(candidates).chain(next_leave_check).min().unwrap_or(u64::MAX / 2);
        self.clock.true_time_of(next.min(u64::MAX / 2_000_000)).max(scene.now + 1)
    }

    fn has_left(&self, since: u64, now: u64) -> bool {
        self.candidates.is_empty() && (self.sign_withdrawn || now > since + LEAVE_GRACE + 5_000)
    }

    fn coordinate(&mut self, now: u64, scene: &mut Scene) {
        let coordination = self.candidates.get(&Key::Coordination).filter(|_| !self.unsharded);
        let term = coordination.and_then(Candidate::leading_term);
        if self.leader.as_ref().map(|(term, ..)| *term) != term {
            self.leader = term.map(|term| {
                let leader = Leader::new(
                    &self.name,
                    term,
                    scene.shares,
                    self.sign.timing,
                    2 * period(scene.timing.lease),
                    period(now),
                );
                (term, leader, Observations::default())
            });
        }
        if let Some(since) = self.leaving_since {
            let must_wait = self.leader.as_ref().is_some_and(|(_, leader, _)| !leader.has_left());
            if let Some(coordination) = self.candidates.get_mut(&Key::Coordination)
                && (!must_wait || now > since + 3_000)
            {
                coordination.leave(now);
            }
            if now >= since + LEAVE_GRACE {
                self.candidates.values_mut().for_each(|candidate| candidate.leave(now));
            }
        }
        if let Some((_, leader, _)) = &mut self.leader {
            let ask = leader.next_request(period(now));
            self.send_leader_request(ask, scene);
        }
    }

    /// Applies the member's decisions about shares.
    fn apply_share_actions(&mut self, now: u64, scene: &mut Scene) {
        let name = |index: usize| scene.names_by_index.get(index).cloned();
        let running = |(key, candidate): (&Key, &Candidate)| match key {
            Key::Share(share) if !candidate.has_ended() => {
                let gives_to = candidate.handover_target().and_then(name);
                Some(RunningShare {
                    share: *share,
                    is_leading: candidate.is_holding(),
                    successor: gives_to,
                })
            }
            _ => None,
        };
        let running = self.candidates.iter().filter_map(running).collect::<Vec<_>>();
        let coordination = self.candidates.get(&Key::Coordination);
        let coordinated = coordination.is_some_and(|candidate| candidate.coordinated);
        for action in self.member.actions(&running, coordinated) {
            self.check_action(&action, scene);
            if !coordinated && let Action::Begin(share) = action {
                let message = format!("{} contends for {share:?} without a coordinator", self.name);
                scene.checker.add_violation(scene.now, "S4", message);
            }
            match action {
                Action::Begin(share) => self.begin_candidate(Key::Share(share), scene.timing, now),
                Action::HandOver(share, name) => {
                    let to = scene.indexes_by_name.get(&name).copied();
                    let candidate = self.candidates.get_mut(&Key::Share(share));
                    if let (Some(to), Some(candidate)) = (to, candidate) {
                        candidate.hand_over(to, now);
                    }
                }
                Action::End(share) => {
                    if let Some(candidate) = self.candidates.get_mut(&Key::Share(share)) {
                        candidate.leave(now);
                    }
                }
            }
        }
        self.step_due_candidates(scene);
    }

    fn check_action(&self, action: &Action, scene: &mut Scene) {
        let (member, now) = (self.name.as_str(), scene.now);
        let holds =
            |share| self.candidates.get(&Key::Share(share)).is_some_and(Candidate::is_holding);
        scene.checker.check_against_plan(
            self.plan_version_read,
            |plan| match action {
                Action::Begin(share) if plan.holder(*share) != Some(member) => Err(format!(
                    "{member} contends for {share:?}, which the plan gives to {:?}",
                    plan.holder(*share)
                )),
                Action::HandOver(share, to) if plan.holder(*share) != Some(to) => Err(format!(
                    "{member} gives {share:?} to {to}, and the plan to {:?}",
                    plan.holder(*share)
                )),
                Action::End(share) if holds(*share) && plan.holder(*share).is_some() => {
                    Err(format!("{member} gives {share:?} up, which should not be left alone"))
                }
                _ => Ok(()),
            },
            now,
        );
    }
}
