//! The plan: the shares that each member should hold.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A part of the work. Its election has its own blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share {
    /// Number of the split, from 1. It increases whenever the number of shares changes.
    pub split: u32,
    /// Index of the share, from 0.
    pub index: u32,
}

/// Assignment of shares to members. protocol.md §14.2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Term of the coordinator that wrote it, or that of an earlier plan if it is higher.
    pub term: u64,
    /// Version, which increases with each plan.
    pub version: u64,
    /// Number of the split.
    pub split: u32,
    /// Present members, without duplicates. If there are more members than shares, some hold
    /// nothing.
    pub members: Vec<String>,
    /// Index of the member that should hold each share.
    pub shares: Vec<Option<u32>>,
    /// Number of shares of the next split. If it is set, all shares must be closed: made impossible
    /// to acquire (protocol.md §14.2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
}

impl Plan {
    /// Creates the first plan: none of the shares has a holder.
    #[must_use]
    pub fn unassigned(shares: u32) -> Self {
        let shares = vec![None; shares as usize];
        Self { term: 0, version: 0, split: 1, members: Vec::new(), shares, next: None }
    }

    /// Returns the plan that requests another number of shares.
    #[must_use]
    pub fn reshare(self, shares: u32) -> Self {
        Self { version: self.version + 1, next: Some(shares), ..self }
    }

    /// Returns the unassigned shares of the next split, as the base of its first plan. Returns
    /// `None` if no other number was requested. The term and the version are still those of this
    /// plan. The coordinator updates them when it writes the first plan.
    ///
    /// The caller must close all shares of this plan before the next split begins.
    #[must_use]
    pub fn next_split(&self) -> Option<Self> {
        let (term, version, split) = (self.term, self.version, self.split + 1);
        Some(Self { term, version, split, ..Self::unassigned(self.next?) })
    }

    /// Returns true if a coordinator of at most `max_shares` shares can have written this plan.
    /// protocol.md §14.2.
    #[must_use]
    pub fn is_valid(&self, max_shares: u32) -> bool {
        let members = self.members.iter().collect::<BTreeSet<_>>().len();
        let is_member = |index: &u32| (*index as usize) < members;
        (1..=max_shares).contains(&self.count())
            && self.next.is_none_or(|next| (1..=max_shares).contains(&next))
            && members == self.members.len()
            && self.shares.iter().flatten().all(is_member)
            // Leaves room for later plans.
            && self.version < u64::MAX / 2
            && self.split < u32::MAX / 2
    }

    /// Returns all shares of this split.
    pub fn all_shares(&self) -> impl Iterator<Item = Share> {
        let split = self.split;
        (0..).zip(&self.shares).map(move |(index, _)| Share { split, index })
    }

    /// Returns true if the plan contains that member.
    #[must_use]
    pub fn has_member(&self, member: &str) -> bool {
        self.members.iter().any(|name| name == member)
    }

    /// Returns the member that should hold the share.
    #[must_use]
    pub fn holder(&self, share: Share) -> Option<&str> {
        if share.split != self.split || self.next.is_some() {
            return None;
        }
        let member = *self.shares.get(share.index as usize)?;
        self.members.get(member? as usize).map(String::as_str)
    }

    /// Returns the shares that a member should hold.
    pub fn shares_of(&self, member: &str) -> impl Iterator<Item = Share> {
        let member_index = self.members.iter().position(|name| name == member);
        let member_index =
            member_index.filter(|_| self.next.is_none()).and_then(|p| u32::try_from(p).ok());
        let is_held = move |holder: &Option<u32>| member_index.is_some() && *holder == member_index;
        let split = self.split;
        let held_shares = (0..).zip(&self.shares).filter(move |(_, holder)| is_held(holder));
        held_shares.map(move |(index, _)| Share { split, index })
    }

    /// Returns the number of shares.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.shares.len()).unwrap_or(u32::MAX)
    }
}

impl Share {
    /// Returns the suffix of its election's name, which follows the name of the coordinating
    /// election and a dot. `count` is the number of shares.
    #[must_use]
    pub fn suffix(self, count: u32) -> String {
        format!("share.{}.{}-of-{count}", self.split, self.index)
    }

    /// Parses a suffix.
    #[must_use]
    pub fn from_suffix(suffix: &str) -> Option<Self> {
        let (split, index_and_count) = suffix.strip_prefix("share.")?.split_once('.')?;
        let (index, count) = index_and_count.split_once("-of-")?;
        let share = Self { split: split.parse().ok()?, index: index.parse().ok()? };
        (share.suffix(count.parse().ok()?) == suffix).then_some(share)
    }
}

#[cfg(test)]
mod tests;
