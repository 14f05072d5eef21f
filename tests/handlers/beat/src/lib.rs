//! A leader handler for the tests: beats at a sink while its turn lasts.
//!
//! `BEAT_URL`: where each beat is POSTed to, as `{"term":…,"slot":…,"beat":…}`, with `"share":…,"shares":…` where work is
//! split.
//! `BEAT_EVERY_MS`: the pause between beats (20). `BEAT_FOR_MS`: the length of a turn (1000).
//! A beat that fails is left out: the sink judges by what arrives.
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
                // Against the start, so that slow answers do not stretch the rhythm.
                let next = every * beat;
                std::thread::sleep(next.saturating_sub(started.elapsed()));
            }
            Ok(())
        }
    }

    export!(Beat);

    fn milliseconds(name: &str, default: u64) -> Duration {
        let given = std::env::var(name).ok().and_then(|value| value.parse().ok());
        Duration::from_millis(given.unwrap_or(default))
    }
}
