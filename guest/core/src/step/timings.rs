//! The periods of an election and the rules between them, with and without failover, and the times
//! of retries. protocol.md §2, §13.

use core::time::Duration;

use super::environment::{Chance, jitter};
use super::limits;
use crate::Moment;
use crate::mutants::mutant;
use serde::{Deserialize, Serialize};

/// Minimum time-out of a record write, even if a renewal is due before.
const LEAST_WRITE: Duration = Duration::from_secs(1);

/// Maximum wait of a holder between two tries of the same request.
pub(crate) const BACK_OFF: Duration = Duration::from_millis(500);

/// The resolution of the service's dates.
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The periods of one candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// Period of the lease, in whole seconds, 15–60 s.
    pub lease: Duration,
    /// Time before the lease's end at which a leader stops acting. At least 2.5 s.
    pub margin: Duration,
    /// Time from one successful renewal to the next.
    pub renew: Duration,
    /// Maximum wait of a follower between two polls; the minimum is half of it.
    pub poll: Duration,
    /// Time-out of one request.
    pub request_timeout: Duration,
    /// Time within which a dead leader is replaced, if that is shorter than its lease.
    pub failover: Option<Failover>,
}

impl Timings {
    /// Returns the lease less the margin: the time for which a leader without beats may act after a
    /// renewal. It also applies to a leader with failover on an account that keeps versions.
    pub fn lease_validity(&self) -> Duration {
        self.lease.saturating_sub(self.margin)
    }

    /// Returns the time for which a leader may act after a renewal, or with failover after a beat.
    pub fn validity(&self) -> Duration {
        self.failover.map_or(self.lease_validity(), |failover| {
            self.lease_validity().min(failover.validity())
        })
    }

    /// Returns the time from one renewal to the next, or with failover from one beat to the next.
    pub fn renewal_interval(&self) -> Duration {
        self.failover.map_or(self.renew, Failover::beat_interval)
    }

    /// Returns the end of the validity of a lease whose acquire or renewal was sent at `sent` and
    /// answered at `now`.
    pub(crate) fn valid_until(&self, sent: Moment, now: Moment) -> Moment {
        let counts_from = if mutant!(ValidityFromAnswer) { now } else { sent };
        counts_from + self.lease - self.margin
    }

    /// Returns the maximum wait of a follower between two tries of one request.
    pub(crate) fn patience(&self) -> Duration {
        self.poll.max(BACK_OFF)
    }

    /// Returns the maximum time-out at `now` of a leader's request other than a renewal. Two tries
    /// of a renewal must still fit before `valid_until`; the second one follows the first at once.
    /// It never exceeds the request time-out.
    ///
    /// With a round trip of `r`, a renewal sent at 0 is answered at `r`. The request sent then gets
    /// `lease − margin − r − 2 × time-out`. That suffices for its own round trip while
    /// `r ≤ (lease − margin − 2 × time-out) / 2`. With the defaults that is (15 − 3 − 6) / 2 = 3 s,
    /// the whole time-out.
    pub(crate) fn background_timeout(&self, now: Moment, valid_until: Moment) -> Duration {
        let left = valid_until.saturating_sub(now);
        left.saturating_sub(2 * self.request_timeout).min(self.request_timeout)
    }

    /// Returns the time-out at `now` of a record write, or of the read that verifies it. It is the
    /// longest of [`Timings::background_timeout`], the time until `renewal` is due, and one second.
    pub(crate) fn write_timeout(
        &self,
        now: Moment,
        renewal: Moment,
        valid_until: Moment,
    ) -> Duration {
        let least = LEAST_WRITE.max(renewal.saturating_sub(now));
        let left = valid_until.saturating_sub(now);
        self.background_timeout(now, valid_until).max(least).min(self.request_timeout).min(left)
    }

    /// Returns the maximum request time-out that fits the other periods.
    pub fn longest_timeout(&self) -> Duration {
        (self.lease.saturating_sub(self.margin + self.renew) / 2).saturating_sub(BACK_OFF)
    }
}

/// Minimum time between the moment at which a beating leader stops and the end of its promise.
const LEAST_PROMISE_MARGIN: Duration = Duration::from_millis(300);

