//! Building blocks of the end-to-end tests: stores, candidates as real processes, a sink that
//! records the leaders' requests, and an outsider that disturbs elections.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "only tests use this")]

pub mod azurite;
pub mod baseline;
pub mod browser;
pub mod candidate;
pub mod certificates;
pub mod chaos;
pub mod cloudflare;
pub mod compare;
pub mod credential;
pub mod examples;
pub mod foreign;
pub mod front;
pub mod holder;
pub mod identity;
pub mod killed_calls;
pub mod locks;
pub mod measure;
pub mod operator;
pub mod outsider;
pub mod platform;
pub mod port;
pub mod proxy;
pub mod reports;
pub mod sdk;
pub mod share_rounds;
pub mod sink;
pub mod store;
pub mod token;
pub mod tools;
pub mod transfers;
pub mod trials;
pub mod triggers;
pub mod wasmcloud;

use std::time::Duration;

pub use azurite::Azurite;
pub use browser::{Browser, ProcessGroup};
pub use candidate::{Candidate, Group, Line};
pub use certificates::Certificates;
pub use credential::{Access, Credential};
pub use front::{Front, Override, operation_name};
pub use holder::{Holder, HolderClient, Workload};
pub use outsider::Outsider;
pub use platform::Platform;
pub use port::reserve_port;
pub use proxy::{Mode, Proxy};
pub use reports::Reports;
pub use sink::{Beat, Sink};
pub use store::Store;

/// Limit of a wait whose condition may never hold: far longer than any machine takes. A wait for a
/// process also ends with the process.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// Path of the component that beats at a [`Sink`].
pub const BEAT_HANDLER: &str = env!("TENURE_BEAT_HANDLER");

/// Path of the component that misbehaves in a selected mode.
pub const UNRULY_HANDLER: &str = env!("TENURE_UNRULY_HANDLER");

/// Path of the service that `deploy/wasmcloud` runs with two components.
pub const SERVICE: &str = env!("TENURE_SERVICE");
