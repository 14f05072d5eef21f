//! The role of a candidate in its election, and the leader it knows.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The role of a candidate in its election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    /// No leader is known.
    #[default]
    Undecided,
    /// This candidate leads, and may act until the instant `until`.
    Leading { term: u64, until: Duration },
    /// Another candidate leads; the leader's details, if known.
    Following(Option<Leader>),
    /// This candidate has left the election.
    Left,
}

impl Role {
    /// Returns the leader, if known. `own_name` is the name of this candidate.
    pub fn leader(&self, own_name: &str) -> Option<Leader> {
        match self {
            Self::Leading { term, .. } => {
                Some(Leader { name: own_name.to_owned(), term: *term, address: None, since: None })
            }
            Self::Following(leader) => leader.clone(),
            Self::Undecided | Self::Left => None,
        }
    }
}

/// The leader that a candidate knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// Its name.
    pub name: String,
    /// Its fencing token.
    pub term: u64,
    /// Its address, if it published one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The time of its election by the record, RFC 3339.
    #[serde(skip)]
    pub since: Option<String>,
}

/// A leader that has published an address, so that a follower can watch it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FollowedLeader {
    pub name: String,
    pub term: u64,
    pub address: String,
}

/// The newest leadership of a candidate, once it has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EndedLeadership {
    pub term: u64,
    pub reason: String,
    /// True if the store answered that the lease is free or another candidate's.
    pub released: bool,
}
