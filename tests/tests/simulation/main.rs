//! Elections in virtual time. These tests compute, and wait for nothing.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

/// As in the programs: a third of the time would go to the allocator of the C library.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod exploration;
mod mutants;
mod schedules;
