//! The state of a candidate at a moment, for service managers and locks.

use super::board::{Board, Told};
use super::role::{Leader, Role};
use std::time::Duration;

/// The state of a candidate at a moment.
#[derive(Clone, Debug)]
pub struct Summary {
    /// `container/blob`.
    pub election: String,
    /// `leading`, `following`, `undecided` or `left`.
    pub role: &'static str,
    /// The leader, where it is known; this candidate, when it leads.
    pub leader: Option<Leader>,
    /// The newest problem since the service answered last.
    pub problem: Option<Told>,
    /// The newest problem that keeps it from leading and from following, until that is over.
    pub blocked: Option<Told>,
    /// True if the loop runs, has come to its end, or is not to begin yet.
    pub running: bool,
    /// True once the loop has made its first step.
    pub begun: bool,
    /// True if the newest request failed.
    pub failing: bool,
}

impl Board {
    /// Returns the state at `now`.
    pub fn summary(&self, now: Duration) -> Summary {
        let (role, leader) = match self.role(now) {
            Role::Leading { term, .. } => {
                let own = Leader { name: self.candidate.clone(), term, address: None, since: None };
                ("leading", Some(own))
            }
            Role::Following(leader) => ("following", leader),
            Role::Undecided => ("undecided", None),
            Role::Left => ("left", None),
        };
        Summary {
            election: self.election.clone(),
            role,
            leader,
            problem: self.problem(),
            blocked: self.blocked(),
            running: self.runs(now),
            begun: self.stepped_once(),
            failing: self.is_failing(),
        }
    }
}
