//! Elections in virtual time. These tests only compute and never wait.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod comparison;
mod exploration;
mod mutants;
mod schedules;
