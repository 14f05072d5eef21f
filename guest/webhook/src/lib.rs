//! The handler that is built into `tenure.wasm`: each turn is one POST to `TENURE_HANDLER_URL`, with
//! the turn as JSON.
//!
//! | variable | meaning |
//! |---|---|
//! | `TENURE_HANDLER_URL` | where to, `http://` or `https://` |
//! | `TENURE_HANDLER_TIMEOUT` | the longest that the call may take; never longer than the turn is valid |
//! | `TENURE_TERM_HEADER` | the header that carries the term; default `tenure-term` |
//!
//! An answer of the class 2xx is a turn that succeeded; any other, or none, is one that failed. A
//! turn is one call: only the rule of delivery repeats it, as another attempt. The header
//! `idempotency-key` is the same for all attempts of a turn, and the work behind the URL is not
//! ours to stop: the term and that key protect it.

#![deny(missing_docs)]
#![cfg_attr(target_family = "wasm", no_std, allow(unsafe_code, reason = "generated bindings"))]

extern crate alloc;

pub mod call;
#[cfg(target_family = "wasm")]
mod send;
mod time;

#[cfg(target_family = "wasm")]
mod component {
    use super::call::{Call, Turn};
    use super::send::send;
    use alloc::string::String;
    use core::time::Duration;

    /// What the macro makes of `wit/`.
    mod bindings {
        #![allow(missing_docs, clippy::all)]
        wit_bindgen::generate!({ path: "../../wit", world: "leader" });
        export!(Webhook with_types_in self);
        use super::Webhook;
    }

    use bindings::exports::tenure::election::leader_handler::{self, Guest};

    struct Webhook;

    impl Guest for Webhook {
        fn on_tick(turn: leader_handler::Turn) -> Result<(), String> {
            let environment = wasip2::cli::environment::get_environment();
            let limit = turn.time_limit.unwrap_or(u64::MAX);
            let call = Call::of(
                &Turn {
                    term: turn.term,
                    slot: turn.slot,
                    value: turn.value.as_deref(),
                    attempt: turn.attempt,
                    past_due: turn.past_due,
                    valid_for: Duration::from_nanos(turn.valid_for.min(limit)),
                },
                |name| {
                    let known = environment.iter().find(|(known, _)| known == name);
                    known.map(|(_, value)| value.as_str())
                },
            )?;
            send(&call)
        }
    }
}
