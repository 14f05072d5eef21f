//! Many schedules on several threads, and the hunt for seeded bugs.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tenure_shares::mutants::Mutant;

use crate::Outcome;

/// What a number of schedules came to.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Schedules that were run.
    pub schedules: u64,
    /// Plans that were written.
    pub plans: u64,
    /// Shares that moved from members that were there.
    pub moves: u64,
    /// Virtual time, in milliseconds.
    pub lasted: u64,
    /// Schedules in which something happened that must not, the first ones.
    pub failed: Vec<Outcome>,
}

/// As many failed schedules are told.
const TOLD: usize = 5;

/// Runs `count` schedules from seed `from` on, until some have failed.
#[must_use]
pub fn run(from: u64, count: u64, threads: usize, mutant: Option<Mutant>) -> Totals {
    let next = AtomicU64::new(0);
    let totals = Mutex::new(Totals::default());
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        break;
                    }
                    let outcome = crate::run(from + index, mutant);
                    let mut totals = totals.lock().expect("no thread panics");
                    totals.add(outcome);
                    if totals.failed.len() >= TOLD {
                        next.store(count, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut totals = totals.into_inner().expect("no thread panics");
    totals.failed.sort_by_key(|outcome| outcome.seed);
    totals
}

impl Totals {
    fn add(&mut self, outcome: Outcome) {
        self.schedules += 1;
        self.plans += outcome.plans as u64;
        self.moves += outcome.moves as u64;
        self.lasted += outcome.lasted;
        if !outcome.violations.is_empty() {
            self.failed.push(outcome);
        }
    }
}

/// What came of the hunt for one seeded bug.
#[derive(Clone, Debug)]
pub struct Quarry {
    /// The bug.
    pub mutant: Mutant,
    /// How many schedules it took, from seed 0 on; none: it was not found.
    pub seeds: Option<u64>,
    /// The rules that it breaks there.
    pub broken: BTreeSet<&'static str>,
}

/// Looks for that bug in the schedules from seed 0 on, `most` at most.
#[must_use]
pub fn hunt(mutant: Mutant, most: u64) -> Quarry {
    for seed in 0..most {
        let outcome = crate::run(seed, Some(mutant));
        if !outcome.violations.is_empty() {
            let broken = outcome.violations.iter().map(|violation| violation.rule).collect();
            return Quarry { mutant, seeds: Some(seed + 1), broken };
        }
    }
    Quarry { mutant, seeds: None, broken: BTreeSet::new() }
}

/// The rules that no seeded bug was seen to break: nobody knows whether they are checked.
#[must_use]
pub fn unbroken(found: &[Quarry]) -> Vec<&'static str> {
    let broken = |rule: &&str| found.iter().any(|quarry| quarry.broken.contains(rule));
    crate::RULES.into_iter().filter(|rule| !broken(rule)).collect()
}

impl fmt::Display for Quarry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{:?}", self.mutant);
        match self.seeds {
            Some(seeds) => {
                let broken = self.broken.iter().copied().collect::<Vec<_>>();
                write!(f, "{name:<20} {seeds:>7}  {}", broken.join(" "))
            }
            None => write!(f, "{name:<20} NOT FOUND"),
        }
    }
}
