//! How often members and the coordinator turn to the store.

use std::time::Duration;

/// Periods. protocol.md §14.1, §14.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignTiming {
    interval: Duration,
}

/// Between two looks, and two reads of the plan, where few members are there.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// A third of the longest lease.
const LONGEST_INTERVAL: Duration = Duration::from_secs(20);

/// So many reads of one blob in a second are half of what the service promises for one.
const READS_PER_SECOND: u32 = 250;

impl SignTiming {
    /// For elections that replace a leader after that time: its lease, or the bound of failover.
    #[must_use]
    pub fn from_failover(failover: Duration) -> Self {
        Self { interval: (failover / 3).max(SHORTEST_INTERVAL) }
    }

    /// Of a member that says how often it leaves a sign. No election is replaced so late that it would be seldom.
    #[must_use]
    pub fn from_interval(interval: Duration) -> Self {
        Self { interval: interval.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL) }
    }

    /// Between two signs of life of a member that the plan names.
    #[must_use]
    pub fn interval(self) -> Duration {
        self.interval
    }

    /// Between two signs that are no further apart, none is missing.
    #[must_use]
    pub fn longest_steady_gap(self) -> Duration {
        self.interval * 5 / 4
    }

    /// The one of both at which signs come more seldom.
    #[must_use]
    pub fn slower(self, other: Self) -> Self {
        Self { interval: self.interval.max(other.interval) }
    }

    /// Between two signs of life of a member that the plan does not name yet. Two looks never find the same sign then.
    #[must_use]
    pub fn first_sign_interval(self, members: usize) -> Duration {
        (self.plan_read_interval(members) / 2).min(self.interval)
    }

    /// Between two looks at all signs, and between two reads of the plan.
    #[must_use]
    pub fn plan_read_interval(self, members: usize) -> Duration {
        let members = u32::try_from(members).unwrap_or(u32::MAX);
        SHORTEST_INTERVAL.max(Duration::from_secs(1).saturating_mul(members) / READS_PER_SECOND)
    }

    /// A member is gone when it left no new sign for so long.
    #[must_use]
    pub fn member_timeout(self) -> Duration {
        self.interval * 3
    }
}

#[cfg(test)]
mod tests;
