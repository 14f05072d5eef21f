//! The periods of failover before the lease ends. protocol.md §13.

use core::time::Duration;

use super::limits;

/// The least by which a leader that beats stops before its promise ends.
const LEAST_PROMISE_MARGIN: Duration = Duration::from_millis(300);

/// A request of a leader that beats, and a look of its followers, is given this long at least.
const LEAST_BEAT_TIMEOUT: Duration = Duration::from_millis(300);

/// The periods of failover before the lease ends, which all follow from its bound. protocol.md §13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failover {
    /// The bound, 1–10 s.
    pub within: Duration,
}

impl Failover {
    /// From one beat to the next, and from one look of a follower to the next.
    #[must_use]
    pub fn beat_interval(self) -> Duration {
        whole_millis(self.within / 6)
    }

    /// So long after its newest beat a leader has certainly stopped: what it promises on the record.
    #[must_use]
    pub fn promise(self) -> Duration {
        whole_millis(self.within * 7 / 10)
    }

    /// The bound with which a leader promises that.
    #[must_use]
    pub fn from_promise(promise: Duration) -> Self {
        Self { within: promise * 10 / 7 }
    }

    /// Whether some settings make a leader promise that.
    pub(super) fn is_possible_promise(promise: Duration) -> bool {
        let promise_for = |within| Failover { within }.promise();
        (promise_for(*limits::FAILOVER.start())..=promise_for(*limits::FAILOVER.end())).contains(&promise)
    }

    /// How long a leader acts by a beat: the promise, less what clocks and preemption may be off.
    #[must_use]
    pub fn validity(self) -> Duration {
        let margin = LEAST_PROMISE_MARGIN.max(self.within * 2 / 15);
        whole_millis(self.promise().saturating_sub(margin))
    }

    /// How long a beat may take of the time that is `left`, so that another try is possible.
    pub(super) fn beat_timeout(self, time_left: Duration) -> Duration {
        whole_millis(self.poll_timeout().max(time_left / 2)).min(time_left)
    }

    /// How long a look of a follower may take, at the first try.
    #[must_use]
    pub fn poll_timeout(self) -> Duration {
        self.beat_interval().max(LEAST_BEAT_TIMEOUT)
    }

    /// How long a renewal may take where so much of the promise is `left`: so that two tries of a beat follow, or one
    /// where it is `urgent`.
    pub(super) fn renewal_timeout(self, time_left: Duration, urgent: bool) -> Duration {
        let single_try = if urgent { time_left.saturating_sub(self.beat_interval()) } else { Duration::ZERO };
        whole_millis(single_try.max(time_left / 3))
    }
}

/// As people read it, and as it stands on record.
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
            // Clocks that are off by a hundredth each, and the slack of preemption. protocol.md §13.
            let margin = failover.promise() - failover.validity();
            assert!(margin >= failover.promise() / 50 + ms(20));
        }
    }
}
