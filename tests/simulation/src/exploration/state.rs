//! All processes, all that is on its way between them and the store, and the store.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use tenure_azure::Operation;
use tenure_store::{Request, Service};

use super::known::{Known, digest};
use super::oracle::{Oracle, Violation};
use super::process::{Moved, Process, Push};
use super::scope::{Flaw, Scope};
use super::time::Instant;

/// Everything at one instant. A copy is cheap: what is large is shared.
#[derive(Clone)]
pub struct State {
    pub(super) scope: Rc<Scope>,
    pub(super) now: Instant,
    /// How many disturbances may follow.
    pub(super) left: u8,
    /// How many orders may follow.
    pub(super) orders: u8,
    /// Whose request arrived last at this instant.
    pub(super) latest: Option<usize>,
    pub(super) service: Known<Service>,
    /// Writes that the store accepted: each has an ETag of its own.
    pub(super) writes: u64,
    pub(super) candidates: Vec<Candidate>,
    /// Requests on their way, sorted.
    pub(super) requests: Vec<Sent>,
    pub(super) oracle: Oracle,
    /// To whom the store granted the first lease.
    pub(super) first: Option<usize>,
    pub(super) note: Note,
    pub(super) broken: Option<Violation>,
}

/// What happened last, for people.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Note {
    pub(super) who: usize,
    pub(super) what: &'static str,
    pub(super) and: &'static str,
    pub(super) status: Option<u16>,
    /// A term was won by it, and not the first one.
    pub(super) take_over: bool,
    /// The lease was given to a successor by it.
    pub(super) handed_over: bool,
    /// A leader goes on, since nobody came to take over.
    pub(super) in_vain: bool,
    /// A lease was broken for a follower by it.
    pub(super) broken: bool,
}

/// A candidate, whether it runs or not.
#[derive(Clone, Hash)]
pub(super) struct Candidate {
    life: u8,
    pub(super) process: Option<Known<Process>>,
    /// Of the process that ended, where it is kept.
    old_state: Option<Known<Vec<u8>>>,
    /// Nothing that it sends arrives.
    pub(super) cut_off: bool,
}

/// A request on its way to the store.
#[derive(Clone)]
pub(super) struct Sent {
    pub(super) from: usize,
    pub(super) at: Instant,
    /// The process waits for the answer.
    pub(super) awaited: bool,
    /// It takes its time.
    pub(super) late: bool,
    pub(super) operation: Rc<Operation>,
    pub(super) request: Known<Request>,
}

impl Sent {
    /// Whether it changes nothing at the store.
    pub(super) fn is_look(&self) -> bool {
        matches!(*self.operation, Operation::Read { .. } | Operation::ReadSideBlob(_))
    }
}

impl Hash for Sent {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.from, self.at, self.awaited, self.late, &self.request).hash(state);
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.now, self.left, self.orders, &self.service, self.writes).hash(state);
        (&self.candidates, &self.requests, &self.oracle, self.first).hash(state);
        // Who was last matters only for what can follow.
        let latest = match self.latest {
            Some(latest) if self.left > 0 || self.orders > 0 => Some(latest),
            Some(_) if self.candidates.iter().any(Candidate::waits_for_another_instant) => Some(9),
            _ => None,
        };
        latest.hash(state);
    }
}

impl Candidate {
    /// Something can happen to it, but only before anything else at some instant.
    fn waits_for_another_instant(&self) -> bool {
        self.cut_off
            || self
                .process
                .as_ref()
                .is_none_or(|process| process.frozen || process.is_answered_late())
    }
}

