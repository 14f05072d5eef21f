//! Functions that parse external input of Tenure.
//!
//! The fuzz targets in `tests/fuzz` call them, and an ordinary test calls them with the committed
//! corpus. A function panics when an input breaks a property.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "a panic is a finding")]

mod account;
mod answer;
mod candidate;
mod record;
mod schedule;
mod shares;
mod store;
mod token;
mod webhook;

pub use account::account;
pub use answer::{dates, listing};
pub use candidate::candidate;
pub use record::record;
pub use schedule::{durations, schedule};
pub use shares::shares;
pub use store::{store_head, store_requests};
#[cfg(feature = "program")]
pub use tenure_cli::fuzzing::{messages, settings_file};
pub use token::token;
pub use webhook::webhook;

/// A function for fuzzing.
pub type Target = fn(&[u8]);

/// All functions, by the names of their fuzz targets.
pub const TARGETS: &[(&str, Target)] = &[
    ("account", account),
    ("candidate", candidate),
    ("dates", dates),
    ("durations", durations),
    ("listing", listing),
    ("record", record),
    ("schedule", schedule),
    ("shares", shares),
    ("store_head", store_head),
    ("store_requests", store_requests),
    ("token", token),
    ("webhook", webhook),
    #[cfg(feature = "program")]
    ("messages", messages),
    #[cfg(feature = "program")]
    ("settings_file", settings_file),
];

/// Returns a field of a line-based input: the value of a `NAME=value` line.
fn variable(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
}
