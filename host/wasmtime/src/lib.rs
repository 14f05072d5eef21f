//! Hosts WebAssembly components for the crate [`tenure`]: the election component and handlers. The
//! election component makes the decisions in an election; handlers are the work of a leader.
//!
//! ```no_run
//! use tenure_clock::BootClock;
//! use tenure::handler;
//! use tenure::engine::Runner;
//! use tenure::settings::{Credential, Schedule, Settings};
//! use tenure::engine::CandidateSettings;
//! use tenure_wasmtime::{ElectionComponent, Engine};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! // One engine for all components of a process; it caches compiled code.
//! let (engine, clock) = (Engine::new()?, BootClock::new());
//! let settings = Settings::new("jobs/nightly-report", Credential::Environment);
//! let settings = CandidateSettings::from(settings).with_schedule(Schedule::WhileLeading);
//! let elector = ElectionComponent::new(&engine, settings, &clock)?;
//! // Returns all complaints about the settings at once, and sends nothing.
//! elector.check().await?;
//! let work = handler::from_fn(|turn, _lease| async move {
//!     println!("it leads under term {}", turn.term);
//!     std::future::pending().await
//! });
//! Runner::new(elector, work, clock).run(tenure::shutdown_signal()).await;
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! - `component`, on by default: embeds the election component in the library. Without it, the
//!   component is provided at run time ([`ElectionComponent::with_binary`]).
//! - `compose`: composes an election and a handler into one component, for platforms that own the
//!   timer (`compose`).

#![deny(missing_docs)]

mod bindings;
mod cache;
#[cfg(feature = "compose")]
pub mod compose;
mod context;
mod election;
mod engine;
mod error;
mod handler;
mod instances;
mod limits;
mod linker;
mod permits;
mod surroundings;
#[cfg(test)]
mod tests;
mod ticker;

use context::{Context, Grant, Output, store};
#[cfg(feature = "component")]
pub use election::ELECTION_COMPONENT;
pub use election::ElectionComponent;
use engine::ComponentGuard;
pub use engine::Engine;
#[cfg(test)]
use engine::MAX_IDLE_INSTANCES;
pub use error::{CheckError, ComponentError, EngineError};
pub use handler::{ComponentHandler, InvalidHandler, MEMORY_LIMIT, Options};
use linker::linker;
pub use surroundings::{Network, NetworkFailure, Surroundings};

/// The handler of `examples/rust` embedded in this crate, for the demo and the tests.
#[doc(hidden)]
#[cfg(feature = "example")]
pub const EXAMPLE_HANDLER: &[u8] = include_bytes!(env!("TENURE_EXAMPLE_HANDLER"));
