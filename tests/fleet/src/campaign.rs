//! Runs many schedules on several threads, and searches for seeded bugs.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tenure_shares::mutants::Mutant;

use crate::Outcome;

/// Combined results of a number of schedules.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Number of schedules.
    pub schedules: u64,
    /// Number of plans that were written.
    pub plan_count: u64,
    /// Number of shares that moved away from present members.
    pub move_count: u64,
    /// Virtual time, in milliseconds.
    pub virtual_ms: u64,
    /// First schedules with a violation, up to a limit.
    pub failures: Vec<Outcome>,
}

/// Maximum number of failed schedules in a report.
const MAX_FAILURES: usize = 5;

/// Runs `count` schedules from seed `from` on, until the maximum number have failed.
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

/// Result of the search for one seeded bug.
#[derive(Clone, Debug)]
pub struct HuntResult {
    /// Seeded bug.
    pub mutant: Mutant,
    /// Number of schedules that it took, from seed 0 on; `None` if the bug was not found.
    pub schedules_needed: Option<u64>,
    /// Rules that the bug breaks in that schedule.
    pub broken_rules: BTreeSet<&'static str>,
}

/// Searches for the bug in at most `limit` schedules, from seed 0 on.
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

/// Returns the rules that no seeded bug broke, so that their checks are unproven.
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
