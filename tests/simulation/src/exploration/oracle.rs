//! Oracle of an exploration.
//!
//! It sees accepted writes, the work of handlers and outgoing requests, but never what a candidate
//! believes.

use std::fmt;

use tenure_azure::LeaseId;

use super::draws::created_lease;
use super::time::Instant;

/// The longest of poll and renewal, plus a request's timeout and an instant.
const MAX_IDLE: Instant = 4 + 3 + 2;

/// Invariants that must hold in every state (protocol.md §12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// Handlers of two terms never work at the same time.
    I1,
    /// Terms rise with every win.
    I2,
    /// No handler works when its lease may have expired.
    I3,
    /// A lease is released, or given to a successor, only after the handler has stopped.
    I4,
    /// No slot has two turns.
    I5,
    /// No event makes a candidate stop contending.
    I7,
    /// A candidate only uses lease ids that it generated.
    I8,
    /// A candidate works only after a write under its lease is recorded, and no lease is broken
    /// while its holder works.
    I9,
}

/// Violation of an invariant, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Violated invariant.
    pub invariant: Invariant,
    reason: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is broken: {}", self.invariant, self.reason)
    }
}

/// A handler that works at this instant.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Candidate of the handler.
    pub candidate: usize,
    /// Term of the work.
    pub term: u64,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "candidate {} works under term {}", self.candidate, self.term)
    }
}

/// State of the oracle.
#[derive(Clone, Debug, Default, Hash)]
pub struct Oracle {
    /// Newest win.
    last_win: Option<Win>,
    /// Grants of the newest lease, and of the leases under whose terms a handler runs.
    grants: Vec<Grant>,
    /// Newest slot that had a turn.
    last_slot: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Win {
    term: u64,
    nonce: u64,
}

/// Time that a leader may act after it sent a request that the store accepted.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    /// Time after an acquire or a renewal.
    pub lease: Instant,
    /// Time after a record write, if the leader beats.
    pub beat: Option<Instant>,
}

#[derive(Clone, Debug, Hash)]
struct Grant {
    lease: LeaseId,
    /// Send time of the newest accepted acquire or renewal; `None` since the lease was given to a
    /// successor.
    sent: Option<Instant>,
    /// Send time of the newest accepted record write under the lease, if its holder beats.
    beat: Option<Instant>,
    /// End of the lease at the store, unless the store has accepted another lease since.
    lease_end: Option<Instant>,
    /// Term that was raised under the lease.
    term: Option<u64>,
}

impl Grant {
    fn valid_until(&self, validity: Validity) -> Instant {
        let lease_end = self.sent.map_or(0, |sent| sent + validity.lease);
        let beat_end = validity.beat.map(|beat| self.beat.map_or(0, |sent| sent + beat));
        lease_end.min(beat_end.unwrap_or(Instant::MAX))
    }
}

impl Oracle {
    /// Handles an accepted acquire or renewal that was sent at `sent`. The store holds the lease
    /// until `lease_end`.
    pub fn on_lease_granted(&mut self, lease: LeaseId, sent: Instant, lease_end: Instant) {
        self.on_lease_released();
        let index = self.grants.iter().position(|grant| grant.lease == lease);
        let index = index.unwrap_or_else(|| {
            self.grants.push(Grant { lease, sent: None, beat: None, lease_end: None, term: None });
            self.grants.len() - 1
        });
        let grant = &mut self.grants[index];
        grant.sent = grant.sent.max(Some(sent));
        grant.lease_end = Some(lease_end);
    }

    /// Handles an accepted release.
    pub fn on_lease_released(&mut self) {
        self.grants.iter_mut().for_each(|grant| grant.lease_end = None);
    }

    /// Handles a change of the lease to another id. No candidate may act on that id before it is
    /// renewed.
    pub fn on_lease_changed(&mut self, to: LeaseId) {
        let is_current = |grant: &Grant| grant.lease == to && grant.lease_end.is_some();
        if self.grants.iter().any(is_current) {
            return; // The same request once more.
        }
        let lease_end = self.lease_ends();
        self.on_lease_released();
        self.grants.push(Grant { lease: to, sent: None, beat: None, lease_end, term: None });
    }

    /// Handles a break of the lease for a candidate, while these handlers work.
    ///
    /// # Errors
    /// I9: the holder's handler works.
    pub fn on_lease_broken(&mut self, breaker: usize, at_work: &[Work]) -> Result<(), Violation> {
        let current = self.grants.iter().find(|grant| grant.lease_end.is_some());
        let term = current.and_then(|grant| grant.term);
        let working = at_work.iter().find(|work| Some(work.term) == term);
        self.on_lease_released();
        working.map_or(Ok(()), |work| {
            let reason = format!("candidate {breaker} breaks the lease by which {work}");
            Err(violation(Invariant::I9, reason))
        })
    }

