//! One large fleet, and its figures.

use std::process::ExitCode;

/// Runs it.
#[must_use]
pub fn run(_seed: u64, _members: usize, _shares: u32) -> ExitCode {
    ExitCode::SUCCESS
}
