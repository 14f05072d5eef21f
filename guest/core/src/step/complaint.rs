//! Complaints about settings.

use core::fmt;
use tenure_base::prelude::*;

/// A setting, identified by its environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SettingId(&'static str);

impl SettingId {
    /// Creates the id of the setting that this variable sets.
    #[must_use]
    pub const fn new(variable: &'static str) -> Self {
        Self(variable)
    }

    /// Returns its environment variable.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        self.0
    }

    /// Returns the name of the field in the Rust library: `max_tenure` for `TENURE_MAX_TENURE`. A
    /// credential has no field: its variable is returned.
    #[must_use]
    pub fn field_name(self) -> String {
        match self.0.strip_prefix("TENURE_") {
            Some(name) => name.to_ascii_lowercase(),
            None => self.0.into(),
        }
    }
}

/// One problem with the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The setting with the problem.
    pub setting: SettingId,
    /// The value, unless it is secret, and the rule that it breaks.
    pub problem: String,
    /// The action that solves it.
    pub advice: String,
}

impl Complaint {
    /// Joins all complaints into one text.
    #[must_use]
    pub fn join_all(complaints: &[Self]) -> String {
        complaints.iter().map(ToString::to_string).collect::<Vec<_>>().join(". ")
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.setting.variable(), self.problem, self.advice)
    }
}
