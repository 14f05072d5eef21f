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
    pub winding_down: bool,
    /// The process is about to end.
    pub leaving: bool,
    /// The latest instant up to which it was told that it may act.
    pub expires_at: Duration,
}

impl Allowance {
    pub fn may_act(&self, term: u64) -> bool {
        self.term == Some(term) && !self.winding_down && !self.leaving
    }
}

impl Board {
    /// Keeps in mind from now on what the application is told.
    pub(crate) fn begin_application(&self) {
        self.state().application = Some(Allowance::default());
    }

    /// Takes the term in which the application may act.
    pub(crate) fn set_term(&self, term: Option<u64>) {
        if let Some(allowance) = &mut self.state().application {
            allowance.term = term;
        }
        self.notify_changed();
    }

    /// The role as whoever acts by it is told: see [`Board::role`]. What an application is told is kept.
    pub(crate) fn allowed_role(&self, now: Duration) -> Role {
        let mut state = self.state();
        let State { role, application, .. } = &mut *state;
        match (role, application) {
            (Role::Leading { until, .. }, _) if now >= *until => Role::Undecided,
            (Role::Leading { term, .. }, Some(allowance)) if !allowance.may_act(*term) => Role::Undecided,
            (role, allowance) => {
                if let (Role::Leading { until, .. }, Some(allowance)) = (&*role, allowance) {
                    allowance.expires_at = allowance.expires_at.max(*until);
                }
                role.clone()
            }
        }
    }
}
