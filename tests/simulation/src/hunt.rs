//! Seeded bugs, and how soon the simulation finds them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;
use std::thread;

use tenure_core::mutants::Mutant;

use super::{Fidelity, Options};

/// The invariants of the protocol, and the rules of progress: each of them some seeded bug must break.
pub const INVARIANTS: [&str; 23] = [
    "I1",
    "I2",
    "I3",
    "I4",
    "I5",
    "I6",
    "I7",
    "I8",
    "I9",
    "claim",
    "cool-down",
    "outcome",
    "outcomes",
    "stalled",
    "turn",
    "versions",
    "give back",
    "hand over",
    "hint",
    "hints",
    "list",
    "transfer",
    "trigger",
];

/// Invariants that a bug breaks, but seldom before another one.
const LATER: [(Mutant, &str); 4] = [
    (Mutant::WorkNotStopped, "I1"),
    (Mutant::RarePolls, "I6"),
    (Mutant::LeadsBeforeFirstWrite, "I9"),
    (Mutant::HintsWithoutLimit, "hints"),
];

/// What came of the hunt for one seeded bug.
#[derive(Clone, Debug)]
pub struct Quarry {
    /// The bug.
    pub mutant: Mutant,
    /// The invariant that it was to be caught by; none: any rule.
    pub by: Option<&'static str>,
    /// The first seed, from 0 on, whose schedule shows it; none within the limit.
    pub seed: Option<u64>,
    /// The rules that it breaks there.
    pub broken: BTreeSet<&'static str>,
}

/// Looks for seeded bugs in the schedules that the simulation runs, from seed 0 on and in at
/// most `most` for each: for all of them, or for those with that in their names.
#[must_use]
pub fn hunt(most: u64, threads: usize, only: &str) -> Vec<Quarry> {
    let all = Mutant::ALL.iter().map(|mutant| (*mutant, None));
    let later = LATER.iter().map(|(mutant, rule)| (*mutant, Some(*rule)));
    let wanted = all.chain(later).filter(|(mutant, _)| format!("{mutant:?}").contains(only));
    let waiting = Mutex::new(wanted.enumerate());
    let found = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().expect("no hunter panics").next();
                    let Some((place, (mutant, by))) = next else { break };
                    let quarry = hunt_one(mutant, by, most);
                    found.lock().expect("no hunter panics").push((place, quarry));
                }
            });
        }
    });
    let mut found = found.into_inner().expect("no hunter panics");
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, quarry)| quarry).collect()
}

/// The bug of that name in the code.
///
/// # Errors
/// There is none; the message has the names of all.
pub fn named(name: &str) -> Result<Mutant, String> {
    let named = Mutant::ALL.into_iter().find(|mutant| format!("{mutant:?}") == name);
    named.ok_or_else(|| format!("known ones are {:?}", Mutant::ALL))
}

fn hunt_one(mutant: Mutant, by: Option<&'static str>, most: u64) -> Quarry {
    let options = Options { mutant: Some(mutant), ..Fidelity::Native.into() };
    for seed in 0..most {
        let violations = super::run(seed, &options).violations;
        let broken: BTreeSet<_> = violations.iter().map(|violation| violation.invariant).collect();
        let caught = by.map_or(!broken.is_empty(), |by| broken.contains(by));
        if caught {
            return Quarry { mutant, by, seed: Some(seed), broken };
        }
    }
    Quarry { mutant, by, seed: None, broken: BTreeSet::new() }
}

/// The invariants that no seeded bug was seen to break: nobody knows whether they are checked.
#[must_use]
pub fn unbroken(found: &[Quarry]) -> Vec<&'static str> {
    let broken: BTreeSet<_> = found.iter().flat_map(|quarry| quarry.broken.iter()).collect();
    INVARIANTS.into_iter().filter(|invariant| !broken.contains(invariant)).collect()
}

impl fmt::Display for Quarry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name = format!("{:?}", self.mutant);
        if let Some(by) = self.by {
            name += &format!(", {by}");
        }
        match self.seed {
            Some(seed) => {
                let broken: Vec<_> = self.broken.iter().copied().collect();
                write!(f, "{name:<27} {:>7}  {}", seed + 1, broken.join(" "))
            }
            None => write!(f, "{name:<27} NOT FOUND"),
        }
    }
}
