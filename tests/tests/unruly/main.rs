//! A handler that misbehaves in every way: it is ended at its deadline, and neither the runner nor
//! the election suffers from it.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod clock;
mod ends;
mod harm;
mod requests;
mod runner;
mod stage;
