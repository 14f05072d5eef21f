//! Processes, an account and the network between them, in virtual time.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use fastrand::Rng;
use tenure_shares::{Answer, Ask, Pace, Sign};

use crate::candidate::Timing;
use crate::clock::Clock;
use crate::judge::Judge;
use crate::network::{Fate, Network};
use crate::process::{Kind, Outcome, Process, Request, Scene, milliseconds};
use crate::scenario::{Action, ZONES};
use crate::store::{Op, Reply, Store};
use crate::supervisor::{Left, Supervisors};

/// Milliseconds that a request may take.
pub const TIME_OUT: u64 = 3_000;
/// Of a lease.
pub const LEASE: u64 = 15_000;

/// So many bits number the operations of a millisecond.
const MOMENT: u32 = 20;

/// What was wrong with a process so long ago has no consequences any more.
const SINCE: u64 = 30_000;

/// After which time those are replaced that are replaced sooner, in milliseconds.
const QUICK: u64 = 3_000;

/// Something that happens at an instant.
#[derive(Debug)]
pub enum Event {
    /// A request comes to the store; its answer goes back in so long, or was given up.
    Arrives(Box<Request>, Option<u64>),
    /// A request was answered.
    Answered(Box<Request>, Outcome),
    /// A process of that life has something to do.
    Wakes(usize, u32),
    /// A process that stood still goes on.
    Thaws(usize, u32),
    /// A supervisor sends what a process left with it.
    Sends(Box<Left>),
    /// That comes to the store.
    Takes(Box<Left>),
    /// Something of the scenario.
    Acts(Action),
}

struct Entry {
    at: u64,
    number: u64,
    event: Event,
}

/// Requests that were sent, by kind.
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
    /// Whatever else elections send.
    pub elections: u64,
    /// Whatever else is sent about shares.
    pub others: u64,
}

/// Everything.
pub struct World {
    /// What processes share.
    pub scene: Scene,
    /// The account.
    pub store: Store,
    /// The network.
    pub network: Network,
    /// All processes.
    pub processes: Vec<Process>,
    /// What was sent.
    pub requests: Requests,
    /// The next plan that is written comes so much later, and its leader is dead by then.
    pub stale_write: Option<u64>,
    /// What becomes of last wills.
    pub supervisors: Supervisors,
    mixed: bool,
    /// Until when each process was off, stood still or was cut off.
    pub hindered: Vec<u64>,
    /// Until when the account treated one request otherwise than another.
    pub uneven: u64,
    /// From when and until when it took no signs, one time after the other.
    pub outages: Vec<(u64, u64)>,
    rng: Rng,
    queue: BinaryHeap<Reverse<Entry>>,
    number: u64,
    /// Names the operation that the store did last: rises with each.
    done: u64,
    /// What came for processes that stand still.
    held: HashMap<usize, Vec<Event>>,
}

/// What a world is made of.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Shares to begin with.
    pub shares: u32,
    /// Members there will be at most, about.
    pub members: usize,
    /// Milliseconds that work takes to stop.
    pub stop: u64,
    /// All weigh the same and have no limit.
    pub equal: bool,
    /// Some are replaced sooner than others.
    pub mixed: bool,
}

impl World {
    /// An empty one.
    #[must_use]
    pub fn new(seed: u64, size: Size, way: u64, rough: u64) -> Self {
        let pace = Pace::of(std::time::Duration::from_millis(LEASE));
        let scene = Scene {
            now: 0,
            judge: Judge::new(pace, size.equal),
            outbox: Vec::new(),
            names: HashMap::new(),
            roll: Vec::new(),
            timing: Timing { lease: LEASE, poll: 500, stop: size.stop },
            pace,
            shares: size.shares,
        };
        Self {
            scene,
            store: Store::new(seed ^ 1, LEASE),
            network: Network::new(seed ^ 2, way, rough),
            processes: Vec::new(),
            requests: Requests::default(),
            stale_write: None,
            supervisors: Supervisors::new(seed ^ 4),
            mixed: size.mixed,
            hindered: Vec::new(),
            uneven: if rough > 0 { u64::MAX / 2 } else { 0 },
            outages: Vec::new(),
            rng: Rng::with_seed(seed ^ 3),
            queue: BinaryHeap::new(),
            number: 0,
            done: 0,
            held: HashMap::new(),
        }
    }

    /// A member begins.
    pub fn join(&mut self, weight: u32, most: Option<u32>, zone: usize) -> usize {
        self.begin(weight, most, zone, false)
    }

    /// A process begins that has no shares.
    pub fn join_whole(&mut self) -> usize {
        self.begin(1, None, self.processes.len() % ZONES, true)
    }

