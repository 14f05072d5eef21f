//! Time, the network, the store and what goes wrong.

mod faults;
mod oracle;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tenure::store::{Account as StoreAccount, Now, Request, Response, Service};
use tenure_guest::azure::Answer;
use tenure_guest::election::{
    Ask, EndingReason, Event, Failure, FailureKind, Outcome, Report, Standing, Step, Todo,
};

use crate::candidate::{Asked, Dice, Host, Running};

/// Ten leases, of which the last four are calm.
const TROUBLED: Duration = Duration::from_secs(150);
const END: Duration = Duration::from_secs(215);

/// The longest that a host needs to stop a handler, in milliseconds.
pub const STOPPING: u64 = 2_000;

/// What may go wrong beside losses, delays, freezes and crashes, which always may.
#[derive(Clone, Copy)]
pub struct Faults {
    /// Somebody breaks the lease, deletes the blob, wipes the record (A3).
    pub outsider: bool,
}

enum Happening {
    Step(usize, u64),
    Arrive { from: usize, life: u64, asked: u64, request: Box<Request>, answered: bool },
    Reply { to: usize, life: u64, asked: u64, response: Box<Response> },
    Timeout(usize, u64, u64),
    TurnEnds(usize, u64, u64),
    Deadline(usize, u64),
    Freeze,
    Thaw(usize, u64),
    Kill,
    Leave,
    Restart(usize),
    Meddle,
}

/// Work of one term.
#[derive(Clone, Copy, Debug)]
struct Span {
    term: u64,
    from: Duration,
    to: Duration,
}

pub struct World {
    faults: Faults,
    dice: Dice,
    now: Duration,
    began: DateTime<Utc>,
    service: Service,
    agenda: BTreeMap<(Duration, u64), Happening>,
    number: u64,
    hosts: Vec<Host>,
    spans: Vec<Span>,
    /// Terms and who won them, in the order in which the store took them.
    wins: Vec<(u64, String)>,
    /// When the newest of them was won.
    won_at: Duration,
    slots: BTreeMap<u64, BTreeSet<u64>>,
    doubled: Vec<u64>,
    early: Vec<u64>,
    /// Rules that a candidate broke by what it sent.
    broken: Vec<String>,
    /// Requests of each host in each second.
    requests: BTreeMap<(usize, u64), u32>,
    lost_tenancies: u64,
    trace: Vec<String>,
}

/// How much of what a number of schedules saw.
#[derive(Debug, Default)]
pub struct Seen {
    pub wins: u64,
    pub turns: u64,
    pub lost_tenancies: u64,
}

impl Seen {
    pub fn add(&mut self, world: &World) {
        self.wins += world.wins.len() as u64;
        self.turns += world.slots.len() as u64;
        self.lost_tenancies += world.lost_tenancies;
    }
}

