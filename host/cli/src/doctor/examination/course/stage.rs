//! What is tried, one thing after the other.

use tenure_azure::operation::Operation;

/// By which a follower ends the lease of a leader whose promise is over, and of no other.
pub(super) const CONDITIONAL_BREAK: &str = "conditional break";

/// What is tried, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// A look at the election's blob.
    Election,
    /// Some looks more, for their times.
    Times,
    Container,
    /// Whether the doctor's blob, which is not there yet, could be removed.
    Removable,
    Create,
    Read,
    Acquire,
    /// By another, which has to be refused.
    AcquireHeld,
    Write,
    /// Over what was written since, which has to be refused.
    WriteStale,
    Renew,
    Change,
    Release,
    /// Once more, so that there is a lease to break.
    AcquireAgain,
    /// Of what was written over since, which has to be refused.
    BreakStale,
    /// Whether that left the lease.
    StillHeld,
    /// Of what is there.
    Break,
    Delete,
    /// What the account says of itself.
    Account,
    Done,
}

impl Stage {
    /// Whether it is only a step on the way to the next one, with no line of its own.
    pub fn is_silent(self) -> bool {
        matches!(self, Self::Read | Self::AcquireAgain | Self::StillHeld)
    }

    /// What it is called in findings.
    pub fn check(self, operation: &Operation) -> &'static str {
        match self {
            Self::AcquireHeld => "exclusion",
            Self::WriteStale => "conditions",
            Self::BreakStale | Self::StillHeld => CONDITIONAL_BREAK,
            _ => operation.name(),
        }
    }

    pub fn next(self) -> Self {
        use Stage::*;
        match self {
            Election => Times,
            Times => Removable,
            Container | Removable => Create,
            Create => Read,
            Read => Acquire,
            Acquire => AcquireHeld,
            AcquireHeld => Write,
            Write => WriteStale,
            WriteStale => Renew,
            Renew => Change,
            Change => Release,
            Release => AcquireAgain,
            AcquireAgain => BreakStale,
            BreakStale => StillHeld,
            StillHeld => Break,
            Break => Delete,
            Delete => Account,
            Account | Done => Done,
        }
    }
}
