//! The work of a leader as a URL: each turn is posted to `TENURE_HANDLER_URL`, as JSON.
//!
//! What is sent and what an answer means is pure. `tenure.wasm` and `tenure run --webhook` send it.
//!
//! | variable | meaning |
//! |---|---|
//! | `TENURE_HANDLER_URL` | where to, `http://` or `https://` |
//! | `TENURE_HANDLER_TIMEOUT` | the longest that the call may take; in one invocation never longer than the turn is valid |
//! | `TENURE_HANDLER_TOKEN`, or `…_FILE` | a token, for the header `authorization` behind `Bearer` |
//! | `TENURE_HANDLER_SECRET`, or `…_FILE` | secrets, `whsec_…`: the call is signed with each of them |
//!
//! They are judged with all other settings, before anything is sent: a slot that was claimed for work that cannot be
//! done would be spent.
//!
//! An answer of the class 2xx is a turn that succeeded; any other, or none, is one that failed. The header
//! `idempotency-key` is the same for all attempts of a turn and another for every other turn, also of
//! other elections; `tenure-election` tells the election, whose terms are no other's. A call is a CloudEvent in the
//! binary mode of HTTP, and signed by the scheme of Standard Webhooks. The work behind the URL is not ours to stop: the
//! term and that key protect it.

#![deny(missing_docs)]
#![cfg_attr(target_family = "wasm", no_std)]

mod call;
mod credentials;
mod header;
mod target;
pub mod variable;

pub use call::{Call, election_value, body_limit};
pub use credentials::Credentials;
pub use header::{ELECTION_HEADER, KEY_HEADER, TERM_HEADER, TRIGGER_HEADER};
pub use target::Target;
