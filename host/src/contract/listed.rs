//! A candidate that was seen lately, as programs are told of it.

use super::{Listed, rfc3339};
use serde_json::{Value, json};

/// One object of `tenure candidates --json` and of `/candidates`. `now` is in nanoseconds since 1970.
#[must_use]
pub fn candidate_as_json(candidate: &Listed, now: u64) -> Value {
    let Listed { name, address, paused, failover, seen } = candidate;
    json!({
        "name": name,
        "address": address,
        "paused": paused,
        "failover_ms": failover.map(|within| within / 1_000_000),
        "seen": rfc3339(*seen),
        "ago_ms": now.saturating_sub(*seen) / 1_000_000,
    })
}
