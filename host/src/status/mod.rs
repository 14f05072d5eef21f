//! The state of an election in the words of its pages and of `tenure status`.

mod clock;
mod outlook;
mod words;

use serde_json::{Value, json};
use tenure_core::{Listed, Timestamp, milliseconds};

pub use crate::settings::replacement::Replacement;
pub use clock::ClockDifference;
pub(crate) use clock::ServiceTime;
pub(crate) use outlook::wall;
pub use outlook::{ComingTurn, EndedTurn, Fares, Outlook, local_time};
#[cfg(feature = "server")]
pub(crate) use words::schedule_words;
pub use words::schedule_words_and_text;

/// One object of `candidates` in `tenure status --json`, and of `/candidates`.
#[must_use]
pub fn candidate_as_json(candidate: &Listed, now: Timestamp) -> Value {
    let Listed { name, address, ready, failover, seen } = candidate;
    json!({
        "name": name,
        "address": address,
        "ready": ready,
        "failover_ms": failover.map(milliseconds),
        "seen": seen.to_rfc3339(),
        "ago_ms": milliseconds(now.since(*seen)),
    })
}
