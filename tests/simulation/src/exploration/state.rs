//! State of an exploration: all processes, requests and responses in transit, and the store.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use tenure_azure::Operation;
use tenure_store::{Request, Service};

use super::hashed::{Hashed, digest};
use super::oracle::{Oracle, Violation};
use super::process::{Process, Progress, Push};
use super::scope::{Flaw, Scope};
use super::time::Instant;

/// State at one instant. Cloning is cheap: large parts are shared.
#[derive(Clone)]
pub struct State {
    pub(super) scope: Rc<Scope>,
    pub(super) now: Instant,
    /// Number of disturbances that may follow.
    pub(super) disturbances_left: u8,
    /// Number of orders that may follow.
    pub(super) orders_left: u8,
    /// Sender of the last request that arrived at this instant.
    pub(super) last_candidate: Option<usize>,
    pub(super) service: Hashed<Service>,
    /// Number of writes that the store accepted: each has its own ETag.
    pub(super) write_count: u64,
    pub(super) candidates: Vec<Candidate>,
    /// Requests in transit, sorted.
    pub(super) requests: Vec<RequestInFlight>,
    pub(super) oracle: Oracle,
    /// Candidate that the store granted the first lease.
    pub(super) first_leader: Option<usize>,
    pub(super) note: Note,
    pub(super) violation: Option<Violation>,
}

/// Last event, for the readable path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Note {
    pub(super) candidate: usize,
    pub(super) action: &'static str,
    pub(super) detail: &'static str,
    pub(super) status: Option<u16>,
    /// True if the event won a term that was not the first.
    pub(super) is_takeover: bool,
    /// True if the event gave the lease to a successor.
    pub(super) is_handover: bool,
    /// True if a leader kept leading because no successor came.
    pub(super) is_failed_handover: bool,
    /// True if the event broke a lease for a follower.
    pub(super) is_break: bool,
}

/// A candidate, running or not.
#[derive(Clone, Hash)]
pub(super) struct Candidate {
    life: u8,
    pub(super) process: Option<Hashed<Process>>,
    /// State of the process that ended, if it is kept.
    old_state: Option<Hashed<Vec<u8>>>,
    /// True if its requests do not arrive.
    pub(super) is_cut_off: bool,
}

/// A request in transit to the store.
#[derive(Clone)]
pub(super) struct RequestInFlight {
    pub(super) candidate: usize,
    pub(super) sent_at: Instant,
    /// True if the process waits for the response.
    pub(super) is_awaited: bool,
    /// True if the request is late.
    pub(super) is_late: bool,
    pub(super) operation: Rc<Operation>,
    pub(super) request: Hashed<Request>,
}

impl RequestInFlight {
    /// Returns true if it changes nothing in the store.
    pub(super) fn is_read(&self) -> bool {
        matches!(*self.operation, Operation::Read { .. } | Operation::ReadSideBlob(_))
    }
}

impl Hash for RequestInFlight {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.candidate, self.sent_at, self.is_awaited, self.is_late, &self.request).hash(state);
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.now, self.disturbances_left, self.orders_left, &self.service, self.write_count)
            .hash(state);
        (&self.candidates, &self.requests, &self.oracle, self.first_leader).hash(state);
        // The last sender only matters if it affects the actions that follow.
        let latest = match self.last_candidate {
            Some(latest) if self.disturbances_left > 0 || self.orders_left > 0 => Some(latest),
            Some(_) if self.candidates.iter().any(Candidate::waits_for_next_instant) => Some(9),
            _ => None,
        };
        latest.hash(state);
    }
}

impl Candidate {
    /// Returns true if an event can affect it, but only before any other event of an instant.
    fn waits_for_next_instant(&self) -> bool {
        self.is_cut_off
            || self
                .process
                .as_ref()
                .is_none_or(|process| process.frozen || process.has_late_reply())
    }
}

