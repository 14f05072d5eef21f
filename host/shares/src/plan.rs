//! Who should hold what.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A part of the work. Its election is a blob of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share {
    /// Of which split, from 1. Each time that the number of shares changes the work is split anew.
    pub split: u32,
    /// Which of them, from 0.
    pub index: u32,
}

/// Who should hold what. protocol.md §14.2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The term of the leader that wrote it.
    pub term: u64,
    /// It rises with each plan.
    pub version: u64,
    /// How often the work was split, this time included.
    pub split: u32,
    /// Those who are there, each once; where there are more of them than shares, some should hold nothing.
    pub members: Vec<String>,
    /// For each share the member that should hold it, by its place among the members.
    pub shares: Vec<Option<u32>>,
    /// Nobody is to hold anything any more: then the work is split into so many shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
}

impl Plan {
    /// The first one: nobody holds any of so many shares.
    #[must_use]
    pub fn unassigned(shares: u32) -> Self {
        let shares = vec![None; shares as usize];
        Self { term: 0, version: 0, split: 1, members: Vec::new(), shares, next: None }
    }

    /// The plan that asks for another number of shares.
    #[must_use]
    pub fn reshare(self, shares: u32) -> Self {
        Self { version: self.version + 1, next: Some(shares), ..self }
    }

    /// The work is split anew: all shares of this plan are closed. None: nobody asked for it.
    #[must_use]
    pub fn next_split(&self) -> Option<Self> {
        let (term, version, split) = (self.term, self.version, self.split + 1);
        Some(Self { term, version, split, ..Self::unassigned(self.next?) })
    }

    /// Whether a coordinator of `most` shares at most can have written it. protocol.md §14.2.
    #[must_use]
    pub fn is_valid(&self, max_shares: u32) -> bool {
        let members = self.members.iter().collect::<BTreeSet<_>>().len();
        let is_member = |index: &u32| (*index as usize) < members;
        (1..=max_shares).contains(&self.count())
            && self.next.is_none_or(|next| (1..=max_shares).contains(&next))
            && members == self.members.len()
            && self.shares.iter().flatten().all(is_member)
            // There is room for the plans to come.
            && self.version < u64::MAX / 2
            && self.split < u32::MAX / 2
    }

    /// All shares of this split.
    pub fn all_shares(&self) -> impl Iterator<Item = Share> {
        let split = self.split;
        (0..).zip(&self.shares).map(move |(index, _)| Share { split, index })
    }

    /// Whether it names that member.
    #[must_use]
    pub fn has_member(&self, member: &str) -> bool {
        self.members.iter().any(|name| name == member)
    }

    /// Who should hold that share.
    #[must_use]
    pub fn holder(&self, share: Share) -> Option<&str> {
        if share.split != self.split || self.next.is_some() {
            return None;
        }
        let member = *self.shares.get(share.index as usize)?;
        self.members.get(member? as usize).map(String::as_str)
    }

    /// What a member should hold.
    pub fn shares_of(&self, member: &str) -> impl Iterator<Item = Share> {
        let member_index = self.members.iter().position(|name| name == member);
        let member_index = member_index.filter(|_| self.next.is_none()).and_then(|p| u32::try_from(p).ok());
        let is_held = move |held: &Option<u32>| member_index.is_some() && *held == member_index;
        let split = self.split;
        let held_shares = (0..).zip(&self.shares).filter(move |(_, holder)| is_held(holder));
        held_shares.map(move |(index, _)| Share { split, index })
    }

    /// So many shares there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.shares.len()).unwrap_or(u32::MAX)
    }
}

impl Share {
    /// What the name of its election ends with, after that of the coordinating election and a dot. It is one `of` so many.
    #[must_use]
    pub fn suffix(self, count: u32) -> String {
        format!("share.{}.{}-of-{count}", self.split, self.index)
    }

    /// Which one has that suffix.
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