    fn begin(&mut self, weight: u32, most: Option<u32>, zone: usize, whole: bool) -> usize {
        let who = self.processes.len();
        let name = format!("member-{who}");
        self.scene.names.insert(name.clone(), who);
        self.scene.roll.push(name.clone());
        let mut pace = self.scene.pace;
        if self.mixed && self.rng.bool() {
            pace = Pace::of(std::time::Duration::from_millis(QUICK));
            self.scene.judge.signs(&name, pace);
        }
        let sign = Sign { member: name, weight, most, pace };
        let clock = Clock::new(self.rng.u64(..3_600_000), self.rng.u64(990_000..=1_010_000));
        let mut process = Process::new(who, sign, zone, clock);
        process.whole = whole;
        self.processes.push(process);
        self.hindered.push(0);
        self.start(who);
        who
    }

    /// A process begins, or begins anew under its name.
    pub fn start(&mut self, who: usize) {
        // It stays cut off where its former life was.
        let cut = self.network.troubles.iter().filter(|trouble| trouble.cuts(who));
        let cut = cut.map(|trouble| trouble.until).max().unwrap_or(0);
        self.hindered[who] = cut.max(self.scene.now);
        self.processes[who].start(&mut self.scene);
        self.held.remove(&who);
        self.settle(who);
    }

    /// A process dies.
    pub fn kill(&mut self, who: usize) {
        self.processes[who].kill(&mut self.scene);
        self.held.remove(&who);
    }

    /// A process is told to leave.
    pub fn leave(&mut self, who: usize) {
        self.processes[who].leave(&self.scene);
        self.settle(who);
    }

    /// A process stands still for so long.
    pub fn freeze(&mut self, who: usize, long: u64) {
        let until = self.scene.now + long;
        self.hindered[who] = self.hindered[who].max(until);
        self.processes[who].frozen = Some(until);
        let life = self.processes[who].life;
        self.at(until, Event::Thaws(who, life));
        self.takes_for_dead(who);
    }

    /// It goes on.
    pub fn thaw(&mut self, who: usize) {
        if self.processes[who].frozen.take().is_none() {
            return;
        }
        self.settle(who);
        for event in self.held.remove(&who).unwrap_or_default() {
            self.happens(event);
        }
    }

    /// Something is to happen then.
    pub fn at(&mut self, at: u64, event: Event) {
        self.number += 1;
        self.queue.push(Reverse(Entry { at, number: self.number, event }));
    }

    /// Goes on until that instant, or until an action, which is not done yet.
    pub fn run(&mut self, until: u64) -> Option<Action> {
        while let Some(Reverse(entry)) = self.queue.pop() {
            if entry.at > until {
                self.queue.push(Reverse(entry));
                break;
            }
            self.scene.now = entry.at;
            match entry.event {
                Event::Acts(action) => return Some(action),
                event => self.happens(event),
            }
        }
        self.scene.now = until;
        None
    }

    fn happens(&mut self, event: Event) {
        let (who, life) = match &event {
            Event::Arrives(..) | Event::Sends(_) | Event::Takes(_) | Event::Acts(_) => {
                (usize::MAX, 0)
            }
            Event::Answered(request, _) => (request.who, request.life),
            Event::Wakes(who, life) | Event::Thaws(who, life) => (*who, *life),
        };
        if let Some(process) = self.processes.get(who) {
            if !process.is_on || process.life != life {
                return;
            }
            if process.frozen.is_some_and(|until| until > self.scene.now) {
                self.held.entry(who).or_default().push(event);
                return;
            }
        }
        match event {
            Event::Arrives(request, back) => self.arrives(request, back),
            Event::Answered(request, outcome) => {
                self.processes[who].answered(&request, outcome, &mut self.scene);
                self.settle(who);
            }
            Event::Wakes(..) if self.processes[who].wakes > self.scene.now => {}
            Event::Wakes(..) => self.settle(who),
            Event::Thaws(..) => self.thaw(who),
            Event::Sends(left) => self.sends(*left),
            Event::Takes(left) => self.takes(&left),
            Event::Acts(_) => {}
        }
    }

    fn settle(&mut self, who: usize) {
        let process = &mut self.processes[who];
        let (next, before) = (process.settle(&mut self.scene), process.wakes);
        if process.is_on && (next < before || before <= self.scene.now) {
            process.wakes = next;
            let life = process.life;
            self.at(next, Event::Wakes(who, life));
        }
        for request in std::mem::take(&mut self.scene.outbox) {
            self.send(request);
        }
    }

