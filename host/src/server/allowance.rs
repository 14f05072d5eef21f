//! What an application that is no part of this process was told of the leadership: see
//! [`Application`](super::Application).

use std::time::Duration;

/// What an application was told of the leadership.
#[derive(Debug, Default)]
pub(super) struct Allowance {
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
