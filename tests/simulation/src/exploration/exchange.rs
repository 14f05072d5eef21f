//! The store handles requests, and the oracle hears of all that it should.

use tenure_azure::{LeaseId, Operation};
use tenure_store::Service;

use super::known::{Known, digest};
use super::oracle::{Oracle, Violation, Work};
use super::process::{Process, Turn};
use super::state::{Sent, State};
use super::step::Reply;
use super::time::{Instant, at_service};

impl State {
    /// The store handles a request.
    pub(super) fn handle(&mut self, sent: &Sent) -> Reply {
        let given = digest(&(&self.service, self.writes, &sent.request, self.now));
        let (service, reply) = self.scope.answers.get(given, || {
            let mut service = Service::clone(&self.service);
            service.forget(self.writes + 1);
            let answer = service.handle(at_service(self.now), &sent.request);
            let digest = service.fingerprint();
            (Known::by(service, digest), Known::new((answer.status, answer.headers)))
        });
        self.service = service;
        if reply.0 < 300 {
            self.accepted(sent);
        }
        reply
    }

    fn accepted(&mut self, sent: &Sent) {
        use Operation::{
            Acquire, Break, Change, CreateBlob, CreateContainer, Release, Renew, WriteMetadata,
            WriteSideBlob,
        };
        match &*sent.operation {
            CreateContainer | CreateBlob | WriteSideBlob { .. } => self.writes += 1,
            Acquire { lease, .. } | Renew { lease } => {
                self.first.get_or_insert(sent.from);
                let ends = self.now + self.scope.held(sent.from);
                self.oracle.granted(*lease, sent.at, ends);
            }
            Break { .. } => {
                self.note.broken = true;
                let works = self.works();
                let judged = self.oracle.broken(sent.from, &works);
                self.judge(judged);
            }
            Release { .. } => self.oracle.ended(),
            Change { to, .. } => {
                self.note.handed_over = true;
                self.oracle.changed(*to);
            }
            WriteMetadata { lease, metadata, .. } => {
                self.writes += 1;
                let field = |name| metadata.get(name).unwrap_or_default();
                let term = field("tenureterm").parse().unwrap_or(0);
                let nonce = u64::from_str_radix(field("tenurenonce"), 16).unwrap_or(0);
                let won = self.oracle.recorded(*lease, term, nonce);
                self.note.take_over = won == Ok(true);
                self.judge(won.map(|_| ()));
                if self.scope.validity(sent.from).beat.is_some() {
                    self.oracle.beaten(*lease, sent.at);
                }
            }
            _ => {}
        }
    }

    /// A request goes out.
    pub(super) fn judge_sent(&mut self, sent: &Sent, life: u8) {
        if let Some(lease) = lease_of(&sent.operation) {
            self.judge(Oracle::sends(sent.from, life, lease));
        }
        let gives =
            matches!(&*sent.operation, Operation::Release { .. } | Operation::Change { .. });
        let turn = self.processes().find(|process| process.candidate == sent.from);
        if let (true, Some(turn)) = (gives, turn.and_then(|process| process.turn)) {
            self.judge(Err(Oracle::gives_back(sent.from, turn.term)));
        }
    }

    /// What a process did by itself.
    pub(super) fn judge_process(&mut self, candidate: usize, before: Option<Turn>) {
        let Some(process) = self.candidates[candidate].process.clone() else { return };
        if let Some(Turn { slot, .. }) = process.turn.filter(|turn| {
            before.is_none_or(|before| (before.term, before.slot) != (turn.term, turn.slot))
        }) {
            let judged = self.oracle.runs(candidate, slot);
            self.judge(judged);
        }
        if process.flight.is_none() && process.leaving.is_none() {
            self.judge(Oracle::rests(candidate, self.now, process.next));
        }
    }

    fn judge(&mut self, judged: Result<(), Violation>) {
        if let Err(violation) = judged {
            let counts = self.scope.only.is_none_or(|only| only == violation.invariant);
            self.broken = self.broken.take().or(counts.then_some(violation));
        }
    }

    /// The handlers that work now.
    fn works(&self) -> Vec<Work> {
        let working = self.processes().filter(|process| process.works());
        let work = |process: &Process| {
            process.turn.map(|turn| Work { candidate: process.candidate, term: turn.term })
        };
        working.filter_map(work).collect()
    }

    /// Handlers have not stopped up to `now`, and work then.
    pub(super) fn judge_work(&mut self, now: Instant) {
        let works = self.works();
        let scope = self.scope.clone();
        for violation in self.oracle.worked(&works, now, |work| scope.validity(work.candidate)) {
            self.judge(Err(violation));
        }
        let turns = self.processes().filter_map(|process| process.turn);
        let terms: Vec<_> = turns.map(|turn| turn.term).collect();
        self.oracle.forget(&terms);
    }
}

/// The lease id that a request acts on.
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
