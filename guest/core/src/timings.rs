//! The periods of an election and the rules between them. protocol.md §2.

use core::time::Duration;

use super::Moment;
use super::failover::Failover;
use crate::mutants::mutant;

/// A record write is given this long at least, also when a renewal is due before.
const LEAST_WRITE: Duration = Duration::from_secs(1);

/// How long a holder waits at most between two attempts at the same request.
pub(super) const BACK_OFF: Duration = Duration::from_millis(500);

/// The resolution of the service's dates.
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// The periods of one candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// How long a lease lasts, in whole seconds, 15–60 s.
    pub lease: Duration,
    /// How long before the lease's end a leader stops acting. At least 2.5 s.
    pub margin: Duration,
    /// From one successful renewal to the next.
    pub renew: Duration,
    /// The longest a follower waits between two polls; the shortest is half of it.
    pub poll: Duration,
    /// The longest that one request may take.
    pub request_timeout: Duration,
    /// How soon a leader that died is replaced, where that is to be sooner than its lease ends.
    pub failover: Option<Failover>,
}

impl Timings {
    /// Returns the lease less the margin: a leader without beats may act so long after a renewal. On an account that keeps
    /// versions, a leader with failover may too.
    pub fn lease_validity(&self) -> Duration {
        self.lease.saturating_sub(self.margin)
    }

    /// Returns the time for which a leader may act after a renewal, or with failover after a beat.
    pub fn validity(&self) -> Duration {
        self.failover.map_or(self.lease_validity(), |failover| self.lease_validity().min(failover.validity()))
    }

    /// Returns the time from one renewal to the next, or with failover from one beat to the next.
    pub fn renewal_interval(&self) -> Duration {
        self.failover.map_or(self.renew, Failover::beat_interval)
    }

    /// Until when a lease may be acted upon whose acquire or renewal was `sent` then, and answered `now`.
    pub(super) fn valid_until(&self, sent: Moment, now: Moment) -> Moment {
        let counts_from = if mutant!(ValidityFromAnswer) { now } else { sent };
        counts_from + self.lease - self.margin
    }

    /// The longest wait of a follower between two tries of one request.
    pub(super) fn patience(&self) -> Duration {
        self.poll.max(BACK_OFF)
    }

    /// How long a leader may wait at `now` for the answer to a request that is no renewal, so that
    /// afterwards there is time for two tries of a renewal before `valid_until`. The second one follows
    /// the first at once. Never more than the request time-out.
    ///
    /// With a round trip of `r`, a renewal that was sent at 0 is answered at `r`. The request that goes
    /// out then is given `lease − margin − r − 2 × time-out`. That is enough for its own round trip as
    /// long as `r ≤ (lease − margin − 2 × time-out) / 2`: with the defaults (15 − 3 − 6) / 2 = 3 s, the
    /// whole time-out.
    pub(super) fn background_timeout(&self, now: Moment, valid_until: Moment) -> Duration {
        let left = valid_until.saturating_sub(now);
        left.saturating_sub(2 * self.request_timeout).min(self.request_timeout)
    }

    /// How long a record write, or the read that tells what became of it, may take at `now`: what
    /// [`Timings::beside_renewals`] leaves, the time until `renewal` is due, or a second, whichever is
    /// longest.
    pub(super) fn write_timeout(
        &self,
        now: Moment,
        renewal: Moment,
        valid_until: Moment,
    ) -> Duration {
        let least = LEAST_WRITE.max(renewal.saturating_sub(now));
        let left = valid_until.saturating_sub(now);
        self.background_timeout(now, valid_until).max(least).min(self.request_timeout).min(left)
    }

    /// The longest time-out of a request that fits with the other periods.
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
        // Settings with which no more fits: the time until the next renewal, as ever.
        let close = Timings { request_timeout: at(3_500), ..timings };
        assert_eq!(close.write_timeout(at(2_000), at(4_000), at(12_000)), at(3_000));
        assert_eq!(close.write_timeout(at(3_400), at(4_000), at(12_000)), at(1_600));
        assert_eq!(close.background_timeout(at(6_000), at(12_000)), Duration::ZERO);
    }
}
