//! Counts of faults by protocol step. Every pair of the two is possible.
//!
//! - A fault of a request counts at the step of that request. Partitions and restarts count with
//!   each request that they drop.
//! - A fault of a process counts at the last step of that process.
//! - A fault of the service counts at the last step of any candidate.
//! - A condition counts whenever a request meets it.
//! - A trait of a schedule counts whenever it makes a difference.

use std::fmt;
use std::ops::AddAssign;

use super::fault::{Fault, Kind, Step};
use super::plan::Trait;

const FAULTS: usize = Fault::ALL.len();
const STEPS: usize = Step::PROTOCOL.len() + 3;

const TRAITS: usize = Trait::ALL.len();

/// Table of faults and steps, and table of traits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    faults: [[u64; STEPS]; FAULTS],
    traits: [u64; TRAITS],
}

impl Default for Coverage {
    fn default() -> Self {
        Self { faults: [[0; STEPS]; FAULTS], traits: [0; TRAITS] }
    }
}

impl Coverage {
    /// Counts one fault at a step.
    pub fn add(&mut self, fault: Fault, step: Step) {
        self.faults[fault as usize][step as usize] += 1;
    }

    /// Counts a trait of the schedule that made a difference.
    pub fn add_trait(&mut self, feature: Trait) {
        self.traits[feature as usize] += 1;
    }

    /// Returns how often a trait made a difference.
    #[must_use]
    pub fn trait_count(&self, feature: Trait) -> u64 {
        self.traits[feature as usize]
    }

    /// Returns how often a fault occurred at a step.
    #[must_use]
    pub fn count(&self, fault: Fault, step: Step) -> u64 {
        self.faults[fault as usize][step as usize]
    }

    /// Returns how often a fault occurred at any step.
    #[must_use]
    pub fn total(&self, fault: Fault) -> u64 {
        self.faults[fault as usize].iter().sum()
    }

    /// Returns the number of all faults.
    #[must_use]
    pub fn fault_count(&self) -> u64 {
        self.faults.iter().flatten().sum()
    }

    /// Returns the number of faults at a step.
    #[must_use]
    pub fn step_total(&self, step: Step) -> u64 {
        Fault::ALL.iter().map(|fault| self.count(*fault, step)).sum()
    }

    /// Returns the pairs of a fault and a protocol step that never occurred.
    #[must_use]
    pub fn missing_pairs(&self) -> Vec<(Fault, Step)> {
        let faults = Fault::ALL.into_iter().take(Fault::AT_STEPS);
        let pairs = faults.flat_map(|f| Step::PROTOCOL.map(|s| (f, s)));
        pairs.filter(|(fault, step)| self.count(*fault, *step) == 0).collect()
    }

    /// Returns the names of conditions that never occurred, and of traits that never made a
    /// difference.
    #[must_use]
    pub fn missing_names(&self) -> Vec<&'static str> {
        let conditions = Fault::ALL.into_iter().skip(Fault::AT_STEPS);
        let missing_faults = conditions.filter(|fault| self.total(*fault) == 0).map(Fault::name);
        let missing_traits = Trait::ALL
            .into_iter()
            .filter(|feature| self.trait_count(*feature) == 0)
            .map(Trait::name);
        missing_faults.chain(missing_traits).collect()
    }
}

impl AddAssign<&Self> for Coverage {
    fn add_assign(&mut self, other: &Self) {
        let cells = self.faults.iter_mut().flatten().chain(&mut self.traits);
        for (cell, others) in cells.zip(other.faults.iter().flatten().chain(&other.traits)) {
            *cell += others;
        }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<22}", "")?;
        let steps = || Step::PROTOCOL.into_iter().chain([Step::SideBlob, Step::List, Step::Will]);
        for step in steps() {
            write!(f, " {:>9}", step.name())?;
        }
        write!(f, " {:>9}", "all")?;
        for fault in Fault::ALL {
            let mark = if fault.kind() == Kind::Outsider { "*" } else { "" };
            write!(f, "\n{:<22}", format!("{}{mark}", fault.name()))?;
            for step in steps() {
                write!(f, " {:>9}", self.count(fault, step))?;
            }
            write!(f, " {:>9}", self.total(fault))?;
        }
        for feature in Trait::ALL {
            write!(f, "\n{:<40} {:>9}", feature.name(), self.trait_count(feature))?;
        }
        Ok(())
    }
}
