//! The version of the program.

/// The version number, followed by the commit and its date.
pub(super) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("TENURE_BUILD"));
