//! Which version of the program this is.

/// The number of this version, and what it was built from.
pub(super) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("TENURE_BUILD"));
