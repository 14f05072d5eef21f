//! World of a fleet: processes, an account and the network between them, in virtual time.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use fastrand::Rng;
use tenure_shares::{Sign, SignTiming, StoreRequest, StoreResponse};

use crate::candidate::Timing;
use crate::checker::Checker;
use crate::clock::Clock;
use crate::network::{Network, RequestOutcome};
use crate::process::{Outcome, Process, Request, RequestKind, Scene, milliseconds};
use crate::scenario::{Action, ZONES};
use crate::store::{Op, Reply, Store};
use crate::supervisor::{LastWill, Supervisors};

/// Timeout of a request, in milliseconds.
pub const REQUEST_TIMEOUT: u64 = 3_000;
/// Duration of a lease, in milliseconds.
pub const LEASE: u64 = 15_000;

/// Number of bits that count the operations within a millisecond.
const OPERATION_BITS: u32 = 20;

/// Time after a process's fault in which it may have effects.
const FAULT_AFTERMATH: u64 = 30_000;

/// Failover window of members with a faster pace, in milliseconds.
const FAST_FAILOVER: u64 = 3_000;

/// Event at an instant.
#[derive(Debug)]
pub enum Event {
    /// A request arrives at the store; its reply returns after this delay, or is lost.
    RequestArrives(Box<Request>, Option<u64>),
    /// A reply arrives at its process.
    ReplyArrives(Box<Request>, Outcome),
    /// A process of that life has due work.
    Wake(usize, u32),
    /// A frozen process resumes.
    Thaw(usize, u32),
    /// A supervisor sends a last will.
    SendWill(Box<LastWill>),
    /// A last will arrives at the store.
    ApplyWill(Box<LastWill>),
    /// An event of the scenario occurs.
    Act(Action),
}

struct Entry {
    at: u64,
    sequence: u64,
    event: Event,
}

/// Number of requests that were sent, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Requests {
    /// Signs of life.
    pub signs: u64,
    /// Reads of the plan.
    pub reads: u64,
    /// Lists of all signs.
    pub lists: u64,
    /// Plans.
    pub plans: u64,
    /// Renewals of leases.
    pub renewals: u64,
    /// All other requests of elections.
    pub other_election_requests: u64,
    /// All other requests about shares.
    pub other_share_requests: u64,
}

/// State of the whole simulation.
pub struct World {
    /// State that processes share.
    pub scene: Scene,
    /// The account.
    pub store: Store,
    /// The network.
    pub network: Network,
    /// All processes.
    pub processes: Vec<Process>,
    /// Requests that were sent.
    pub requests: Requests,
    /// Delay of the next plan that is written; its leader is dead by then.
    pub next_plan_delay: Option<u64>,
    /// Supervisors of the processes.
    pub supervisors: Supervisors,
    mixed_paces: bool,
    /// End of each process's last downtime, freeze or partition.
    pub hindered_until: Vec<u64>,
    /// End of the period in which the account treated requests unequally.
    pub uneven_until: u64,
    /// Periods in which the account took no signs, in order.
    pub outages: Vec<(u64, u64)>,
    rng: Rng,
    queue: BinaryHeap<Reverse<Entry>>,
    sequence: u64,
    /// Number of the store's last operation; it always rises.
    last_operation: u64,
    /// Events for frozen processes.
    frozen_events: HashMap<usize, Vec<Event>>,
}

/// Parameters of a world.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Initial number of shares.
    pub shares: u32,
    /// Approximate maximum number of members.
    pub members: usize,
    /// Time that work takes to stop, in milliseconds.
    pub stop_duration: u64,
    /// True if all members weigh the same and have no limit.
    pub equal_weights: bool,
    /// True if some members have a faster failover than others.
    pub mixed_paces: bool,
}

