//! What is sent to the store for shares, and what it answers.

use std::time::Duration;

use crate::pace::SignTiming;
use crate::plan::{Plan, Share};

/// A version of a blob, as the store names it: its ETag.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub String);

/// What a member leaves beside the election, again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sign {
    /// The member's name, its own among all members.
    pub member: String,
    /// How much the member can do beside the others. 0: it takes no share.
    pub weight: u32,
    /// The most shares that it takes.
    pub max_shares: Option<u32>,
    /// How often it leaves one: members with elections of other lengths may be among them.
    pub timing: SignTiming,
}

/// A sign as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSign {
    /// What its member said.
    pub sign: Sign,
    /// This version of it.
    pub tag: Tag,
    /// How long ago it was written, by the service's clock, which counts whole seconds.
    pub age: Duration,
}

impl ListedSign {
    /// Returns true if the sign is so young that its member counts as alive, whatever else is known of it.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        // The age is a difference of whole seconds.
        self.age <= self.sign.timing.member_timeout() + Duration::from_secs(1)
    }
}

/// A request to the store. It gets one [`Answer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreRequest {
    /// Write `BLOB.member.NAME`.
    WriteSign(Sign),
    /// Delete one's own sign.
    WithdrawSign,
    /// Read `BLOB.plan`, unless it is still that one (`If-None-Match`).
    ReadPlan(Option<Tag>),
    /// List all signs, with their tags.
    ListSigns,
    /// Write `BLOB.plan` over that one (`If-Match`), or where there is none (`If-None-Match: *`).
    WritePlan(Plan, Option<Tag>),
    /// Close the elections of these shares for ever: write to each without a lease, which the store refuses while
    /// somebody holds it, that it is closed.
    CloseShares {
        /// Which.
        shares: Vec<Share>,
        /// Of so many.
        count: u32,
    },
    /// Break the lease of that share's election, without a period: it ends when it would without another renewal, and its
    /// holder has stopped by then.
    BreakLease {
        /// Which.
        share: Share,
        /// Of so many.
        count: u32,
    },
    /// Delete the sign of that member if it is still this one (`If-Match`).
    RemoveSign(String, Tag),
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreResponse {
    /// No answer, or one that is none: it may have been done.
    Unknown,
    /// What was asked for was done.
    Done,
    /// The sign that was written.
    Signed(Tag),
    /// The store refused it, since a blob is not what the request said, or for another reason.
    Refused,
    /// The plan is still the same one.
    PlanUnchanged,
    /// There is no plan.
    NoPlan,
    /// The plan that was read, or written.
    Plan(Plan, Tag),
    /// All signs.
    Signs(Vec<ListedSign>),
    /// Those of the shares that are closed now, or were before.
    Closed(Vec<Share>),
}
