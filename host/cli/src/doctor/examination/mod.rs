//! An examination of a storage account: tries all that an election needs of it, on a blob of the doctor's own beside
//! the election's, and says what each answer means.
//!
//! An [`Examination`] decides what is asked and what the answers mean, and ends with [`Finding`]s; a [`Way`] brings
//! its questions to the account. The election's own blob and its lease are looked at, and never touched.

mod clock;
mod course;
mod credential;
mod facts;
mod scratch;
mod times;

pub use course::{Examination, Question, Reply, Way};

/// How good or bad something is, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As it has to be.
    Good,
    /// It could not be found out, which keeps nobody from leading.
    Unknown,
    /// A candidate can lead like this; somebody should know of it all the same.
    Warning,
    /// A candidate cannot lead like this, or not for long.
    Failed,
}

/// What one check came to. Holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was tried, in a few words: `acquire lease`.
    pub check: &'static str,
    /// What came of it.
    pub verdict: Verdict,
    /// What it means and, unless all is well, what to do about it.
    pub detail: String,
}

impl Finding {
    fn new(check: &'static str, verdict: Verdict, detail: impl Into<String>) -> Self {
        Self { check, verdict, detail: detail.into() }
    }

    pub fn good(check: &'static str, detail: impl Into<String>) -> Self {
        Self::new(check, Verdict::Good, detail)
    }

    fn unknown(check: &'static str, detail: impl Into<String>) -> Self {
        Self::new(check, Verdict::Unknown, detail)
    }

    pub fn warning(check: &'static str, detail: impl Into<String>) -> Self {
        Self::new(check, Verdict::Warning, detail)
    }

    pub fn failed(check: &'static str, detail: impl Into<String>) -> Self {
        Self::new(check, Verdict::Failed, detail)
    }
}

#[cfg(test)]
mod tests;
