//! Exchanges with the store, and their reports to the oracle.

use tenure_azure::{LeaseId, Operation};
use tenure_store::Service;

use super::hashed::{Hashed, digest};
use super::oracle::{Oracle, Violation, Work};
use super::process::{Process, Turn};
use super::state::{RequestInFlight, State};
use super::step::Reply;
use super::time::{Instant, service_time};

impl State {
    /// Passes a request to the store, and returns its reply.
    pub(super) fn handle(&mut self, request: &RequestInFlight) -> Reply {
        let key = digest(&(&self.service, self.write_count, &request.request, self.now));
        let (service, reply) = self.scope.answers.get(key, || {
            let mut service = Service::clone(&self.service);
            service.reset(self.write_count + 1);
            let answer = service.handle(service_time(self.now), &request.request);
            let digest = service.fingerprint();
            (Hashed::with_digest(service, digest), Hashed::new((answer.status, answer.headers)))
        });
        self.service = service;
        if reply.0 < 300 {
            self.on_accepted(request);
        }
        reply
    }

    fn on_accepted(&mut self, request: &RequestInFlight) {
        use Operation::{
            Acquire, Break, Change, CreateBlob, CreateContainer, Release, Renew, WriteMetadata,
            WriteSideBlob,
        };
        match &*request.operation {
            CreateContainer | CreateBlob | WriteSideBlob { .. } => self.write_count += 1,
            Acquire { lease, .. } | Renew { lease } => {
                self.first_leader.get_or_insert(request.candidate);
                let lease_end = self.now + self.scope.lease_duration(request.candidate);
                self.oracle.on_lease_granted(*lease, request.sent_at, lease_end);
            }
            Break { .. } => {
                self.note.is_break = true;
                let working = self.working_handlers();
                let result = self.oracle.on_lease_broken(request.candidate, &working);
                self.check(result);
            }
            Release { .. } => self.oracle.on_lease_released(),
            Change { proposed: to, .. } => {
                self.note.is_handover = true;
                self.oracle.on_lease_changed(*to);
            }
            WriteMetadata { lease, metadata, .. } => {
                self.write_count += 1;
                let field = |name| metadata.get(name).unwrap_or_default();
                let term = field("tenureterm").parse().unwrap_or(0);
                let nonce = u64::from_str_radix(field("tenurenonce"), 16).unwrap_or(0);
                let won = self.oracle.on_record_written(*lease, term, nonce);
                self.note.is_takeover = won == Ok(true);
                self.check(won.map(|_| ()));
                if self.scope.validity(request.candidate).beat.is_some() {
                    self.oracle.on_beat(*lease, request.sent_at);
                }
            }
            _ => {}
        }
    }

    /// Checks an outgoing request.
    pub(super) fn check_sent(&mut self, request: &RequestInFlight, life: u8) {
        if let Some(lease) = lease_of(&request.operation) {
            self.check(Oracle::check_lease_owner(request.candidate, life, lease));
        }
        let gives_lease_up =
            matches!(&*request.operation, Operation::Release { .. } | Operation::Change { .. });
        let process = self.processes().find(|process| process.candidate == request.candidate);
        if let (true, Some(turn)) = (gives_lease_up, process.and_then(|process| process.turn)) {
            self.check(Err(Oracle::release_during_turn(request.candidate, turn.term)));
        }
    }

    /// Checks a process after its own actions.
    pub(super) fn check_process(&mut self, candidate: usize, before: Option<Turn>) {
        let Some(process) = self.candidates[candidate].process.clone() else { return };
        if let Some(Turn { slot, .. }) = process.turn.filter(|turn| {
            before.is_none_or(|before| (before.term, before.slot) != (turn.term, turn.slot))
        }) {
            let result = self.oracle.check_turn(candidate, slot);
            self.check(result);
        }
        if process.in_flight.is_none() && process.leaving.is_none() {
            self.check(Oracle::check_idle(candidate, self.now, process.next_step_at));
        }
    }

    fn check(&mut self, result: Result<(), Violation>) {
        if let Err(violation) = result {
            let is_selected =
                self.scope.only_invariant.is_none_or(|only| only == violation.invariant);
            self.violation = self.violation.take().or(is_selected.then_some(violation));
        }
    }

    /// Returns the handlers that work now.
    fn working_handlers(&self) -> Vec<Work> {
        let working = self.processes().filter(|process| process.is_working());
        let work = |process: &Process| {
            process.turn.map(|turn| Work { candidate: process.candidate, term: turn.term })
        };
        working.filter_map(work).collect()
    }

    /// Checks the handlers that have not stopped before `now` and work then.
    pub(super) fn check_work(&mut self, now: Instant) {
        let working = self.working_handlers();
        let scope = self.scope.clone();
        for violation in
            self.oracle.check_work(&working, now, |work| scope.validity(work.candidate))
        {
            self.check(Err(violation));
        }
        let turns = self.processes().filter_map(|process| process.turn);
        let terms: Vec<_> = turns.map(|turn| turn.term).collect();
        self.oracle.forget(&terms);
    }
}

/// Returns the lease id that a request uses.
fn lease_of(operation: &Operation) -> Option<LeaseId> {
    match operation {
        Operation::Read { lease } => *lease,
        Operation::Acquire { lease, .. }
        | Operation::Renew { lease }
        | Operation::Release { lease }
        | Operation::Change { lease, .. }
        | Operation::WriteMetadata { lease, .. } => Some(*lease),
        _ => None,
    }
}