    /// Handles an accepted write under a lease whose holder beats, sent at `sent`.
    pub fn on_beat(&mut self, lease: LeaseId, sent: Instant) {
        if let Some(grant) = self.grants.iter_mut().find(|grant| grant.lease == lease) {
            grant.beat = grant.beat.max(Some(sent));
        }
    }

    /// Handles an accepted record of this term. Returns true if it won the term after an earlier
    /// one.
    ///
    /// # Errors
    /// I2: the term was won although it does not rise.
    pub fn on_record_written(
        &mut self,
        lease: LeaseId,
        term: u64,
        nonce: u64,
    ) -> Result<bool, Violation> {
        let win = Win { term, nonce };
        if self.last_win.as_ref() == Some(&win) {
            return Ok(false);
        }
        if let Some(grant) = self.grants.iter_mut().find(|grant| grant.lease == lease) {
            grant.term = Some(term);
        }
        match self.last_win.replace(win) {
            Some(previous) if term <= previous.term => {
                let reason = format!("term {term} was won after term {}", previous.term);
                Err(violation(Invariant::I2, reason))
            }
            previous => Ok(previous.is_some()),
        }
    }

    /// Checks the handlers that work at `now`.
    ///
    /// Two handlers violate I1. A handler whose validity has ended violates I3. A handler under a
    /// lease without a recorded write violates I9.
    pub fn check_work(
        &self,
        at_work: &[Work],
        now: Instant,
        validity: impl Fn(&Work) -> Validity,
    ) -> Vec<Violation> {
        let mut violations = Vec::new();
        if let [first, second, ..] = at_work {
            let reason = format!("at {now} s {first} and {second}");
            violations.push(violation(Invariant::I1, reason));
        }
        for work in at_work {
            let grant = self.grants.iter().find(|grant| grant.term == Some(work.term));
            if grant.is_none() {
                let reason = format!("at {now} s {work}, which is not on record");
                violations.push(violation(Invariant::I9, reason));
            }
            let until = grant.map_or(0, |grant| grant.valid_until(validity(work)));
            if now >= until {
                let reason = format!("at {now} s {work}, whose validity ended at {until} s");
                violations.push(violation(Invariant::I3, reason));
            }
        }
        violations
    }

    /// Handles the turn of a process.
    ///
    /// # Errors
    /// I5: its slot had a turn before.
    pub fn check_turn(&mut self, candidate: usize, slot: u64) -> Result<(), Violation> {
        match self.last_slot.replace(slot) {
            Some(previous) if slot <= previous => {
                let reason =
                    format!("candidate {candidate} runs slot {slot} after slot {previous}");
                Err(violation(Invariant::I5, reason))
            }
            _ => Ok(()),
        }
    }

    /// Returns the violation of a lease that is given away during a turn.
    pub fn release_during_turn(candidate: usize, term: u64) -> Violation {
        let reason = format!("candidate {candidate} gives its lease away in a turn of term {term}");
        violation(Invariant::I4, reason)
    }

    /// Checks that a process acts again by `next`.
    ///
    /// # Errors
    /// I7: that is longer than any poll plus a request.
    pub fn check_idle(candidate: usize, now: Instant, next: Instant) -> Result<(), Violation> {
        match next > now + MAX_IDLE {
            true => {
                let reason = format!("candidate {candidate} does nothing from {now} s to {next} s");
                Err(violation(Invariant::I7, reason))
            }
            false => Ok(()),
        }
    }

    /// Checks the lease id of an outgoing request.
    ///
    /// # Errors
    /// I8: the id belongs to another candidate.
    pub fn check_lease_owner(candidate: usize, life: u8, lease: LeaseId) -> Result<(), Violation> {
        match created_lease(candidate, life, lease) {
            true => Ok(()),
            false => Err(violation(
                Invariant::I8,
                format!("candidate {candidate} in its life {life} sends {lease}"),
            )),
        }
    }

    /// Returns the end of the lease at the store, if it is held.
    pub fn lease_ends(&self) -> Option<Instant> {
        self.grants.iter().find_map(|grant| grant.lease_end)
    }

    /// Drops state that no longer matters, given the terms of all running handlers.
    pub fn forget(&mut self, terms: &[u64]) {
        self.grants.retain(|grant| {
            grant.lease_end.is_some() || grant.term.is_some_and(|term| terms.contains(&term))
        });
        self.grants.sort_by_key(|grant| (grant.sent, grant.term));
    }
}

fn violation(invariant: Invariant, reason: String) -> Violation {
    Violation { invariant, reason }
}
