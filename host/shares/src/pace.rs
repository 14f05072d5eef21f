//! How often members and the coordinator turn to the store.

use std::time::Duration;

/// Periods. protocol.md §14.1, §14.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    sign: Duration,
}

/// Between two looks, and two reads of the plan, where few members are there.
const LOOK: Duration = Duration::from_secs(1);

/// A third of the longest lease.
const SELDOM: Duration = Duration::from_secs(20);

/// So many reads of one blob in a second are half of what the service promises for one.
const READS: u32 = 250;

impl Pace {
    /// For elections that replace a leader after that time: its lease, or the bound of failover.
    #[must_use]
    pub fn of(failover: Duration) -> Self {
        Self { sign: (failover / 3).max(LOOK) }
    }

    /// Of a member that says how often it leaves a sign. No election is replaced so late that it would be seldom.
    #[must_use]
    pub fn signing(every: Duration) -> Self {
        Self { sign: every.clamp(LOOK, SELDOM) }
    }

    /// Between two signs of life of a member that the plan names.
    #[must_use]
    pub fn sign(self) -> Duration {
        self.sign
    }

    /// Between two signs that are no further apart, none is missing.
    #[must_use]
    pub fn steady(self) -> Duration {
        self.sign * 5 / 4
    }

    /// The one of both at which signs come more seldom.
    #[must_use]
    pub fn slower(self, other: Self) -> Self {
        Self { sign: self.sign.max(other.sign) }
    }

    /// Between two signs of life of a member that the plan does not name yet. Two looks never find the same sign then.
    #[must_use]
    pub fn first_signs(self, members: usize) -> Duration {
        (self.look(members) / 2).min(self.sign)
    }

    /// Between two looks at all signs, and between two reads of the plan.
    #[must_use]
    pub fn look(self, members: usize) -> Duration {
        let members = u32::try_from(members).unwrap_or(u32::MAX);
        LOOK.max(Duration::from_secs(1).saturating_mul(members) / READS)
    }

    /// A member is gone when it left no new sign for so long.
    #[must_use]
    pub fn gone_after(self) -> Duration {
        self.sign * 3
    }
}

#[cfg(test)]
mod tests;
