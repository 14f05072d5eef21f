//! Which fault struck at which step, and how often. No pair of the two is impossible.
//!
//! A fault of a request counts at the step of that request, as a partition or a restart of the
//! store does with each request that it swallows; a fault of a process at the step where that one
//! was last, and a fault of the service where anybody was.

use std::fmt;
use std::ops::AddAssign;

use super::fault::{Fault, Kind, Step};

const FAULTS: usize = Fault::ALL.len();
const STEPS: usize = Step::PROTOCOL.len() + 1;

/// A table of faults and steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage([[u64; STEPS]; FAULTS]);

impl Default for Coverage {
    fn default() -> Self {
        Self([[0; STEPS]; FAULTS])
    }
}

impl Coverage {
    /// Counts one.
    pub fn add(&mut self, fault: Fault, step: Step) {
        self.0[fault as usize][step as usize] += 1;
    }

    /// How often.
    #[must_use]
    pub fn of(&self, fault: Fault, step: Step) -> u64 {
        self.0[fault as usize][step as usize]
    }

    /// How often a fault struck anywhere.
    #[must_use]
    pub fn total(&self, fault: Fault) -> u64 {
        self.0[fault as usize].iter().sum()
    }

    /// How often anything struck.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.0.iter().flatten().sum()
    }

    /// How many of them struck at a step.
    #[must_use]
    pub fn at(&self, step: Step) -> u64 {
        Fault::ALL.iter().map(|fault| self.of(*fault, step)).sum()
    }

    /// Pairs of a fault and a step of the protocol that were never seen.
    #[must_use]
    pub fn empty(&self) -> Vec<(Fault, Step)> {
        let pairs = Fault::ALL.into_iter().flat_map(|f| Step::PROTOCOL.map(|s| (f, s)));
        pairs.filter(|(fault, step)| self.of(*fault, *step) == 0).collect()
    }
}

impl AddAssign<&Self> for Coverage {
    fn add_assign(&mut self, other: &Self) {
        for (row, others) in self.0.iter_mut().zip(&other.0) {
            for (cell, others) in row.iter_mut().zip(others) {
                *cell += others;
            }
        }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<22}", "")?;
        let steps = || Step::PROTOCOL.into_iter().chain([Step::Notice]);
        for step in steps() {
            write!(f, " {:>9}", step.name())?;
        }
        write!(f, " {:>9}", "all")?;
        for fault in Fault::ALL {
            let mark = if fault.kind() == Kind::Outsider { "*" } else { "" };
            write!(f, "\n{:<22}", format!("{}{mark}", fault.name()))?;
            for step in steps() {
                write!(f, " {:>9}", self.of(fault, step))?;
            }
            write!(f, " {:>9}", self.total(fault))?;
        }
        Ok(())
    }
}
