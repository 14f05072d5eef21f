//! Leader handler for the tests: sends beats to a sink during its turn.
//!
//! - `BEAT_URL`: URL to which each beat is POSTed, as `{"term":…,"slot":…,"beat":…}`. If the work
//!   is split, a beat also has `"share":…,"shares":…`.
//! - `BEAT_EVERY_MS`: interval between beats in ms (20).
//! - `BEAT_FOR_MS`: length of a turn in ms (1000).
//!
//! A failed beat is ignored: the tests only use the beats that arrive.
#![cfg_attr(
    target_family = "wasm",
    allow(unsafe_code, missing_docs, reason = "generated bindings")
)]

#[cfg(target_family = "wasm")]
#[path = "../../../../examples/rust/src/http.rs"]
mod http;

#[cfg(target_family = "wasm")]
mod handler {
    use super::http;
    use std::time::{Duration, Instant};

    wit_bindgen::generate!({ path: "../../../wit", world: "leader" });

    use exports::tenure::election::leader_handler::{Guest, Turn};

    struct Beat;

    impl Guest for Beat {
        fn on_tick(turn: Turn) -> Result<(), String> {
            let started = Instant::now();
            if let Some(share) = turn.share {
                println!("share {} of {}", share.index, share.count);
            }
            let every = milliseconds("BEAT_EVERY_MS", 20);
            let lasts = milliseconds("BEAT_FOR_MS", 1000);
            let url = std::env::var("BEAT_URL").map_err(|_| "BEAT_URL is not set".to_owned())?;
            let share = turn
                .share
                .map(|share| format!(r#","share":{},"shares":{}"#, share.index, share.count));
            let share = share.unwrap_or_default();
            let mut beat: u32 = 0;
            while started.elapsed() < lasts {
                let json = format!(
                    r#"{{"term":{},"slot":{},"beat":{beat}{share}}}"#,
                    turn.term, turn.slot
                );
                let _ = http::post_json(&url, &[], &json);
                beat += 1;
                // Counts from the start, so that slow responses do not delay later beats.
                let next = every * beat;
                std::thread::sleep(next.saturating_sub(started.elapsed()));
            }
            Ok(())
        }
    }

    export!(Beat);

    fn milliseconds(name: &str, default: u64) -> Duration {
        let configured = std::env::var(name).ok().and_then(|value| value.parse().ok());
        Duration::from_millis(configured.unwrap_or(default))
    }
}
