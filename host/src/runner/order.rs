//! Orders to a running candidate.

use std::fmt;

/// An order to a running candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Give up the leadership, and let the others come first. One that does not lead does nothing.
    Resign,
    /// Give the leadership to the candidate of that name. When none announces itself in time, or this one
    /// does not lead, all stays as it is, and that is reported as a problem.
    HandOver(String),
    /// False: do not contend until the next `Ready(true)`; a leader resigns. A candidate contends while this and
    /// [`when_ready`](crate::runner::Runner::when_ready) allow it.
    Ready(bool),
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resign => f.write_str("resign"),
            Self::HandOver(to) => write!(f, "hand over to {to}"),
            Self::Ready(true) => f.write_str("contend"),
            Self::Ready(false) => f.write_str("do not contend"),
        }
    }
}
