//! The work of a leader as a URL: each turn is posted to `TENURE_HANDLER_URL`, as JSON.
//!
//! This crate builds the request and evaluates the response, without I/O. `tenure.wasm` and
//! `tenure run --webhook` send it.
//!
//! | variable | meaning |
//! |---|---|
//! | `TENURE_HANDLER_URL` | the target, `http://` or `https://` |
//! | `TENURE_HANDLER_TIMEOUT` | time-out of a call; in `tenure.wasm` at most the rest of the turn |
//! | `TENURE_HANDLER_TOKEN`, or `…_FILE` | a token, sent as `authorization: Bearer TOKEN` |
//! | `TENURE_HANDLER_SECRET`, or `…_FILE` | secrets, `whsec_…`: each of them signs the call |
//!
//! The variables are validated together with all other settings, before anything is sent: a slot
//! that was claimed for impossible work would be lost.
//!
//! A response of the class 2xx means that the turn succeeded; any other, or none, means that it
//! failed. The header `idempotency-key` is the same for all attempts at a turn and different for
//! every other turn of any election. `tenure-election` names the election, to which the term
//! belongs. A call is a CloudEvent in the binary mode of HTTP, signed by the scheme of Standard
//! Webhooks.
//!
//! The caller cannot stop the work behind the URL. The term lets the receiver refuse stale leaders,
//! and the idempotency key lets it refuse repeated calls.

#![deny(missing_docs)]
#![cfg_attr(target_family = "wasm", no_std)]

mod call;
mod settings;

pub use call::{
    Call, ELECTION_HEADER, KEY_HEADER, TERM_HEADER, TRIGGER_HEADER, body_limit, election_value,
};
pub use settings::{Credentials, Target, variable};
