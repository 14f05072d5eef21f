//! The permissions that an application received from this candidate.

use super::super::role::Role;
use super::{Board, State};
use std::time::Duration;

/// The present permission of an application.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    /// The term in which it may act: the one whose turn is running.
    pub term: Option<u64>,
    /// True if the leadership is about to be given up.
    pub winding_down: bool,
    /// True if the process is shutting down.
    pub leaving: bool,
    /// The end of the latest permission to act.
    pub expires_at: Duration,
}

impl Allowance {
    pub fn may_act(&self, term: u64) -> bool {
        self.term == Some(term) && !self.winding_down && !self.leaving
    }
}

impl Board {
    /// Starts to record the permissions of an application.
    pub(crate) fn begin_application(&self) {
        self.state().application = Some(Allowance::default());
    }

    /// Sets the term in which the application may act.
    pub(crate) fn set_term(&self, term: Option<u64>) {
        if let Some(allowance) = &mut self.state().application {
            allowance.term = term;
        }
        self.notify_changed();
    }

    /// Returns [`Board::role`] as far as the application may act on it, and records the permission
    /// given.
    pub(crate) fn allowed_role(&self, now: Duration) -> Role {
        let mut state = self.state();
        let State { role, application, .. } = &mut *state;
        match (role, application) {
            (Role::Leading { until, .. }, _) if now >= *until => Role::Undecided,
            (Role::Leading { term, .. }, Some(allowance)) if !allowance.may_act(*term) => {
                Role::Undecided
            }
            (role, allowance) => {
                if let (Role::Leading { until, .. }, Some(allowance)) = (&*role, allowance) {
                    allowance.expires_at = allowance.expires_at.max(*until);
                }
                role.clone()
            }
        }
    }
}
