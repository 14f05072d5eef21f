//! A leader handler in Rust: each turn, it reports its term and slot to an HTTP endpoint.
//!
//! ```text
//! tenure run demo/report --every 5s --handler report.wasm \
//!     --env REPORT_URL=http://127.0.0.1:8080/report --allow-host 127.0.0.1:8080
//! ```
//!
//! Without `REPORT_URL` it only prints a line. The endpoint should refuse a term smaller than one
//! that it has seen. That makes late requests of a former leader harmless.
#![cfg_attr(
    target_family = "wasm",
    allow(unsafe_code, missing_docs, reason = "generated bindings")
)]

#[cfg(target_family = "wasm")]
mod http;

#[cfg(target_family = "wasm")]
mod handler {
    use super::http;
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    use std::time::{Duration, SystemTime};

    wit_bindgen::generate!({ path: "../../wit", world: "leader" });

    use exports::tenure::election::leader_handler::{Guest, Turn};

    /// Characters of an election's name that are escaped; `tenure run` uses the same set.
    const NAME: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~')
        .remove(b'/')
        .remove(b'$');

    struct Report;

    impl Guest for Report {
        fn on_tick(turn: Turn) -> Result<(), String> {
            // A slot is in nanoseconds since the epoch, by the storage service's clock.
            let slot = SystemTime::UNIX_EPOCH + Duration::from_nanos(turn.slot);
            let slot = humantime::format_rfc3339(slot);
            println!("slot {slot}, term {}", turn.term);
            let Ok(url) = std::env::var("REPORT_URL") else {
                return Ok(());
            };
            // URL encoding, because a header cannot carry every name and JSON would need escapes.
            let election = utf8_percent_encode(&turn.election, NAME);
            let body = format!(
                r#"{{"election":"{election}","term":{},"slot":"{slot}","attempt":{},"past_due":{}}}"#,
                turn.term, turn.attempt, turn.past_due
            );
            // `tenure run` sets the election and its term on every request. Other hosts do not. The
            // key is the same for all attempts at this turn.
            let stamps = [
                ("tenure-election", election.to_string()),
                ("tenure-term", turn.term.to_string()),
                ("idempotency-key", turn.key),
            ];
            let status = http::post_json(&url, &stamps, &body)?;
            match status {
                200..=299 => Ok(()),
                _ => Err(format!("{url} answered {status}")),
            }
        }
    }

    export!(Report);
}
