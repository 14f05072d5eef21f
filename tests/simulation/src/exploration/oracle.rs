//! The judge. It sees what the store took, what handlers do and what goes out; never what a
//! candidate believes.

use std::fmt;

use tenure_azure::LeaseId;

use super::chance::owns;
use super::time::Instant;

/// The longest of poll and renewal, a request's time-out, and an instant.
const REST: Instant = 4 + 3 + 2;

/// What must hold in every state; protocol.md §12.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// Handlers of two terms never work at the same time.
    I1,
    /// Terms rise with every win.
    I2,
    /// No handler works when its lease may have run out.
    I3,
    /// A lease is given back, or to a successor, only after the handler was seen stopped.
    I4,
    /// No slot has two turns.
    I5,
    /// Nothing makes a candidate stop contending.
    I7,
    /// Nobody acts on a lease id that is not its own.
    I8,
    /// Nobody works under a lease before a write under it is on record, and no lease is broken whose holder works.
    I9,
}

/// An invariant that does not hold, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: Invariant,
    why: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is broken: {}", self.invariant, self.why)
    }
}

/// A handler that works at this instant.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Whose it is.
    pub candidate: usize,
    /// The term that it works under.
    pub term: u64,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "candidate {} works under term {}", self.candidate, self.term)
    }
}

/// What the judge has to remember.
#[derive(Clone, Debug, Default, Hash)]
pub struct Oracle {
    /// The newest win.
    won: Option<Win>,
    /// Of the lease that was granted last, and of those under whose term a handler runs.
    grants: Vec<Grant>,
    /// The newest slot that had a turn.
    ran: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Win {
    term: u64,
    nonce: u64,
}

/// How long a leader may act after it sent a request that the store accepted.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    /// After an acquire or a renewal.
    pub lease: Instant,
    /// After a write of the record, where it beats.
    pub beat: Option<Instant>,
}

#[derive(Clone, Debug, Hash)]
struct Grant {
    lease: LeaseId,
    /// When the newest acquire or renew that the store accepted was sent; none since it was given to
    /// a successor.
    sent: Option<Instant>,
    /// When the newest write of the record under it was sent that the store accepted, where its holder beats.
    beat: Option<Instant>,
    /// When it is over at the store, which has not accepted another one's since.
    ends: Option<Instant>,
    /// The term that was raised under it.
    term: Option<u64>,
}

impl Grant {
    fn valid_until(&self, validity: Validity) -> Instant {
        let by_lease = self.sent.map_or(0, |sent| sent + validity.lease);
        let by_beat = validity.beat.map(|beat| self.beat.map_or(0, |sent| sent + beat));
        by_lease.min(by_beat.unwrap_or(Instant::MAX))
    }
}

impl Oracle {
    /// The store accepted an acquire or a renew that was sent at `sent`, and holds the lease until `ends`.
    pub fn granted(&mut self, lease: LeaseId, sent: Instant, ends: Instant) {
        self.ended();
        let place = self.grants.iter().position(|grant| grant.lease == lease);
        let place = place.unwrap_or_else(|| {
            self.grants.push(Grant { lease, sent: None, beat: None, ends: None, term: None });
            self.grants.len() - 1
        });
        let grant = &mut self.grants[place];
        grant.sent = grant.sent.max(Some(sent));
        grant.ends = Some(ends);
    }

    /// The store accepted a release.
    pub fn ended(&mut self) {
        self.grants.iter_mut().for_each(|grant| grant.ends = None);
    }

    /// The store gave the lease to another id. Nobody may act on that before it was renewed.
    pub fn changed(&mut self, to: LeaseId) {
        let holds = |grant: &Grant| grant.lease == to && grant.ends.is_some();
        if self.grants.iter().any(holds) {
            return; // The same request once more.
        }
        let ends = self.lease_ends();
        self.ended();
        self.grants.push(Grant { lease: to, sent: None, beat: None, ends, term: None });
    }

    /// The store broke the lease for a candidate, while these handlers work.
    ///
    /// # Errors
    /// I9: that of its holder is among them.
    pub fn broken(&mut self, by: usize, works: &[Work]) -> Result<(), Violation> {
        let held = self.grants.iter().find(|grant| grant.ends.is_some());
        let term = held.and_then(|grant| grant.term);
        let working = works.iter().find(|work| Some(work.term) == term);
        self.ended();
        working.map_or(Ok(()), |work| {
            let why = format!("candidate {by} breaks the lease by which {work}");
            Err(broken(Invariant::I9, why))
        })
    }