impl World {
    pub fn new(seed: u64, faults: Faults) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0xd134_2543_de82_ef95) ^ 0x5bd1_e995);
        let leases = ["15s", "15s", "30s"];
        let hosts = leases
            .iter()
            .enumerate()
            .map(|(n, lease)| Host::new(&format!("c{n}"), lease, &mut dice));
        let mut world = Self {
            faults,
            hosts: hosts.collect(),
            dice,
            now: Duration::ZERO,
            began: DateTime::from_timestamp(1_795_000_000, 0).unwrap(),
            service: Service::new(vec![StoreAccount::emulator()], seed),
            agenda: BTreeMap::new(),
            number: 0,
            spans: Vec::new(),
            wins: Vec::new(),
            won_at: Duration::ZERO,
            slots: BTreeMap::new(),
            doubled: Vec::new(),
            early: Vec::new(),
            broken: Vec::new(),
            requests: BTreeMap::new(),
            lost_tenancies: 0,
            trace: Vec::new(),
        };
        for host in 0..world.hosts.len() {
            let at = world.dice.millis(3_000);
            world.plan(at, Happening::Step(host, 0));
        }
        for _ in 0..3 {
            let usual = [Happening::Freeze, Happening::Kill, Happening::Leave, Happening::Meddle];
            for happening in usual {
                let at = Duration::from_secs(10) + world.dice.millis(130_000);
                world.plan(at, happening);
            }
        }
        world
    }

    pub fn run(&mut self) {
        while let Some(((at, _), happening)) = self.agenda.pop_first() {
            if at > END {
                break;
            }
            self.now = at;
            self.happen(happening);
        }
        self.now = END;
        for host in 0..self.hosts.len() {
            if let Some(running) = self.hosts[host].turn {
                self.close_span(running);
            }
        }
    }

    pub fn trace(&self) -> String {
        self.trace.join("\n")
    }

    fn note(&mut self, host: usize, what: &str) {
        self.trace.push(format!("{:>10.3} c{host} {what}", self.now.as_secs_f64()));
    }

    fn plan(&mut self, at: Duration, happening: Happening) {
        self.number += 1;
        self.agenda.insert((at, self.number), happening);
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Step(host, life) => {
                let until = self.hosts[host].frozen_until;
                if until > self.now {
                    return self.plan(until, Happening::Step(host, life));
                }
                if self.lives(host, life) && self.hosts[host].step.is_none() {
                    self.begin_step(host);
                }
            }
            Happening::Arrive { from, life, asked, request, answered } => {
                let now = Now { elapsed: self.now, wall: self.wall() };
                let response = Box::new(self.service.handle(now, &request));
                self.note_win(&request, response.status);
                if answered {
                    let at = self.now + self.latency();
                    self.plan(at, Happening::Reply { to: from, life, asked, response });
                }
            }
            Happening::Reply { to, life, asked, response } => {
                let until = self.hosts[to].frozen_until;
                if until > self.now {
                    return self.plan(until, Happening::Reply { to, life, asked, response });
                }
                self.answer(to, life, asked, Some(&response));
            }
            Happening::Timeout(host, life, asked) => {
                let until = self.hosts[host].frozen_until;
                if until > self.now {
                    return self.plan(until, Happening::Timeout(host, life, asked));
                }
                self.answer(host, life, asked, None);
            }
            Happening::TurnEnds(host, life, number) => {
                let running = self.hosts[host].turn.filter(|running| running.number == number);
                if self.lives(host, life) && running.is_some() {
                    // A frozen handler goes on for as long as it was frozen.
                    let until = self.hosts[host].frozen_until;
                    if until > self.now {
                        return self.plan(until, Happening::TurnEnds(host, life, number));
                    }
                    self.turn_over(host, Outcome::Succeeded);
                }
            }
            Happening::Deadline(host, life) => {
                if self.lives(host, life) {
                    self.enforce(host);
                }
            }
            Happening::Freeze => self.freeze(),
            Happening::Thaw(host, life) => {
                if self.lives(host, life) {
                    self.enforce(host);
                    let now = self.now;
                    if let Some(running) = &mut self.hosts[host].turn {
                        running.working_since = Some(now);
                    }
                    self.note(host, "thaws");
                }
            }
            Happening::Kill => self.kill(),
            Happening::Leave => self.leave(),
            Happening::Restart(host) => {
                let now = self.now;
                let host_state = &mut self.hosts[host];
                (host_state.alive, host_state.origin) = (true, now);
                let life = host_state.life;
                self.plan(now, Happening::Step(host, life));
            }
            Happening::Meddle => self.meddle(),
        }
    }

    fn lives(&self, host: usize, life: u64) -> bool {
        self.hosts[host].alive && self.hosts[host].life == life
    }

    fn wall(&self) -> DateTime<Utc> {
        self.began + TimeDelta::from_std(self.now).unwrap()
    }

    fn wall_of(&self, host: usize) -> DateTime<Utc> {
        self.wall() + TimeDelta::seconds(self.hosts[host].wall_off)
    }

    fn latency(&mut self) -> Duration {
        match self.dice.below(20) {
            0 if self.now < TROUBLED => self.dice.millis(4_000),
            _ => Duration::from_micros(300 + self.dice.below(20_000)),
        }
    }

    // The host's part.

    fn begin_step(&mut self, host: usize) {
        let now = self.hosts[host].clock(self.now);
        let state = &mut self.hosts[host];
        let memory = state.memory.take();
        let word = state.word.take();
        state.step_began = now;
        let step = Step::begin(state.settings, memory.as_deref(), now, word, &mut self.dice);
        state.step = Some(step);
        self.go_on(host);
    }

    fn go_on(&mut self, host: usize) {
        let now = self.hosts[host].clock(self.now);
        let wall = self.wall_of(host);
        let Some(mut step) = self.hosts[host].step.take() else { return };
        match step.next(now) {
            Todo::Rest(report) => self.finish(host, *report),
            Todo::Send(Ask { operation, timeout }) => {
                self.check_sent(host, &operation);
                let state = &self.hosts[host];
                let date = step.date(now, wall);
                let sent = operation.request(&state.settings.account, state.blob(), date, 3);
                let request = Box::new(Request {
                    method: sent.method.as_str().into(),
                    target: sent.path_and_query,
                    headers: sent.headers,
                    body: Default::default(),
                });
                self.number += 1;
                let (asked, life) = (self.number, state.life);
                let (lost, unanswered, late) = match self.now < TROUBLED {
                    true => (self.dice.once_in(25), self.dice.once_in(25), self.dice.once_in(50)),
                    false => (false, false, false),
                };
                if !lost {
                    let delay = if late { self.dice.millis(30_000) } else { self.latency() };
                    let answered = !unanswered;
                    let arrive = Happening::Arrive { from: host, life, asked, request, answered };
                    self.plan(self.now + delay, arrive);
                }
                let times_out = self.hosts[host].when(now + timeout);
                self.plan(times_out, Happening::Timeout(host, life, asked));
                let state = &mut self.hosts[host];
                state.step = Some(step);
                state.asked = Some(Asked { number: asked, operation, sent: now });
            }
        }
    }

    fn answer(&mut self, host: usize, life: u64, asked: u64, response: Option<&Response>) {
        if !self.lives(host, life) {
            return;
        }
        self.enforce(host);
        let expected = self.hosts[host].asked.take_if(|waiting| waiting.number == asked);
        let Some(expected) = expected else { return };
        let reply = match response {
            None => Err(Failure { kind: FailureKind::Timeout, detail: String::new() }),
            Some(response) => {
                let headers = response.headers.iter();
                let headers: Vec<_> = headers
                    .map(|(name, value)| (name.clone(), value.clone().into_bytes()))
                    .collect();
                Ok(Answer::read(&expected.operation, response.status, &headers))
            }
        };
        let now = self.hosts[host].clock(self.now);
        let wall = self.wall_of(host);
        let told = match &reply {
            Ok(answer) => format!("{}: {}", expected.operation.name(), answer.status),
            Err(_) => format!("{}: no answer", expected.operation.name()),
        };
        self.note(host, &told);
        if let Some(step) = &mut self.hosts[host].step {
            step.answered(expected.sent, now, wall, reply, &mut self.dice);
        }
        self.go_on(host);
    }

    fn finish(&mut self, host: usize, report: Report) {
        self.enforce(host);
        let began = self.hosts[host].step_began;
        self.hosts[host].memory = Some(report.memory);
        if report.standing == Standing::Left {
            self.note(host, "has left");
            return self.gone(host);
        }
        if let Some(ending) = report.ending {
            self.note(host, &format!("stands down: {:?}", ending.reason));
            self.lost_tenancies += u64::from(ending.reason != EndingReason::Left);
            self.hosts[host].leading = None;
            // To stop the work takes some time, but no longer than the validity.
            let stopped = self.hosts[host].clock(self.now) + self.dice.millis(STOPPING);
            if let Some(running) = &mut self.hosts[host].turn {
                running.deadline = running.deadline.min(stopped);
            }
        }
        if let Standing::Leading(tenancy) = &report.standing {
            if self.hosts[host].leading.replace(tenancy.term) != Some(tenancy.term) {
                self.note(host, &format!("leads, term {}", tenancy.term));
            }
            if let Some(running) = &mut self.hosts[host].turn {
                running.deadline = began + tenancy.valid_for;
            }
        }
        if let Some(turn) = report.run {
            self.start_turn(host, began, turn);
        }
        if let Some(running) = self.hosts[host].turn {
            let at = self.hosts[host].when(running.deadline);
            self.plan(at.max(self.now), Happening::Deadline(host, self.hosts[host].life));
        }
        let soon = if self.hosts[host].word.is_some() { began } else { began + report.again_in };
        let at = self.hosts[host].when(soon).max(self.now + Duration::from_micros(1));
        self.plan(at, Happening::Step(host, self.hosts[host].life));
    }

    fn start_turn(&mut self, host: usize, began: Duration, turn: tenure_guest::election::Turn) {
        let deadline = began + turn.valid_for;
        if self.hosts[host].leaving {
            return; // The word that it leaves says too that nothing runs.
        }
        if deadline <= self.hosts[host].clock(self.now) {
            self.hosts[host].word = Some(Event::TurnEnded(Outcome::CutOff));
            return;
        }
        assert!(self.hosts[host].turn.is_none(), "a turn while another one runs");
        self.note(host, &format!("runs slot {}", turn.slot.seconds()));
        if turn.slot.to_date() > self.wall() {
            self.early.push(turn.slot.seconds());
        }
        let terms = self.slots.entry(turn.slot.0).or_default();
        if !terms.is_empty() {
            self.doubled.push(turn.slot.seconds());
        }
        terms.insert(turn.term);
        self.number += 1;
        let (number, life) = (self.number, self.hosts[host].life);
        let now = self.now;
        self.hosts[host].turn = Some(Running { turn, number, deadline, working_since: Some(now) });
        let most = if self.dice.once_in(10) { 40_000 } else { 4_000 };
        let ends = now + self.dice.millis(most);
        self.plan(ends, Happening::TurnEnds(host, life, number));
    }

    /// Stops a turn whose time is over: the host does it before anything else.
    fn enforce(&mut self, host: usize) {
        if self.hosts[host].frozen_until > self.now {
            return;
        }
        let clock = self.hosts[host].clock(self.now);
        if self.hosts[host].turn.is_some_and(|running| running.deadline <= clock) {
            self.note(host, "is cut off");
            self.turn_over(host, Outcome::CutOff);
        }
    }

    fn turn_over(&mut self, host: usize, outcome: Outcome) {
        let Some(running) = self.hosts[host].turn_over(outcome) else { return };
        self.close_span(running);
        let life = self.hosts[host].life;
        self.plan(self.now, Happening::Step(host, life));
    }

    fn close_span(&mut self, running: Running) {
        if let Some(from) = running.working_since {
            self.spans.push(Span { term: running.turn.term, from, to: self.now });
        }
    }
}