    fn send(&mut self, request: Request) {
        self.requests.count(&request.kind);
        let ask = match &request.kind {
            Kind::Shares(ask, _) => Some(ask),
            Kind::Election(..) => None,
        };
        let now = self.scene.now;
        let mut fate = self.network.fate(request.who, ask, now);
        if matches!(ask, Some(Ask::WritePlan(..)))
            && let Some(late) = self.stale_write.take()
        {
            fate = Fate::Comes(late, None);
            self.at(now + 100, Event::Acts(Action::KillThat(request.who, request.life)));
        }
        // A sign must not delay the next one.
        let time_out = match ask {
            Some(Ask::Sign(sign)) => TIME_OUT.min(milliseconds(sign.pace.sign())),
            _ => TIME_OUT,
        };
        let (at, outcome) = match fate {
            Fate::Comes(there, back) => {
                let back = back.filter(|back| there + back <= time_out);
                if back.is_some() {
                    return self.at(now + there, Event::Arrives(Box::new(request), back));
                }
                self.at(now + there, Event::Arrives(Box::new(request.clone()), None));
                (now + time_out, unknown(&request.kind))
            }
            Fate::Lost => (now + time_out, unknown(&request.kind)),
            Fate::Throttled(after) => (now + after, unknown(&request.kind)),
            Fate::Refused(after) => (now + after, Outcome::Shares(Answer::Refused, now)),
        };
        self.at(at, Event::Answered(Box::new(request), outcome));
    }

    /// Two operations of one millisecond have an order.
    pub(crate) fn next_done(&mut self) -> u64 {
        self.done = (self.done + 1).max(self.scene.now << MOMENT);
        self.done
    }

    fn arrives(&mut self, request: Box<Request>, back: Option<u64>) {
        let now = self.scene.now;
        let done = self.next_done();
        let process = &self.processes[request.who];
        let name = &process.name;
        let outcome = match &request.kind {
            Kind::Election(key, op) => {
                Outcome::Election(self.store.election(*key, op, request.who, now))
            }
            Kind::Shares(ask, looks) => {
                // Lists are read by the clock of who takes them.
                let clock = match ask {
                    Ask::List => process.clock.reads(now),
                    _ => request.sent,
                };
                let answer = self.store.shares(ask, (name, request.life), clock, now);
                let judge = &mut self.scene.judge;
                match (ask, &answer) {
                    (Ask::Sign(_), _) => judge.heard(name, true, done, now),
                    (Ask::TakeBack, _) => judge.heard(name, false, done, now),
                    (Ask::Remove(of, _), _) if !self.store.has_sign(of) => {
                        judge.heard(of, false, done, now)
                    }
                    (Ask::WritePlan(plan, _), Answer::Plan(..)) => {
                        let looks = looks.clone().unwrap_or_default();
                        let looked = looks.at.last().map_or(0, |(_, at)| *at);
                        let sound = |name: &str| {
                            let who = self.scene.names.get(name).copied();
                            who.is_some_and(|who| {
                                let wrong = self.hindered[who].max(self.uneven);
                                self.processes[who].is_on && over(wrong, &self.outages) < looked
                            })
                        };
                        judge.planned(plan, (name, &looks), sound, now);
                    }
                    _ => {}
                }
                Outcome::Shares(answer, done)
            }
        };
        if let Some(back) = back {
            self.at(now + back, Event::Answered(request, outcome));
        }
    }
}

/// When what was wrong with a process until then has no consequences any more. As long as an account takes no signs, nobody
/// can make up for one that was missing.
fn over(wrong: u64, outages: &[(u64, u64)]) -> u64 {
    let later = |wrong: u64, (from, until): &(u64, u64)| match *from < wrong + SINCE {
        true => wrong.max(*until),
        false => wrong,
    };
    outages.iter().fold(wrong, later) + SINCE
}

/// When the store did that operation.
pub(crate) fn time_of(done: u64) -> u64 {
    done >> MOMENT
}

fn unknown(kind: &Kind) -> Outcome {
    match kind {
        Kind::Shares(..) => Outcome::Shares(Answer::Unknown, 0),
        Kind::Election(..) => Outcome::Election(Reply::Unknown),
    }
}

impl Requests {
    fn count(&mut self, kind: &Kind) {
        let counter = match kind {
            Kind::Shares(Ask::Sign(_), _) => &mut self.signs,
            Kind::Shares(Ask::ReadPlan(_), _) => &mut self.reads,
            Kind::Shares(Ask::List, _) => &mut self.lists,
            Kind::Shares(Ask::WritePlan(..), _) => &mut self.plans,
            Kind::Shares(..) => &mut self.others,
            Kind::Election(_, Op::Renew(_)) => &mut self.renewals,
            Kind::Election(..) => &mut self.elections,
        };
        *counter += 1;
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.signs
            + self.reads
            + self.lists
            + self.plans
            + self.renewals
            + self.elections
            + self.others
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
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
