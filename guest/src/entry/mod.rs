//! The entries by which platforms call the component: what a request asks for and what it is answered,
//! as pure functions over values. Each call is one whole turn ([`tenure_core::OneTurn`]), or a look.
//!
//! | request | answer |
//! |---|---|
//! | `POST /tick` | one turn, with the bearer token `TENURE_TICK_TOKEN` |
//! | `GET /leader` | who leads |
//! | `GET /healthz` | 200 when the settings are fine; asks nobody |
//!
//! A turn's status is 200 when it took its course: it ran and succeeded, another candidate led, or nothing
//! was due. 500: the handler failed or overran, and somebody should see it. 503: the service could not be
//! asked, did not let anyone lead in time, or settings are missing. To call again is harmless at any time: a
//! claimed slot is not run again, except where at-least-once delivery wants just that.
//!
//! `wasi:cli/run` prints the same JSON and succeeds where the status would be 200; so does Spin's
//! `handle-cron-event`, with the JSON as its error.
//!
//! A handler that traps takes the whole instance with it, this part too: no answer is given, the
//! slot stays claimed, and the lease is not released but runs out, within [`tenure_core::Timings::lease`].

mod access;
mod answer;
mod route;

pub use access::{Access, Admission, variable};
pub use answer::{Answer, invalid_settings_answer, unreachable_answer, healthy_answer, leader_answer, public_settings_answer, refusal_answer, turn_answer};
pub use route::{Refusal, Route};
