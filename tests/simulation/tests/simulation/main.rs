//! Elections in virtual time. These tests compute, and wait for nothing.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod comparison;
mod exploration;
mod mutants;
mod schedules;
