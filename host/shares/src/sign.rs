//! Requests to the store for shares, and its responses.

use std::time::Duration;

use crate::plan::{Plan, Share};
use crate::sign_timing::SignTiming;

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
    /// Writes a closed record to each without a lease. The store refuses that while the lease is
    /// held.
    CloseShares {
        /// The shares to close.
        shares: Vec<Share>,
        /// Number of shares.
        count: u32,
    },
    /// Break the lease of the share's election without a period. It ends when it would without
    /// another renewal, and its holder has stopped by then.
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
