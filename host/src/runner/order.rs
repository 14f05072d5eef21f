//! Orders to a running candidate.

use std::fmt;

/// An order to a running candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Give up leadership and let other candidates go first. Ignored if this candidate does not
    /// lead.
    Resign,
    /// Transfer leadership to the candidate of that name.
    ///
    /// If that candidate does not announce itself in time, or this one does not lead, nothing
    /// changes. A problem reports it.
    HandOver(String),
    /// Contend, or if false, do not contend until the next `Ready(true)`; a leader then resigns.
    ///
    /// A candidate contends while both this and [`when_ready`](crate::runner::Runner::when_ready)
    /// allow it.
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
