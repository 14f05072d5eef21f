//! The periods of an election and the rules between them. protocol.md §2.

use core::time::Duration;

use crate::Moment;
use crate::mutants::mutant;
use crate::protocol::failover::Failover;

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
}
