//! A handler that misbehaves in every mode: it is stopped at its deadline, without harm to the
//! runner or the election.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod clock;
mod limits;
mod requests;
mod runner;
mod stage;
mod turn_ends;
