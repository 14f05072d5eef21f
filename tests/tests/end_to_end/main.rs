//! End-to-end tests with real processes, networks and stores. Most tests wait, for example until a
//! lease expires. They share one program, so that they wait concurrently.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod account;
#[cfg(target_os = "linux")]
mod application;
mod candidates;
mod chaos;
#[cfg(unix)]
mod cloudflare;
#[cfg(unix)]
mod commands;
mod compare;
mod elections;
mod electors;
mod fencing;
mod foreign_credentials;
mod foreign_hosts;
#[cfg(target_os = "linux")]
mod hidden_processes;
mod https;
mod identity;
#[cfg(target_os = "linux")]
mod image;
mod languages;
#[cfg(target_os = "linux")]
mod last_will;
mod listening;
#[cfg(target_os = "linux")]
mod lock;
mod mixed_platforms;
mod packaging;
mod page;
mod problems;
mod program;
mod progress;
mod proxies;
mod rotation;
mod sas;
mod scenarios;
mod sdks;
mod secrets;
mod shares;
#[cfg(unix)]
mod sidecars;
mod slots;
mod status;
#[cfg(unix)]
mod steering;
#[cfg(unix)]
mod telemetry;
#[cfg(unix)]
mod triggers;
mod universal;
mod unruly_processes;
#[cfg(target_os = "linux")]
mod wasmcloud;
#[cfg(unix)]
mod watching;
#[cfg(unix)]
mod webhook;

/// `tenure`, like an installed one.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_tenure-under-test");
