//! The pace of requests: retries, their random spread, and the periods of failover.

use core::time::Duration;

use super::limits;
use crate::Moment;
use serde::{Deserialize, Serialize};
use tenure_azure::blob::LeaseId;

/// A source of random numbers. In the component, `wasi:random`; in a simulation, a seeded
/// generator.
pub trait Chance {
    /// Returns 64 uniformly random bits, from a source good enough for identifiers.
    fn bits(&mut self) -> u64;
}

/// Returns a new lease id: one per attempt to win a term, never derived from a name.
pub fn fresh_lease_id(chance: &mut dyn Chance) -> LeaseId {
    let bits = (u128::from(chance.bits()) << 64) | u128::from(chance.bits());
    LeaseId::from_random(bits.to_be_bytes())
}

/// Returns a uniformly random duration between half of `longest` and `longest`.
pub(crate) fn jitter(longest: Duration, chance: &mut dyn Chance) -> Duration {
    let half = longest / 2;
    let spread = u64::try_from((longest - half).as_nanos()).unwrap_or(u64::MAX);
    half + Duration::from_nanos(chance.bits() % spread.saturating_add(1))
}

/// The wait before the second retry of a request. The first retry is immediate.
const FIRST_BACK_OFF: Duration = Duration::from_millis(100);

/// The next try of a request, and the number of failed tries before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RetrySchedule {
    pub next_at: Moment,
    pub failures: u32,
}

impl RetrySchedule {
    /// Creates a schedule that is due at `next_at`, without failures.
    pub fn due_at(next_at: Moment) -> Self {
        Self { next_at, failures: 0 }
    }

    /// Records a failure and schedules the retry. The first retry is immediate, because an idle
    /// pooled connection often fails on its next request. Later retries wait with jitter; the wait
    /// doubles up to `longest_wait`.
    pub fn on_failure(&mut self, now: Moment, longest_wait: Duration, chance: &mut dyn Chance) {
        let wait = match self.failures {
            0 => Duration::ZERO,
            n => jitter(
                longest_wait.min(FIRST_BACK_OFF.saturating_mul(1 << (n - 1).min(16))),
                chance,
            ),
        };
        self.failures = self.failures.saturating_add(1);
        self.next_at = now + wait;
    }
}

/// Minimum time between the moment at which a beating leader stops and the end of its promise.
const MIN_PROMISE_MARGIN: Duration = Duration::from_millis(300);

/// Minimum time-out of a beat, unless less of the promise is left, and of a follower's poll.
const MIN_BEAT_TIMEOUT: Duration = Duration::from_millis(300);

/// The periods of failover before the end of the lease. All follow from `within`. protocol.md §13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failover {
    /// Time within which a dead leader is replaced, 1–10 s.
    pub within: Duration,
}

impl Failover {
    /// Returns the interval between two beats, and between two polls of a follower.
    #[must_use]
    pub fn beat_interval(self) -> Duration {
        whole_millis(self.within / 6)
    }

    /// Returns the promise on the record: the time after its newest beat at which a leader has
    /// certainly stopped.
    #[must_use]
    pub fn promise(self) -> Duration {
        whole_millis(self.within * 7 / 10)
    }

    /// Returns the failover of a leader that makes this promise.
    #[must_use]
    pub fn from_promise(promise: Duration) -> Self {
        Self { within: promise * 10 / 7 }
    }

    /// Returns true if some settings result in this promise.
    pub(crate) fn is_possible_promise(promise: Duration) -> bool {
        let promise_for = |within| Failover { within }.promise();
        (promise_for(*limits::FAILOVER.start())..=promise_for(*limits::FAILOVER.end()))
            .contains(&promise)
    }

    /// Returns the time for which a leader acts by a beat: the promise, less the possible error of
    /// clocks and preemption.
    #[must_use]
    pub fn validity(self) -> Duration {
        let margin = MIN_PROMISE_MARGIN.max(self.within * 2 / 15);
        whole_millis(self.promise().saturating_sub(margin))
    }

    /// Returns the time-out of a beat if `time_left` of the promise remains. It leaves time for
    /// another try where possible.
    pub(crate) fn beat_timeout(self, time_left: Duration) -> Duration {
        whole_millis(self.poll_timeout().max(time_left / 2)).min(time_left)
    }

    /// Returns the time-out of a follower's poll at the first try.
    #[must_use]
    pub fn poll_timeout(self) -> Duration {
        self.beat_interval().max(MIN_BEAT_TIMEOUT)
    }

    /// Returns the time-out of a renewal if `time_left` of the promise remains. It leaves time for
    /// two tries of a beat, or for one if the renewal is urgent.
    pub(crate) fn renewal_timeout(self, time_left: Duration, is_urgent: bool) -> Duration {
        let single_try =
            if is_urgent { time_left.saturating_sub(self.beat_interval()) } else { Duration::ZERO };
        whole_millis(single_try.max(time_left / 3))
    }
}

/// Truncates to milliseconds, the precision of texts and of the record.
fn whole_millis(span: Duration) -> Duration {
    Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failover_has_the_periods_of_the_protocol() {
        let ms = Duration::from_millis;
        for (within, beat, promise, acts) in [
            (1_000, 166, 700, 400),
            (2_000, 333, 1_400, 1_100),
            (3_000, 500, 2_100, 1_700),
            (10_000, 1_666, 7_000, 5_666),
        ] {
            let failover = Failover { within: ms(within) };
            let whole = |span: Duration| span.as_millis();
            assert_eq!(whole(failover.beat_interval()), beat);
            assert_eq!(whole(failover.promise()), promise);
            assert_eq!(whole(failover.validity()), acts);
            assert_eq!(Failover::from_promise(failover.promise()), failover);
            // Clocks may be off by a hundredth each; the rest is the slack for preemption.
            // protocol.md §13.
            let margin = failover.promise() - failover.validity();
            assert!(margin >= failover.promise() / 50 + ms(20));
        }
    }
}