impl State {
    /// Returns the initial state, in which all candidates have just started.
    pub(super) fn initial(scope: &Rc<Scope>) -> Self {
        let service = scope.service();
        let digest = service.fingerprint();
        let mut state = Self {
            scope: scope.clone(),
            now: 0,
            disturbances_left: scope.bounds.disturbances,
            orders_left: scope.bounds.orders,
            last_candidate: None,
            service: Hashed::with_digest(service, digest),
            write_count: 0,
            candidates: vec![
                Candidate {
                    life: 0,
                    process: None,
                    old_state: None,
                    is_cut_off: false
                };
                scope.bounds.candidates
            ],
            requests: Vec::new(),
            oracle: Oracle::default(),
            first_leader: None,
            note: Note::default(),
            violation: None,
        };
        (0..scope.bounds.candidates).for_each(|candidate| state.start(candidate, None));
        state
    }

    /// Returns true if another state has the candidates' parts exchanged.
    ///
    /// This requires that they only differ in their names: then the first lease goes to the first
    /// candidate.
    pub(super) fn is_symmetric_duplicate(&self) -> bool {
        self.scope.interchangeable && self.first_leader.is_some_and(|first| first > 0)
    }

    pub(super) fn processes(&self) -> impl Iterator<Item = &Process> {
        self.candidates.iter().filter_map(|slot| slot.process.as_deref())
    }

    fn start(&mut self, candidate: usize, state: Option<Hashed<Vec<u8>>>) {
        let slot = &mut self.candidates[candidate];
        let process = Process::new(candidate, slot.life, self.now, state);
        slot.process = Some(Hashed::new(process));
        self.push(candidate, Push::Continue);
    }

    /// Restarts a process that ended, as a new life.
    pub(super) fn restart(&mut self, candidate: usize) {
        let slot = &mut self.candidates[candidate];
        slot.life += 1;
        let state = slot.old_state.take();
        self.start(candidate, state);
    }

    /// Ends the process. Its requests may still arrive, at any time.
    pub(super) fn end_process(&mut self, candidate: usize) {
        let old_process = self.candidates[candidate].process.take();
        if self.scope.flaw == Some(Flaw::OldState) {
            self.candidates[candidate].old_state =
                old_process.and_then(|ended| ended.state.clone());
        }
        self.abandon_requests(candidate);
        self.delay_requests(candidate);
    }

    /// Passes an event to a process, if it runs.
    pub(super) fn push(&mut self, candidate: usize, push: Push) {
        let (scope, now) = (self.scope.clone(), self.now);
        let Some(process) = self.candidates[candidate].process.clone() else { return };
        let key = digest(&(&process, &push, now));
        let (next_process, sent, has_ended) = scope.moves.get(key, || {
            let mut process = Process::clone(&process);
            let moved = process.on_push(&scope, now, push);
            let sent = match &moved {
                Progress::SendRequest(operation) => Some(RequestInFlight {
                    candidate,
                    sent_at: now,
                    is_awaited: true,
                    is_late: false,
                    operation: Rc::new(operation.clone()),
                    request: scope.request(candidate, operation, now),
                }),
                Progress::Waiting | Progress::Ended => None,
            };
            (Hashed::new(process), sent, matches!(moved, Progress::Ended))
        });
        if sent.is_some() || next_process.in_flight.is_none() {
            self.abandon_requests(candidate);
        }
        self.candidates[candidate].process = Some(next_process);
        self.check_process(candidate, process.turn);
        let continues_leading =
            |next_process: &Process| next_process.is_leading && !next_process.is_handing_over;
        self.note.is_failed_handover |= process.is_handing_over
            && self.processes().any(|next_process| {
                next_process.candidate == candidate && continues_leading(next_process)
            });
        if has_ended {
            self.end_process(candidate);
        }
        if let Some(sent) = sent {
            self.check_sent(&sent, process.life);
            if !self.candidates[candidate].is_cut_off {
                self.requests.push(sent);
            }
        }
        self.sort_requests();
    }

    /// Marks the requests of a process as not awaited. A read that no process awaits has no effect.
    fn abandon_requests(&mut self, candidate: usize) {
        for request in &mut self.requests {
            request.is_awaited &= request.candidate != candidate;
        }
        self.requests.retain(|request| request.is_awaited || !request.is_read());
    }

    /// Marks the requests of a process as late.
    pub(super) fn delay_requests(&mut self, candidate: usize) {
        for request in &mut self.requests {
            request.is_late |= request.candidate == candidate;
        }
        self.sort_requests();
    }

    pub(super) fn sort_requests(&mut self) {
        if self.requests.len() > 1 {
            self.requests.sort_by_cached_key(digest);
        }
    }
}
