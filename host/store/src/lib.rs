//! The embedded blob store: the pure lease state machine of the Azure Blob service, with an HTTP
//! server.
//!
//! It replaces the service in the demo, the tests and the simulation. So these need no account, and
//! no Node.js for an emulator. It models the *service* as Microsoft documents it, and as
//! Microsoft's own live tests expect it (see `tests/matrix.rs`). The leases of the emulator Azurite
//! differ. The store supports the requests that elections and tests of lease code send, with or
//! without an SDK. Everything else of Blob Storage is refused with 501 (see [`Service`]).
//!
//! [`Service::handle`] is a function of its state, the time and the request. It has no I/O, clock
//! or hidden randomness, so a run can be repeated exactly. [`serve_with_clock`] and [`Store`] only
//! add transport and time.
//!
//! ```
//! use tenure_store::{Account, Now, Request, Service};
//! use std::time::Duration;
//!
//! let mut service = Service::new(vec![Account::emulator()], 1);
//! let now = Now { elapsed: Duration::ZERO, wall: chrono::Utc::now() };
//! let request = Request::new("PUT", "/devstoreaccount1/leases?restype=container");
//! let response = service.handle(now, &request);
//! assert_eq!(response.status, 401); // not signed
//! assert_eq!(response.code(), Some("NoAuthenticationInformation"));
//! ```

mod account;
mod address;
mod auth;
mod blob;
mod blobs;
mod code;
mod connection;
mod dispatch;
mod headers;
mod http1;
mod lease;
mod listing;
mod operation;
pub mod sas;
mod server;
mod service;
mod wire;

pub use account::{Account, AccountError, EMULATOR_ACCOUNT, EMULATOR_KEY, KeyName};
pub use headers::OLDEST_VERSION;
pub use http1::request_head;
pub use lease::State as LeaseState;
pub use operation::help;
pub use server::{Store, run, serve_with_clock, system_clock};
pub use service::{Entry, Log, Service};
pub use wire::{Clock, MAX_BODY, Now, OperationKind, Request, Response};
