//! Problems of a connection string or a SAS, with advice.

use tenure_base::prelude::*;

/// A problem with a setting. It contains no part of a setting's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The problem: one sentence.
    pub problem: String,
    /// The advice: one sentence.
    pub advice: String,
}