impl State {
    /// All candidates have just started.
    pub(super) fn first(scope: &Rc<Scope>) -> Self {
        let service = scope.service();
        let digest = service.fingerprint();
        let mut state = Self {
            scope: scope.clone(),
            now: 0,
            left: scope.bounds.disturbances,
            orders: scope.bounds.orders,
            latest: None,
            service: Known::by(service, digest),
            writes: 0,
            candidates: vec![
                Candidate { life: 0, process: None, old_state: None, cut_off: false };
                scope.bounds.candidates
            ],
            requests: Vec::new(),
            oracle: Oracle::default(),
            first: None,
            note: Note::default(),
            broken: None,
        };
        (0..scope.bounds.candidates).for_each(|candidate| state.start(candidate, None));
        state
    }

    /// There is another state with the candidates' parts exchanged, where they differ in nothing but
    /// their names: the first lease goes to the first of them.
    pub(super) fn is_mirrored(&self) -> bool {
        self.scope.alike && self.first.is_some_and(|first| first > 0)
    }

    pub(super) fn processes(&self) -> impl Iterator<Item = &Process> {
        self.candidates.iter().filter_map(|place| place.process.as_deref())
    }

    fn start(&mut self, candidate: usize, state: Option<Known<Vec<u8>>>) {
        let place = &mut self.candidates[candidate];
        let process = Process::new(candidate, place.life, self.now, state);
        place.process = Some(Known::new(process));
        self.push(candidate, Push::GoOn);
    }

    /// Starts a process that ended, as a new life.
    pub(super) fn restart(&mut self, candidate: usize) {
        let place = &mut self.candidates[candidate];
        place.life += 1;
        let state = place.old_state.take();
        self.start(candidate, state);
    }

    /// The process is no more. What it sent may still arrive, at any time.
    pub(super) fn end(&mut self, candidate: usize) {
        let ended = self.candidates[candidate].process.take();
        if self.scope.flaw == Some(Flaw::OldState) {
            self.candidates[candidate].old_state = ended.and_then(|ended| ended.state.clone());
        }
        self.nobody_awaits(candidate);
        self.delay(candidate);
    }

    /// Lets something happen to a process, if it runs.
    pub(super) fn push(&mut self, candidate: usize, push: Push) {
        let (scope, now) = (self.scope.clone(), self.now);
        let Some(process) = self.candidates[candidate].process.clone() else { return };
        let given = digest(&(&process, &push, now));
        let (after, sent, ended) = scope.moves.get(given, || {
            let mut process = Process::clone(&process);
            let moved = process.pushed(&scope, now, push);
            let sent = match &moved {
                Moved::Asks(operation) => Some(Sent {
                    from: candidate,
                    at: now,
                    awaited: true,
                    late: false,
                    operation: Rc::new(operation.clone()),
                    request: scope.request(candidate, operation, now),
                }),
                Moved::Waits | Moved::Ended => None,
            };
            (Known::new(process), sent, matches!(moved, Moved::Ended))
        });
        if sent.is_some() || after.flight.is_none() {
            self.nobody_awaits(candidate);
        }
        self.candidates[candidate].process = Some(after);
        self.judge_process(candidate, process.turn);
        let goes_on = |after: &Process| after.leads && !after.hands_over;
        self.note.in_vain |= process.hands_over
            && self.processes().any(|after| after.candidate == candidate && goes_on(after));
        if ended {
            self.end(candidate);
        }
        if let Some(sent) = sent {
            self.judge_sent(&sent, process.life);
            if !self.candidates[candidate].cut_off {
                self.requests.push(sent);
            }
        }
        self.sort();
    }

    /// The process waits for none of the answers to its requests. A look without a reader
    /// is nothing.
    fn nobody_awaits(&mut self, candidate: usize) {
        for request in &mut self.requests {
            request.awaited &= request.from != candidate;
        }
        self.requests.retain(|request| request.awaited || !request.is_look());
    }

    /// What the process has sent is late now.
    pub(super) fn delay(&mut self, candidate: usize) {
        for request in &mut self.requests {
            request.late |= request.from == candidate;
        }
        self.sort();
    }

    pub(super) fn sort(&mut self) {
        if self.requests.len() > 1 {
            self.requests.sort_by_cached_key(digest);
        }
    }
}
