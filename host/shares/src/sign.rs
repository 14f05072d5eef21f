//! Signs of life and their intervals, the requests to the store for shares, and its responses.

use std::time::Duration;

use crate::plan::{Plan, Share};

/// Version of a blob: its ETag.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub String);

/// Sign of life, which a member writes regularly next to the election's blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sign {
    /// Name of the member, unique among all members.
    pub member: String,
    /// Relative capacity. A member of weight 0 takes no share.
    pub weight: u32,
    /// Maximum number of shares.
    pub max_shares: Option<u32>,
    /// Intervals of the member. Members may have elections with other timings.
    pub timing: SignTiming,
}

/// A listed sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSign {
    /// Content of the sign.
    pub sign: Sign,
    /// Version of the sign.
    pub tag: Tag,
    /// Time since it was written, on the service's clock, in whole seconds.
    pub age: Duration,
}

impl ListedSign {
    /// Returns true if the sign is so recent that its member counts as alive.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        // The age is a difference of whole seconds.
        self.age <= self.sign.timing.member_timeout() + Duration::from_secs(1)
    }
}

/// A request to the store. Each gets one [`StoreResponse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreRequest {
    /// Write `BLOB.member.NAME`.
    WriteSign(Sign),
    /// Delete the member's own sign.
    WithdrawSign,
    /// Read `BLOB.plan`, unless it has this tag (`If-None-Match`).
    ReadPlan(Option<Tag>),
    /// List all signs, with their tags.
    ListSigns,
    /// Write `BLOB.plan` if it has this tag (`If-Match`), or if it does not exist (`If-None-Match:
    /// *`).
    WritePlan(Plan, Option<Tag>),
    /// Close the elections of these shares permanently.
    ///
    /// Writes a closed record to each election's blob without a lease id. The store refuses that
    /// while the lease is held.
    CloseShares {
        /// The shares to close.
        shares: Vec<Share>,
        /// Number of shares.
        count: u32,
    },
    /// Break the lease of the share's election without a period. The lease then ends when it would
    /// expire without another renewal. Its holder has stopped its work by then.
    BreakLease {
        /// The share.
        share: Share,
        /// Number of shares.
        count: u32,
    },
    /// Delete the sign of that member if it has this tag (`If-Match`).
    RemoveSign(String, Tag),
}

/// Response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreResponse {
    /// There is no valid response: the request may have succeeded.
    Unknown,
    /// The request succeeded.
    Done,
    /// The sign was written.
    Signed(Tag),
    /// The store refused the request, because the blob differs from the expected one or for another
    /// reason.
    Refused,
    /// The plan is unchanged.
    PlanUnchanged,
    /// There is no plan.
    NoPlan,
    /// The plan that was read or written.
    Plan(Plan, Tag),
    /// All signs.
    Signs(Vec<ListedSign>),
    /// Shares that are closed now.
    Closed(Vec<Share>),
}

/// Intervals of a member. protocol.md §14.1, §14.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignTiming {
    interval: Duration,
}

/// Shortest interval between two signs, between two lists of the signs, and between two reads of
/// the plan.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// Longest interval between two signs: a third of the longest lease.
const MAX_INTERVAL: Duration = Duration::from_secs(20);

/// Maximum number of reads of the plan per second, by all members together. It is half of what the
/// service guarantees for one blob.
const READS_PER_SECOND: u32 = 250;

impl SignTiming {
    /// Creates the timing for elections that replace a dead leader after `failover`: the lease, or
    /// the failover time if one is set.
    #[must_use]
    pub fn from_failover(failover: Duration) -> Self {
        Self { interval: (failover / 3).max(SHORTEST_INTERVAL) }
    }

    /// Creates the timing of a member with this interval between signs, limited to the range of
    /// real elections.
    #[must_use]
    pub fn from_interval(interval: Duration) -> Self {
        Self { interval: interval.clamp(SHORTEST_INTERVAL, MAX_INTERVAL) }
    }

    /// Returns the interval between two signs of life of a member in the plan.
    #[must_use]
    pub fn interval(self) -> Duration {
        self.interval
    }

    /// Returns the longest gap between two signs that counts as steady: no sign between them is
    /// missing.
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
    /// consecutive lists then never show the same sign.
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

    /// Returns the time without a new sign after which a member counts as gone.
    #[must_use]
    pub fn member_timeout(self) -> Duration {
        self.interval * 3
    }
}

#[cfg(test)]
mod sign_timing_tests;