impl World {
    /// Creates an empty world.
    #[must_use]
    pub fn new(seed: u64, size: Size, max_latency: u64, fault_interval: u64) -> Self {
        let pace = SignTiming::from_failover(std::time::Duration::from_millis(LEASE));
        let scene = Scene {
            now: 0,
            checker: Checker::new(pace, size.equal_weights),
            outbox: Vec::new(),
            indexes_by_name: HashMap::new(),
            names_by_index: Vec::new(),
            timing: Timing { lease: LEASE, poll: 500, stop_duration: size.stop_duration },
            pace,
            shares: size.shares,
        };
        Self {
            scene,
            store: Store::new(seed ^ 1, LEASE),
            network: Network::new(seed ^ 2, max_latency, fault_interval),
            processes: Vec::new(),
            requests: Requests::default(),
            next_plan_delay: None,
            supervisors: Supervisors::new(seed ^ 4),
            mixed_paces: size.mixed_paces,
            hindered_until: Vec::new(),
            uneven_until: if fault_interval > 0 { u64::MAX / 2 } else { 0 },
            outages: Vec::new(),
            rng: Rng::with_seed(seed ^ 3),
            queue: BinaryHeap::new(),
            sequence: 0,
            last_operation: 0,
            frozen_events: HashMap::new(),
        }
    }

    /// Starts a new member.
    pub fn join(&mut self, weight: u32, max_shares: Option<u32>, zone: usize) -> usize {
        self.begin(weight, max_shares, zone, false)
    }

    /// Starts a new process without shares.
    pub fn join_unsharded(&mut self) -> usize {
        self.begin(1, None, self.processes.len() % ZONES, true)
    }

    fn begin(
        &mut self,
        weight: u32,
        max_shares: Option<u32>,
        zone: usize,
        unsharded: bool,
    ) -> usize {
        let index = self.processes.len();
        let name = format!("member-{index}");
        self.scene.indexes_by_name.insert(name.clone(), index);
        self.scene.names_by_index.push(name.clone());
        let mut pace = self.scene.pace;
        if self.mixed_paces && self.rng.bool() {
            pace = SignTiming::from_failover(std::time::Duration::from_millis(FAST_FAILOVER));
            self.scene.checker.set_pace(&name, pace);
        }
        let sign = Sign { member: name, weight, max_shares, timing: pace };
        let clock = Clock::new(self.rng.u64(..3_600_000), self.rng.u64(990_000..=1_010_000));
        let mut process = Process::new(index, sign, zone, clock);
        process.unsharded = unsharded;
        self.processes.push(process);
        self.hindered_until.push(0);
        self.start(index);
        index
    }

    /// Starts a process, or restarts it under its name.
    pub fn start(&mut self, index: usize) {
        // The process stays cut off if its former life was.
        let cut_off_until =
            self.network.active_faults.iter().filter(|trouble| trouble.cuts_off(index));
        let cut_off_until = cut_off_until.map(|trouble| trouble.until).max().unwrap_or(0);
        self.hindered_until[index] = cut_off_until.max(self.scene.now);
        self.processes[index].start(&mut self.scene);
        self.frozen_events.remove(&index);
        self.run_process(index);
    }

    /// Kills a process.
    pub fn kill(&mut self, index: usize) {
        self.processes[index].kill(&mut self.scene);
        self.frozen_events.remove(&index);
    }

    /// Asks a process to leave.
    pub fn leave(&mut self, index: usize) {
        self.processes[index].leave(&self.scene);
        self.run_process(index);
    }

    /// Freezes a process for this duration.
    pub fn freeze(&mut self, index: usize, duration: u64) {
        let until = self.scene.now + duration;
        self.hindered_until[index] = self.hindered_until[index].max(until);
        self.processes[index].frozen_until = Some(until);
        let life = self.processes[index].life;
        self.schedule(until, Event::Thaw(index, life));
        self.treat_as_dead(index);
    }

    /// Resumes a frozen process.
    pub fn thaw(&mut self, index: usize) {
        if self.processes[index].frozen_until.take().is_none() {
            return;
        }
        self.run_process(index);
        for event in self.frozen_events.remove(&index).unwrap_or_default() {
            self.handle(event);
        }
    }

    /// Schedules an event.
    pub fn schedule(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.queue.push(Reverse(Entry { at, sequence: self.sequence, event }));
    }

