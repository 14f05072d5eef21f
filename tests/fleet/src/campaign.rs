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
    pub plan_count: u64,
    /// Shares that moved from members that were there.
    pub move_count: u64,
    /// Virtual time, in milliseconds.
    pub virtual_ms: u64,
    /// Schedules in which something happened that must not, the first ones.
    pub failures: Vec<Outcome>,
}

/// As many failed schedules are told.
const MAX_FAILURES: usize = 5;

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
                    if totals.failures.len() >= MAX_FAILURES {
                        next.store(count, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut totals = totals.into_inner().expect("no thread panics");
    totals.failures.sort_by_key(|outcome| outcome.seed);
    totals
}

impl Totals {
    fn add(&mut self, outcome: Outcome) {
        self.schedules += 1;
        self.plan_count += outcome.plan_count as u64;
        self.move_count += outcome.move_count as u64;
        self.virtual_ms += outcome.virtual_ms;
        if !outcome.violations.is_empty() {
            self.failures.push(outcome);
        }
    }
}

/// What came of the hunt for one seeded bug.
#[derive(Clone, Debug)]
pub struct HuntResult {
    /// The bug.
    pub mutant: Mutant,
    /// How many schedules it took, from seed 0 on; none: it was not found.
    pub schedules_needed: Option<u64>,
    /// The rules that it breaks there.
    pub broken_rules: BTreeSet<&'static str>,
}

/// Looks for that bug in the schedules from seed 0 on, `most` at most.
#[must_use]
pub fn find_mutant(mutant: Mutant, limit: u64) -> HuntResult {
    for seed in 0..limit {
        let outcome = crate::run(seed, Some(mutant));
        if !outcome.violations.is_empty() {
            let broken_rules = outcome.violations.iter().map(|violation| violation.rule).collect();
            return HuntResult { mutant, schedules_needed: Some(seed + 1), broken_rules };
        }
    }
    HuntResult { mutant, schedules_needed: None, broken_rules: BTreeSet::new() }
}

/// The rules that no seeded bug was seen to break: nobody knows whether they are checked.
#[must_use]
pub fn unbroken_rules(results: &[HuntResult]) -> Vec<&'static str> {
    let is_broken = |rule: &&str| results.iter().any(|result| result.broken_rules.contains(rule));
    crate::RULES.into_iter().filter(|rule| !is_broken(rule)).collect()
}

impl fmt::Display for HuntResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{:?}", self.mutant);
        match self.schedules_needed {
            Some(schedules) => {
                let broken_rules = self.broken_rules.iter().copied().collect::<Vec<_>>();
                write!(f, "{name:<20} {schedules:>7}  {}", broken_rules.join(" "))
            }
            None => write!(f, "{name:<20} NOT FOUND"),
        }
    }
}