/// Minimum time-out of a request of a leader that beats, and of a poll of its followers.
const LEAST_BEAT_TIMEOUT: Duration = Duration::from_millis(300);

/// The periods of failover before the end of the lease. All follow from its bound. protocol.md §13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failover {
    /// The bound, 1–10 s.
    pub within: Duration,
}

impl Failover {
    /// Returns the interval between two beats, and between two polls of a follower.
    #[must_use]
    pub fn beat_interval(self) -> Duration {
        whole_millis(self.within / 6)
    }

    /// Returns the promise on the record: this long after its newest beat a leader has certainly
    /// stopped.
    #[must_use]
    pub fn promise(self) -> Duration {
        whole_millis(self.within * 7 / 10)
    }

    /// Returns the bound with which a leader makes this promise.
    #[must_use]
    pub fn from_promise(promise: Duration) -> Self {
        Self { within: promise * 10 / 7 }
    }

    /// Returns true if some settings make a leader promise this.
    pub(crate) fn is_possible_promise(promise: Duration) -> bool {
        let promise_for = |within| Failover { within }.promise();
        (promise_for(*limits::FAILOVER.start())..=promise_for(*limits::FAILOVER.end()))
            .contains(&promise)
    }

    /// Returns the time for which a leader acts by a beat: the promise, less the possible error of
    /// clocks and preemption.
    #[must_use]
    pub fn validity(self) -> Duration {
        let margin = LEAST_PROMISE_MARGIN.max(self.within * 2 / 15);
        whole_millis(self.promise().saturating_sub(margin))
    }

    /// Returns the time-out of a beat if `time_left` remains, so that another try is possible.
    pub(crate) fn beat_timeout(self, time_left: Duration) -> Duration {
        whole_millis(self.poll_timeout().max(time_left / 2)).min(time_left)
    }

    /// Returns the time-out of a follower's poll at the first try.
    #[must_use]
    pub fn poll_timeout(self) -> Duration {
        self.beat_interval().max(LEAST_BEAT_TIMEOUT)
    }

    /// Returns the time-out of a renewal if `time_left` of the promise remains. Two tries of a beat
    /// must still fit, or one if it is `urgent`.
    pub(crate) fn renewal_timeout(self, time_left: Duration, urgent: bool) -> Duration {
        let single_try =
            if urgent { time_left.saturating_sub(self.beat_interval()) } else { Duration::ZERO };
        whole_millis(single_try.max(time_left / 3))
    }
}

/// Rounds to milliseconds, the precision of texts and of the record.
fn whole_millis(span: Duration) -> Duration {
    Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

/// The first wait after a failure that was already repeated once.
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
    /// pooled connection often fails on its next request. Later ones wait, doubling up to
    /// `longest_wait`, with jitter.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_has_the_whole_timeout_while_two_tries_of_a_renewal_still_fit() {
        let at = Duration::from_millis;
        let timings = Timings {
            lease: at(15_000),
            margin: at(3_000),
            renew: at(4_000),
            poll: at(4_000),
            request_timeout: at(3_000),
            failover: None,
        };
        // Sent at 0, so valid until 12 s; the next renewal is due at 4 s.
        let timeout_at = |now| timings.write_timeout(at(now), at(4_000), at(12_000));
        for round_trip in [0, 1_000, 1_700, 2_500, 3_000] {
            assert_eq!(timeout_at(round_trip), at(3_000), "{round_trip}");
        }
        assert_eq!(timeout_at(3_500), at(2_500), "as long as leaves time for both tries");
        assert_eq!(timeout_at(5_500), at(1_000), "at least a second");
        assert_eq!(timeout_at(11_500), at(500), "and never longer than the validity");
        // With these settings no more fits: the time until the next renewal remains.
        let close = Timings { request_timeout: at(3_500), ..timings };
        assert_eq!(close.write_timeout(at(2_000), at(4_000), at(12_000)), at(3_000));
        assert_eq!(close.write_timeout(at(3_400), at(4_000), at(12_000)), at(1_600));
        assert_eq!(close.background_timeout(at(6_000), at(12_000)), Duration::ZERO);
    }

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
