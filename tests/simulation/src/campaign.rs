//! Runs many schedules on all processors, and sums up their results.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::coverage::Coverage;
use super::plan::Class;
use super::{Options, Outcome, Slots};

/// Combined results of a number of schedules.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Counted schedules within A1 to A4.
    pub sound: u64,
    /// Counted schedules without A3.
    pub without_a3: u64,
    /// Schedules without a takeover or two faults: checked, but not counted.
    pub uncounted: u64,
    /// Terms that a different candidate won than the term before.
    pub takeovers: u64,
    /// Slots of all schedules.
    pub slots: Slots,
    /// Virtual time, in milliseconds.
    pub virtual_time: u64,
    /// Pairs of fault and step in the counted schedules.
    pub coverage: Coverage,
    /// Seeds with a violation, smallest first, up to a limit.
    pub failed_seeds: Vec<u64>,
    /// Elapsed real time.
    pub elapsed: Duration,
}

/// Maximum number of failed seeds in a report.
const MAX_FAILURES: usize = 10;

impl Totals {
    /// Returns the number of counted schedules.
    #[must_use]
    pub fn counted(&self) -> u64 {
        self.sound + self.without_a3
    }

    /// Returns the number of schedules per second of real time.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        (self.counted() + self.uncounted) as f64 / self.elapsed.as_secs_f64().max(0.001)
    }

    fn add(&mut self, outcome: &Outcome) {
        if !outcome.violations.is_empty() {
            self.failed_seeds.push(outcome.seed);
        }
        if !outcome.is_meaningful() {
            self.uncounted += 1;
            return;
        }
        match outcome.class {
            Class::Sound => self.sound += 1,
            Class::WithoutA3 => self.without_a3 += 1,
        }
        self.takeovers += outcome.takeovers;
        self.slots += outcome.slots;
        self.virtual_time += outcome.virtual_ms;
        self.coverage += &outcome.coverage;
    }

    fn merge(&mut self, other: &Self) {
        self.sound += other.sound;
        self.without_a3 += other.without_a3;
        self.uncounted += other.uncounted;
        self.takeovers += other.takeovers;
        self.slots += other.slots;
        self.virtual_time += other.virtual_time;
        self.coverage += &other.coverage;
        self.failed_seeds.extend(&other.failed_seeds);
        self.failed_seeds.sort_unstable();
        self.failed_seeds.truncate(MAX_FAILURES);
    }
}

/// Runs `count` seeds from `from` on, on `threads` threads. Stops early once enough seeds have
/// failed.
#[must_use]
pub fn run(from: u64, count: u64, threads: usize, options: &Options) -> Totals {
    let started_at = Instant::now();
    let (next, should_stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let totals = Mutex::new(Totals::default());
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let mut local = Totals::default();
                while !should_stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        break;
                    }
                    local.add(&super::run(from + index, options));
                    if local.failed_seeds.len() >= MAX_FAILURES {
                        should_stop.store(true, Ordering::Relaxed);
                    }
                }
                totals.lock().unwrap_or_else(PoisonError::into_inner).merge(&local);
            });
        }
    });
    let mut totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    totals.elapsed = started_at.elapsed();
    totals
}
