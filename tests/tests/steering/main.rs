//! Operators steer real `tenure run` processes: resign, transfer, pause, resume, break.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod address;
mod daemon;
mod mistakes;
mod orders;
mod stage;
mod transfers;
