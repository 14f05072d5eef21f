//! The texts that values are made of.

use std::ffi::OsString;

/// One text of a value. A list has several.
#[derive(Clone)]
pub(crate) struct Word {
    pub text: OsString,
    /// Where it stands in the file; empty elsewhere.
    pub place: String,
}
