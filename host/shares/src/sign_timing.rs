//! Intervals between requests of members and the coordinator.

use std::time::Duration;

/// Intervals of a member. protocol.md §14.1, §14.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignTiming {
    interval: Duration,
}

/// Interval between two lists of the signs, and two reads of the plan, with few members.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// A third of the longest lease.
const LONGEST_INTERVAL: Duration = Duration::from_secs(20);

/// Half of the reads per second that the service guarantees for one blob.
const READS_PER_SECOND: u32 = 250;

impl SignTiming {
    /// Creates the timing for elections that replace a leader after `failover`: the lease, or the
    /// failover bound.
    #[must_use]
    pub fn from_failover(failover: Duration) -> Self {
        Self { interval: (failover / 3).max(SHORTEST_INTERVAL) }
    }

    /// Creates the timing of a member with this interval between signs, limited to the range of
    /// real elections.
    #[must_use]
    pub fn from_interval(interval: Duration) -> Self {
        Self { interval: interval.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL) }
    }

    /// Returns the interval between two signs of life of a member in the plan.
    #[must_use]
    pub fn interval(self) -> Duration {
        self.interval
    }

    /// Returns the longest gap between two signs with no sign missing.
    #[must_use]
    pub fn longest_steady_gap(self) -> Duration {
        self.interval * 5 / 4
    }

    /// Returns the timing with the longer interval between signs.
    #[must_use]
    pub fn slower(self, other: Self) -> Self {
        Self { interval: self.interval.max(other.interval) }
    }

    /// Returns the interval between two signs of life of a member that is not in the plan yet. Two
    /// lists never show the same sign then.
    #[must_use]
    pub fn first_sign_interval(self, members: usize) -> Duration {
        (self.plan_read_interval(members) / 2).min(self.interval)
    }

    /// Returns the interval between two lists of the signs, and two reads of the plan.
    #[must_use]
    pub fn plan_read_interval(self, members: usize) -> Duration {
        let members = u32::try_from(members).unwrap_or(u32::MAX);
        SHORTEST_INTERVAL.max(Duration::from_secs(1).saturating_mul(members) / READS_PER_SECOND)
    }

    /// Returns the time without a new sign after which a member is gone.
    #[must_use]
    pub fn member_timeout(self) -> Duration {
        self.interval * 3
    }
}

#[cfg(test)]
mod tests;
