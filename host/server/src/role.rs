//! What a candidate is in its election, and who leads.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What the candidate is in its election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    /// Nobody is known to lead.
    #[default]
    Undecided,
    /// It leads, and may act until then.
    Leading { term: u64, until: Duration },
    /// Another one leads; who, where that is known.
    Following(Option<Leader>),
    /// It has left.
    Left,
}

impl Role {
    /// Returns the leader, where it is known. `own`: the name of this candidate.
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

/// A leader that can be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FollowedLeader {
    pub name: String,
    pub term: u64,
    pub address: String,
}

/// The newest leadership of a candidate, when that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EndedLeadership {
    pub term: u64,
    pub reason: String,
    /// The store answered that its lease is free, or another's.
    pub released: bool,
}
