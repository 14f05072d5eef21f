//! What is wrong with a connection string or a SAS, and what to do about it.

use tenure_base::prelude::*;

/// One thing that is wrong with a setting, for people. Never holds a part of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong: one sentence.
    pub problem: String,
    /// What to do about it: one sentence.
    pub advice: String,
}
