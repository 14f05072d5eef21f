//! Problems of a connection string or a SAS, with advice.

use tenure_base::prelude::*;

/// One problem with a setting. Never holds a part of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The problem: one sentence.
    pub problem: String,
    /// The advice: one sentence.
    pub advice: String,
}