    /// Runs until that instant, or until an action, which it returns without applying it.
    pub fn run_until(&mut self, until: u64) -> Option<Action> {
        while let Some(Reverse(entry)) = self.queue.pop() {
            if entry.at > until {
                self.queue.push(Reverse(entry));
                break;
            }
            self.scene.now = entry.at;
            match entry.event {
                Event::Act(action) => return Some(action),
                event => self.handle(event),
            }
        }
        self.scene.now = until;
        None
    }

    fn handle(&mut self, event: Event) {
        let (index, life) = match &event {
            Event::RequestArrives(..)
            | Event::SendWill(_)
            | Event::ApplyWill(_)
            | Event::Act(_) => (usize::MAX, 0),
            Event::ReplyArrives(request, _) => (request.process, request.life),
            Event::Wake(index, life) | Event::Thaw(index, life) => (*index, *life),
        };
        if let Some(process) = self.processes.get(index) {
            if !process.is_running || process.life != life {
                return;
            }
            if process.frozen_until.is_some_and(|until| until > self.scene.now) {
                self.frozen_events.entry(index).or_default().push(event);
                return;
            }
        }
        match event {
            Event::RequestArrives(request, reply_delay) => self.arrive(request, reply_delay),
            Event::ReplyArrives(request, outcome) => {
                self.processes[index].on_reply(&request, outcome, &mut self.scene);
                self.run_process(index);
            }
            Event::Wake(..) if self.processes[index].next_wake > self.scene.now => {}
            Event::Wake(..) => self.run_process(index),
            Event::Thaw(..) => self.thaw(index),
            Event::SendWill(will) => self.send_will(*will),
            Event::ApplyWill(will) => self.apply_will(&will),
            Event::Act(_) => {}
        }
    }

    fn run_process(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let (next_wake, before) = (process.run_due_work(&mut self.scene), process.next_wake);
        if process.is_running && (next_wake < before || before <= self.scene.now) {
            process.next_wake = next_wake;
            let life = process.life;
            self.schedule(next_wake, Event::Wake(index, life));
        }
        for request in std::mem::take(&mut self.scene.outbox) {
            self.send(request);
        }
    }

    fn send(&mut self, request: Request) {
        self.requests.count(&request.kind);
        let share_request = match &request.kind {
            RequestKind::Shares(share_request, _) => Some(share_request),
            RequestKind::Election(..) => None,
        };
        let now = self.scene.now;
        let mut delivery = self.network.outcome(request.process, share_request, now);
        if matches!(share_request, Some(StoreRequest::WritePlan(..)))
            && let Some(delay) = self.next_plan_delay.take()
        {
            delivery = RequestOutcome::Delivered(delay, None);
            self.schedule(now + 100, Event::Act(Action::KillLife(request.process, request.life)));
        }
        // A sign must not delay the next one.
        let timeout = match share_request {
            Some(StoreRequest::WriteSign(sign)) => {
                REQUEST_TIMEOUT.min(milliseconds(sign.timing.interval()))
            }
            _ => REQUEST_TIMEOUT,
        };
        let (at, outcome) = match delivery {
            RequestOutcome::Delivered(request_delay, reply_delay) => {
                let reply_delay =
                    reply_delay.filter(|reply_delay| request_delay + reply_delay <= timeout);
                if reply_delay.is_some() {
                    return self.schedule(
                        now + request_delay,
                        Event::RequestArrives(Box::new(request), reply_delay),
                    );
                }
                self.schedule(
                    now + request_delay,
                    Event::RequestArrives(Box::new(request.clone()), None),
                );
                (now + timeout, unknown_outcome(&request.kind))
            }
            RequestOutcome::Lost => (now + timeout, unknown_outcome(&request.kind)),
            RequestOutcome::Throttled(delay) => (now + delay, unknown_outcome(&request.kind)),
            RequestOutcome::Refused(delay) => {
                (now + delay, Outcome::Shares(StoreResponse::Refused, now))
            }
        };
        self.schedule(at, Event::ReplyArrives(Box::new(request), outcome));
    }

