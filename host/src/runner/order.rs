//! What an operator orders a candidate to do while it runs.

use crate::contract::Event as Word;
use std::fmt;

/// An order of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Give up the leadership, and let the others come first. One that does not lead does nothing.
    Resign,
    /// Give the leadership to the candidate of that name. When none announces itself in time, or this one
    /// does not lead, all stays as it is, and that is reported as a problem.
    HandOver(String),
    /// Do not contend until [`Resume`](Order::Resume); a leader resigns.
    Pause,
    /// Contend again, unless its process is not ready.
    Resume,
}

impl Order {
    pub(super) fn word(&self) -> Word {
        match self {
            Self::Resign => Word::Resign,
            Self::HandOver(to) => Word::HandOver(to.clone()),
            Self::Pause => Word::Ready(false),
            Self::Resume => Word::Ready(true),
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resign => f.write_str("resign"),
            Self::HandOver(to) => write!(f, "hand over to {to}"),
            Self::Pause => f.write_str("pause"),
            Self::Resume => f.write_str("resume"),
        }
    }
}
