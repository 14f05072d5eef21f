//! Seeded bugs, and the number of seeds in which the simulation finds them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;
use std::thread;

use tenure_core::mutants::Mutant;

use super::{Fidelity, Options};

/// Invariants of the protocol and rules of progress; for each there must be a seeded bug that
/// breaks it.
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
const SECONDARY: [(Mutant, &str); 5] = [
    (Mutant::WorkNotStopped, "I1"),
    (Mutant::RarePolls, "I6"),
    (Mutant::LeadsBeforeFirstWrite, "I9"),
    (Mutant::HintsWithoutLimit, "hints"),
    (Mutant::StalledLeaderStays, "stalled"),
];

/// Bugs that few schedules show, and the seed at which the search for each begins.
const FIRST_SEEDS: [(Mutant, u64); 2] =
    [(Mutant::AnnouncementIsStale, 2_900), (Mutant::HandsOverThoughNotReady, 7_200)];

/// Result of the search for one seeded bug.
#[derive(Clone, Debug)]
pub struct HuntResult {
    /// Seeded bug.
    pub mutant: Mutant,
    /// Invariant that must detect the bug; `None` for any rule.
    pub expected_invariant: Option<&'static str>,
    /// First seed of the search whose schedule shows the bug; `None` if there is none within the
    /// limit.
    pub seed: Option<u64>,
    /// Rules that the bug breaks in that schedule.
    pub broken_invariants: BTreeSet<&'static str>,
}

/// Searches for seeded bugs in the schedules of the simulation, from seed 0 on, or for rare bugs
/// from a later one.
///
/// Runs at most `limit` schedules for each bug, and only bugs whose names contain `name_filter`.
#[must_use]
pub fn find_mutants(limit: u64, threads: usize, name_filter: &str) -> Vec<HuntResult> {
    let all = Mutant::ALL.iter().map(|mutant| (*mutant, None));
    let secondary = SECONDARY.iter().map(|(mutant, rule)| (*mutant, Some(*rule)));
    let selected =
        all.chain(secondary).filter(|(mutant, _)| format!("{mutant:?}").contains(name_filter));
    let waiting = Mutex::new(selected.enumerate());
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().expect("no hunter panics").next();
                    let Some((index, (mutant, expected))) = next else { break };
                    let result = find_mutant(mutant, expected, limit);
                    results.lock().expect("no hunter panics").push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no hunter panics");
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Returns the bug of this name in the code.
///
/// # Errors
/// If no bug has this name; the message lists all names.
pub fn parse_mutant(name: &str) -> Result<Mutant, String> {
    let found = Mutant::ALL.into_iter().find(|mutant| format!("{mutant:?}") == name);
    found.ok_or_else(|| format!("expected one of {:?}", Mutant::ALL))
}

fn find_mutant(mutant: Mutant, expected: Option<&'static str>, limit: u64) -> HuntResult {
    let options = Options { mutant: Some(mutant), ..Fidelity::Native.into() };
    let rare_bug = FIRST_SEEDS.into_iter().find(|(rare, _)| *rare == mutant);
    let first_seed = rare_bug.map_or(0, |(_, seed)| seed);
    for seed in first_seed..first_seed + limit {
        let violations = super::run(seed, &options).violations;
        let broken_invariants: BTreeSet<_> =
            violations.iter().map(|violation| violation.invariant).collect();
        let is_found = expected
            .map_or(!broken_invariants.is_empty(), |expected| broken_invariants.contains(expected));
        if is_found {
            return HuntResult {
                mutant,
                expected_invariant: expected,
                seed: Some(seed),
                broken_invariants,
            };
        }
    }
    HuntResult {
        mutant,
        expected_invariant: expected,
        seed: None,
        broken_invariants: BTreeSet::new(),
    }
}

/// Returns the invariants that no seeded bug broke, so that their checks are unproven.
#[must_use]
pub fn unbroken_invariants(results: &[HuntResult]) -> Vec<&'static str> {
    let broken_invariants: BTreeSet<_> =
        results.iter().flat_map(|result| result.broken_invariants.iter()).collect();
    INVARIANTS.into_iter().filter(|invariant| !broken_invariants.contains(invariant)).collect()
}

impl fmt::Display for HuntResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name = format!("{:?}", self.mutant);
        if let Some(expected) = self.expected_invariant {
            name += &format!(", {expected}");
        }
        match self.seed {
            Some(seed) => {
                let broken_invariants: Vec<_> = self.broken_invariants.iter().copied().collect();
                write!(f, "{name:<27} {seed:>7}  {}", broken_invariants.join(" "))
            }
            None => write!(f, "{name:<27} NOT FOUND"),
        }
    }
}
