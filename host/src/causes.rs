//! An error with all that led to it.

use std::error::Error;

/// An error of any kind.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// An error with all that led to it, in one line.
#[must_use]
pub fn causes(error: &(dyn Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |error| (*error).source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
