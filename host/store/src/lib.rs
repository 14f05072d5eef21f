//! The embedded blob store: the lease state machine of the Azure Blob service, pure, with an HTTP face.
//!
//! It plays the service for the demo, the tests and the simulation, so that none of them needs an account or Node.
//! Modelled on the *service* as Microsoft documents and tests it, not on the emulator Azurite, whose leases differ.
//! It answers what elections and tests of lease code send, with an SDK or without one. Everything else of Blob Storage
//! is refused with 501 (see [`Service`]).
//!
//! [`Service::handle`] is a function of its state, the time and the request: no I/O, no clock and no hidden
//! randomness, so a run can be repeated exactly. [`serve_by`] and [`Store`] only move bytes and time.
//!
//! ```
//! use tenure_store::{Account, Now, Request, Service};
//! use std::time::Duration;
//!
//! let mut service = Service::new(vec![Account::emulator()], 1);
//! let now = Now { elapsed: Duration::ZERO, wall: chrono::Utc::now() };
//! let answer = service.handle(now, &Request::new("PUT", "/devstoreaccount1/leases?restype=container"));
//! assert_eq!(answer.status, 401); // it was not signed
//! assert_eq!(answer.code(), Some("NoAuthenticationInformation"));
//! ```

mod account;
mod address;
mod auth;
mod blob;
mod blobs;
mod call;
mod checksum;
mod code;
mod condition;
mod connection;
mod containers;
mod generator;
mod handling;
mod headers;
mod http1;
mod lease;
mod leases;
mod listing;
mod log;
mod manual;
mod operation;
mod range;
pub mod sas;
mod server;
mod service;
mod verb;
mod wire;

pub use account::{Account, AccountError, EMULATOR_ACCOUNT, EMULATOR_KEY, KeyName};
pub use headers::OLDEST_VERSION;
pub use http1::request_head;
pub use lease::State as LeaseState;
pub use log::{Entry, Log};
pub use manual::help;
pub use server::{Store, run, serve_with_clock, system_clock};
pub use service::Service;
pub use verb::Verb;
pub use wire::{Clock, MAX_BODY, Now, Request, Response};
