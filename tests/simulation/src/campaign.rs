//! Many schedules on all processors, and what they come to.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::coverage::Coverage;
use super::plan::Class;
use super::{Options, Outcome, Slots};

/// What a number of schedules came to.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Counted schedules within A1 to A4.
    pub sound: u64,
    /// Counted schedules without A3.
    pub without_a3: u64,
    /// Schedules without a takeover or two faults: judged, but not counted.
    pub uncounted: u64,
    /// Terms that another candidate won than the one before.
    pub takeovers: u64,
    /// What became of the slots of all of them.
    pub slots: Slots,
    /// Virtual time, in milliseconds.
    pub virtual_time: u64,
    /// What struck where, in the counted ones.
    pub coverage: Coverage,
    /// Seeds in which something happened that must not, the smallest first, and a few only.
    pub failed_seeds: Vec<u64>,
    /// Real time.
    pub elapsed: Duration,
}

/// As many failed seeds are told.
const MAX_FAILURES: usize = 10;

impl Totals {
    /// Counted schedules.
    #[must_use]
    pub fn counted(&self) -> u64 {
        self.sound + self.without_a3
    }

    /// All schedules in a second of real time.
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

/// Runs the seeds from `from` on, `count` of them, on `threads` threads. Stops early when so many
/// have failed that more would tell nothing.
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