    /// The store accepted a write under a lease whose holder beats, which was sent at `sent`.
    pub fn beaten(&mut self, lease: LeaseId, sent: Instant) {
        if let Some(grant) = self.grants.iter_mut().find(|grant| grant.lease == lease) {
            grant.beat = grant.beat.max(Some(sent));
        }
    }

    /// The store accepted a record of this term. Returns whether it was won by that, after another.
    ///
    /// # Errors
    /// I2: the term was won although it does not rise.
    pub fn recorded(&mut self, lease: LeaseId, term: u64, nonce: u64) -> Result<bool, Violation> {
        let win = Win { term, nonce };
        if self.won.as_ref() == Some(&win) {
            return Ok(false);
        }
        if let Some(grant) = self.grants.iter_mut().find(|grant| grant.lease == lease) {
            grant.term = Some(term);
        }
        match self.won.replace(win) {
            Some(before) if term <= before.term => {
                let why = format!("term {term} was won after term {}", before.term);
                Err(broken(Invariant::I2, why))
            }
            before => Ok(before.is_some()),
        }
    }

    /// Handlers that work at `now`. Broken is I1 by two of them, I3 by one whose validity has ended, and I9
    /// by one under whose lease nothing is on record.
    pub fn worked(
        &self,
        works: &[Work],
        now: Instant,
        validity: impl Fn(&Work) -> Validity,
    ) -> Vec<Violation> {
        let mut violations = Vec::new();
        if let [one, other, ..] = works {
            let why = format!("at {now} s {one} and {other}");
            violations.push(broken(Invariant::I1, why));
        }
        for work in works {
            let grant = self.grants.iter().find(|grant| grant.term == Some(work.term));
            if grant.is_none() {
                let why = format!("at {now} s {work}, which is not on record");
                violations.push(broken(Invariant::I9, why));
            }
            let until = grant.map_or(0, |grant| grant.valid_until(validity(work)));
            if now >= until {
                let why = format!("at {now} s {work}, whose validity ended at {until} s");
                violations.push(broken(Invariant::I3, why));
            }
        }
        violations
    }

    /// A process runs a turn.
    ///
    /// # Errors
    /// I5: its slot had a turn before.
    pub fn runs(&mut self, candidate: usize, slot: u64) -> Result<(), Violation> {
        match self.ran.replace(slot) {
            Some(before) if slot <= before => {
                let why = format!("candidate {candidate} runs slot {slot} after slot {before}");
                Err(broken(Invariant::I5, why))
            }
            _ => Ok(()),
        }
    }

    /// A lease is given away while a turn runs.
    pub fn gives_back(candidate: usize, term: u64) -> Violation {
        let why = format!("candidate {candidate} gives its lease away in a turn of term {term}");
        broken(Invariant::I4, why)
    }

    /// A process does nothing until `next`.
    ///
    /// # Errors
    /// I7: that is longer than any poll, and a request.
    pub fn rests(candidate: usize, now: Instant, next: Instant) -> Result<(), Violation> {
        match next > now + REST {
            true => {
                let why = format!("candidate {candidate} does nothing from {now} s to {next} s");
                Err(broken(Invariant::I7, why))
            }
            false => Ok(()),
        }
    }

    /// A request goes out that names a lease id.
    ///
    /// # Errors
    /// I8: the id is another's.
    pub fn sends(candidate: usize, life: u8, lease: LeaseId) -> Result<(), Violation> {
        match owns(candidate, life, lease) {
            true => Ok(()),
            false => Err(broken(
                Invariant::I8,
                format!("candidate {candidate} in its life {life} sends {lease}"),
            )),
        }
    }

    /// When the lease ends at the store, if it is held.
    pub fn lease_ends(&self) -> Option<Instant> {
        self.grants.iter().find_map(|grant| grant.ends)
    }

    /// Forgets what cannot matter any more, given the terms of all handlers that run.
    pub fn forget(&mut self, terms: &[u64]) {
        self.grants.retain(|grant| {
            grant.ends.is_some() || grant.term.is_some_and(|term| terms.contains(&term))
        });
        self.grants.sort_by_key(|grant| (grant.sent, grant.term));
    }
}

fn broken(invariant: Invariant, why: String) -> Violation {
    Violation { invariant, why }
}