    /// Returns the number of the next operation. Operations within a millisecond are ordered.
    pub(crate) fn next_operation(&mut self) -> u64 {
        self.last_operation = (self.last_operation + 1).max(self.scene.now << OPERATION_BITS);
        self.last_operation
    }

    fn arrive(&mut self, request: Box<Request>, reply_delay: Option<u64>) {
        let now = self.scene.now;
        let operation = self.next_operation();
        let process = &self.processes[request.process];
        let name = &process.name;
        let outcome = match &request.kind {
            RequestKind::Election(key, op) => {
                Outcome::Election(self.store.election(*key, op, request.process, now))
            }
            RequestKind::Shares(share_request, observations) => {
                // Lists are read by the clock of their receiver.
                let sender_clock = match share_request {
                    StoreRequest::ListSigns => process.clock.now_at(now),
                    _ => request.sent_at,
                };
                let answer =
                    self.store.shares(share_request, (name, request.life), sender_clock, now);
                let checker = &mut self.scene.checker;
                match (share_request, &answer) {
                    (StoreRequest::WriteSign(_), _) => {
                        checker.record_sign(name, true, operation, now)
                    }
                    (StoreRequest::WithdrawSign, _) => {
                        checker.record_sign(name, false, operation, now)
                    }
                    (StoreRequest::RemoveSign(member, _), _) if !self.store.has_sign(member) => {
                        checker.record_sign(member, false, operation, now)
                    }
                    (StoreRequest::WritePlan(plan, _), StoreResponse::Plan(..)) => {
                        let observations = observations.clone().unwrap_or_default();
                        let last_poll = observations.polls.last().map_or(0, |(_, at)| *at);
                        let was_healthy = |name: &str| {
                            let index = self.scene.indexes_by_name.get(name).copied();
                            index.is_some_and(|index| {
                                let wrong_until = self.hindered_until[index].max(self.uneven_until);
                                self.processes[index].is_running
                                    && aftermath_end(wrong_until, &self.outages) < last_poll
                            })
                        };
                        checker.record_plan(plan, (name, &observations), was_healthy, now);
                    }
                    _ => {}
                }
                Outcome::Shares(answer, operation)
            }
        };
        if let Some(reply_delay) = reply_delay {
            self.schedule(now + reply_delay, Event::ReplyArrives(request, outcome));
        }
    }
}

/// Returns the end of the effects of a fault that lasted until then.
///
/// While an account takes no signs, a member cannot replace a missing one.
fn aftermath_end(wrong_until: u64, outages: &[(u64, u64)]) -> u64 {
    let extend = |wrong_until: u64, (from, until): &(u64, u64)| match *from
        < wrong_until + FAULT_AFTERMATH
    {
        true => wrong_until.max(*until),
        false => wrong_until,
    };
    outages.iter().fold(wrong_until, extend) + FAULT_AFTERMATH
}

/// Returns the time of an operation of the store.
pub(crate) fn operation_time(operation: u64) -> u64 {
    operation >> OPERATION_BITS
}

fn unknown_outcome(kind: &RequestKind) -> Outcome {
    match kind {
        RequestKind::Shares(..) => Outcome::Shares(StoreResponse::Unknown, 0),
        RequestKind::Election(..) => Outcome::Election(Reply::Unknown),
    }
}

impl Requests {
    fn count(&mut self, kind: &RequestKind) {
        let counter = match kind {
            RequestKind::Shares(StoreRequest::WriteSign(_), _) => &mut self.signs,
            RequestKind::Shares(StoreRequest::ReadPlan(_), _) => &mut self.reads,
            RequestKind::Shares(StoreRequest::ListSigns, _) => &mut self.lists,
            RequestKind::Shares(StoreRequest::WritePlan(..), _) => &mut self.plans,
            RequestKind::Shares(..) => &mut self.other_share_requests,
            RequestKind::Election(_, Op::Renew(_)) => &mut self.renewals,
            RequestKind::Election(..) => &mut self.other_election_requests,
        };
        *counter += 1;
    }

    /// Returns the total.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.signs
            + self.reads
            + self.lists
            + self.plans
            + self.renewals
            + self.other_election_requests
            + self.other_share_requests
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}
