//! Time of an invocation without a host that measures it. protocol.md §10.
//!
//! A lease is judged by a clock that never goes back and also counts while the machine sleeps. Standard
//! WASI has none: its monotonic clock may stand still meanwhile, and its wall clock can be set. So each
//! reading adds what the clock that moved further says since the reading before. A wall clock that is set
//! back takes nothing away, and one that is set forward makes leases shorter, never longer.
//!
//! A machine that sleeps while its wall clock is set back by as much, between the same two readings, shows
//! no clock on which that can be seen. Only the term protects then.

use core::time::Duration;

use super::Moment;
use super::candidate::StepStart;
use chrono::{DateTime, Utc};

/// How much time has passed, by the two clocks of a machine.
#[derive(Clone, Copy, Debug)]
pub struct ElapsedClock {
    passed: Moment,
    /// By the clock that moved less each time.
    least_passed: Moment,
    monotonic: Duration,
    wall: DateTime<Utc>,
}

impl ElapsedClock {
    /// Begins now, with what both clocks show.
    #[must_use]
    pub fn new(monotonic: Duration, wall: DateTime<Utc>) -> Self {
        Self { passed: Moment::ZERO, least_passed: Moment::ZERO, monotonic, wall }
    }

    /// The time since then, at least.
    pub fn read(&mut self, monotonic: Duration, wall: DateTime<Utc>) -> Moment {
        let by_wall = wall.signed_duration_since(self.wall).to_std().unwrap_or_default();
        let by_monotonic = monotonic.saturating_sub(self.monotonic);
        let passed = self.passed + by_monotonic.max(by_wall);
        *self = Self { passed, least_passed: self.least_passed + by_monotonic.min(by_wall), monotonic, wall };
        self.passed
    }

    /// By how much that time may have run ahead.
    #[must_use]
    pub fn clock_lead(&self) -> Duration {
        self.passed.saturating_sub(self.least_passed)
    }

    /// A step that begins at the newest reading.
    #[must_use]
    pub fn step_start(&self) -> StepStart {
        StepStart { at: self.passed, clock_lead: self.clock_lead() }
    }

    /// The newest reading in the time of a step that `begins` then. Within a step it does not run ahead: all
    /// that a leader may do counts from before it asked, so that this makes it shorter.
    #[must_use]
    pub fn elapsed_in_step(&self, start: StepStart) -> Moment {
        self.least_passed + start.clock_lead
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_158_000 + seconds, 0).unwrap()
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_clock_that_moved_further_counts_and_nothing_is_taken_back() {
        let mut time = ElapsedClock::new(seconds(7), at(0));
        assert_eq!(time.read(seconds(8), at(1)), seconds(1));
        // Asleep for a minute.
        assert_eq!(time.read(seconds(8), at(61)), seconds(61));
        // Set forward by an hour, and back again.
        assert_eq!(time.read(seconds(9), at(3_662)), seconds(3_662));
        assert_eq!(time.read(seconds(10), at(63)), seconds(3_663));
        assert_eq!(time.read(seconds(610), at(663)), seconds(4_263));
        // 60 s asleep, an hour forward, and what passed while the clock was set back.
        assert_eq!(time.clock_lead(), seconds(60 + 3_600 + 1));
    }

    proptest! {
        #[test]
        fn elapsed_is_at_least_the_monotonic_time(
            readings in proptest::collection::vec((0_u64..100, -10_000_i64..10_000), 1..20)
        ) {
            let mut time = ElapsedClock::new(seconds(0), at(0));
            let (mut before, mut monotonic) = (Moment::ZERO, seconds(0));
            for (step, wall) in readings {
                monotonic += seconds(step);
                let read = time.read(monotonic, at(wall));
                prop_assert!(read >= before + seconds(step));
                before = read;
            }
        }
    }
}
