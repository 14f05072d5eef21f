//! What is tried, one thing after the other.

use tenure_azure::operation::Operation;

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
    Break,
    Delete,
    /// What the account says of itself.
    Account,
    Done,
}

impl Stage {
    /// What it is called in findings.
    pub fn check(self, operation: &Operation) -> &'static str {
        match self {
            Self::AcquireHeld => "exclusion",
            Self::WriteStale => "conditions",
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
            AcquireAgain => Break,
            Break => Delete,
            Delete => Account,
            Account | Done => Done,
        }
    }
}
