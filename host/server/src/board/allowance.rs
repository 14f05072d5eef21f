//! What an application that acts by itself was told of the leadership.

use super::super::role::Role;
use super::{Board, State};
use std::time::Duration;

/// The permission that an application has from what it was told.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    /// The term in which it may act: the one whose turn is under way.
    pub term: Option<u64>,
    /// The leadership is about to be given up.
    pub winds_down: bool,
    /// The process is about to end.
    pub leaves: bool,
    /// The latest instant up to which it was told that it may act.
    pub until: Duration,
}

impl Allowance {
    pub fn may_act(&self, term: u64) -> bool {
        self.term == Some(term) && !self.winds_down && !self.leaves
    }
}

impl Board {
    /// Keeps in mind from now on what the application is told.
    pub(crate) fn begin_application(&self) {
        self.state().application = Some(Allowance::default());
    }

    /// Takes the term in which the application may act.
    pub(crate) fn set_term(&self, term: Option<u64>) {
        if let Some(told) = &mut self.state().application {
            told.term = term;
        }
        self.has_changed();
    }

    /// The role as whoever acts by it is told: see [`Board::role`]. What an application is told is kept.
    pub(crate) fn told_role(&self, now: Duration) -> Role {
        let mut state = self.state();
        let State { role, application, .. } = &mut *state;
        match (role, application) {
            (Role::Leading { until, .. }, _) if now >= *until => Role::Undecided,
            (Role::Leading { term, .. }, Some(told)) if !told.may_act(*term) => Role::Undecided,
            (role, told) => {
                if let (Role::Leading { until, .. }, Some(told)) = (&*role, told) {
                    told.until = told.until.max(*until);
                }
                role.clone()
            }
        }
    }
}
