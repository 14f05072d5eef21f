//! A candidate that was seen lately, as programs are told of it.

use super::{Listed, rfc3339};
use serde_json::{Value, json};

/// In nanoseconds: half an hour.
const LATELY: u64 = 30 * 60 * 1_000_000_000;

/// Whether it was seen in the last half hour: a list is read every ten minutes. `now` is in nanoseconds since 1970.
#[must_use]
pub fn seen_lately(candidate: &Listed, now: u64) -> bool {
    now.saturating_sub(candidate.seen) <= LATELY
}

/// One object of `candidates` in `tenure status --json`, and of `/candidates`. `now` is in nanoseconds since 1970.
#[must_use]
pub fn candidate_as_json(candidate: &Listed, now: u64) -> Value {
    let Listed { name, address, ready, failover, seen } = candidate;
    json!({
        "name": name,
        "address": address,
        "ready": ready,
        "failover_ms": failover.map(|within| within / 1_000_000),
        "seen": rfc3339(*seen),
        "ago_ms": now.saturating_sub(*seen) / 1_000_000,
    })
}
