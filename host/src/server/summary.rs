//! What a candidate is at a moment, in one value.

use super::board::{Board, Told};
use super::last_turn::LastTurn;
use super::role::{Leader, Role};
use crate::contract::Outlook;
use crate::runner::milliseconds;
use serde::Serialize;
use std::time::Duration;

/// What is true of a candidate at a moment.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// `container/blob`.
    pub election: String,
    /// Its name.
    pub candidate: String,
    /// `leading`, `following`, `undecided` or `left`.
    pub role: &'static str,
    /// Who leads, where that is known; this candidate, when it does.
    pub leader: Option<Leader>,
    /// How long a leader may act without another renewal.
    pub valid_for_ms: Option<u64>,
    /// The newest turn.
    pub turn: Option<LastTurn>,
    /// How the turns of the election go, whoever ran them, and when the next one comes.
    #[serde(flatten)]
    pub outlook: Outlook,
    /// So many turns in a row, up to the last one, did not succeed.
    pub failed_turns: u32,
    /// The newest problem since the service answered last.
    pub problem: Option<Told>,
    /// The newest problem that keeps it from leading and from following, until that is over.
    #[serde(skip)]
    pub blocked: Option<Told>,
    /// Whether the loop runs, has come to its end, or is not to begin yet.
    pub running: bool,
    /// Whether the loop has made its first step.
    #[serde(skip)]
    pub begun: bool,
    /// Whether the newest request came to nothing.
    #[serde(skip)]
    pub failing: bool,
}

impl Board {
    /// What is true at `now`.
    pub fn summary(&self, now: Duration) -> Summary {
        let (role, leader, valid_for) = match self.role(now) {
            Role::Leading { term, until } => {
                let own = Leader { name: self.candidate.clone(), term, address: None, since: None };
                ("leading", Some(own), Some(until.saturating_sub(now)))
            }
            Role::Following(leader) => ("following", leader, None),
            Role::Undecided => ("undecided", None, None),
            Role::Left => ("left", None, None),
        };
        let valid_for_ms = valid_for.map(milliseconds);
        Summary {
            election: self.election.clone(),
            candidate: self.candidate.clone(),
            role,
            leader,
            valid_for_ms,
            turn: self.turn(),
            outlook: self.outlook(),
            failed_turns: self.failed_turns(),
            problem: self.problem(),
            blocked: self.blocked(),
            running: self.runs(now),
            begun: self.stepped_once(),
            failing: self.is_failing(),
        }
    }
}
