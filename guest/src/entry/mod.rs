//! The entry points by which platforms call the component: requests and answers, as pure functions
//! over values. Each call is one whole turn ([`tenure_core::OneTurn`]), or a read.
//!
//! | request | answer |
//! |---|---|
//! | `POST /tick` | one turn, with the bearer token `TENURE_TICK_TOKEN` |
//! | `GET /leader` | the current leader |
//! | `GET /healthz` | 200 if the settings are valid; sends no request |
//!
//! The status of a turn is 200 if it succeeded, if another candidate led, or if nothing was due. It
//! is 500 if the handler failed or overran, which needs attention. It is 503 if the service was
//! unreachable, if no candidate won in time, or if settings are missing. Calling again is always
//! harmless: a claimed slot is not run again, except with at-least-once delivery.
//!
//! `wasi:cli/run` prints the same JSON and succeeds if the status would be 200. So does Spin's
//! `handle-cron-event`, with the JSON as its error.
//!
//! A handler that traps ends the whole instance, including this part. There is no answer, and the
//! slot stays claimed. The lease is not released but runs out, within
//! [`tenure_core::Timings::lease`].

mod access;
mod answer;
mod route;

pub use access::{Access, Admission, variable};
pub use answer::{
    Answer, healthy_answer, invalid_settings_answer, leader_answer, public_settings_answer,
    refusal_answer, turn_answer, unreachable_answer,
};
pub use route::{Refusal, Route};
