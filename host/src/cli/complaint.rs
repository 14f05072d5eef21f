//! What is wrong with the settings, in the words of those who set them.

use std::fmt::{self, Write as _};
use std::io::Write as _;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Complaint {
    /// The flag, the variable or the file that it came from.
    pub source: String,
    /// The value, unless it is secret, and the rule.
    pub problem: String,
    /// What to do.
    pub advice: String,
}

impl Complaint {
    pub(super) fn new(
        source: impl Into<String>,
        problem: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { source: source.into(), problem: problem.into(), advice: advice.into() }
    }
}

/// All complaints, for people.
pub(super) fn report(complaints: &[Complaint]) -> String {
    let mut text = String::from(match complaints.len() {
        1 => "tenure: a setting is wrong; nothing was sent\n",
        _ => "tenure: settings are wrong; nothing was sent\n",
    });
    for Complaint { source, problem, advice } in complaints {
        let _ = write!(text, "\n  {source}\n    {problem}\n    {advice}\n");
    }
    text
}

/// Writes to standard error. Nobody reading it is no reason to fail.
pub(super) fn print(text: impl fmt::Display) {
    let _ = write!(std::io::stderr(), "{text}");
}
