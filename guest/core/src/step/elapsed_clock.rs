//! Elapsed time of an invocation without a host that measures it. protocol.md §10.
//!
//! A lease requires a clock that never goes back and also counts while the machine sleeps. Standard
//! WASI has none: its monotonic clock may stand still meanwhile, and its wall clock can be set. So
//! each reading adds the larger advance of the two clocks since the previous reading. A wall clock
//! that is set back takes nothing away. One that is set forward makes leases shorter, never longer.
//!
//! One case is undetectable: a machine that sleeps while its wall clock is set back by as much,
//! between the same two readings. Only the term protects then.

use core::time::Duration;

use crate::Moment;
use crate::protocol::candidate::StepStart;
use chrono::{DateTime, Utc};

/// Elapsed time by the two clocks of a machine.
#[derive(Clone, Copy, Debug)]
pub struct ElapsedClock {
    passed: Moment,
    /// Elapsed time by the clock that advanced less at each reading.
    least_passed: Moment,
    monotonic: Duration,
    wall: DateTime<Utc>,
}

impl ElapsedClock {
    /// Starts now, at these readings of both clocks.
    #[must_use]
    pub fn new(monotonic: Duration, wall: DateTime<Utc>) -> Self {
        Self { passed: Moment::ZERO, least_passed: Moment::ZERO, monotonic, wall }
    }

    /// Returns the time since the start. It may run ahead of real time; the module docs describe the
    /// one case in which it lags.
    pub fn read(&mut self, monotonic: Duration, wall: DateTime<Utc>) -> Moment {
        let by_wall = wall.signed_duration_since(self.wall).to_std().unwrap_or_default();
        let by_monotonic = monotonic.saturating_sub(self.monotonic);
        let passed = self.passed + by_monotonic.max(by_wall);
        *self = Self {
            passed,
            least_passed: self.least_passed + by_monotonic.min(by_wall),
            monotonic,
            wall,
        };
        self.passed
    }

    /// Returns the upper bound by which that time may have run ahead.
    #[must_use]
    pub fn clock_lead(&self) -> Duration {
        self.passed.saturating_sub(self.least_passed)
    }

    /// Returns the start of a step at the newest reading.
    #[must_use]
    pub fn step_start(&self) -> StepStart {
        StepStart { at: self.passed, clock_lead: self.clock_lead() }
    }

    /// Returns the newest reading in the time of a step that started at `start`. It does not run
    /// ahead within a step. A leader's time counts from before its request, so this only shortens
    /// it.
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
        // 60 s asleep, an hour forward, and the time that passed while the clock was set back.
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
