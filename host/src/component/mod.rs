//! WebAssembly: the engine, and the election component on it.

mod bindings;
mod cache;
mod context;
mod election;
mod engine;
mod error;
mod examination;
mod holdings;
mod limits;
mod outgoing;
mod output;
mod places;
mod surroundings;
#[cfg(test)]
mod tests;

pub(crate) use bindings::{leader, types};
pub(crate) use context::{Context, Grant, linker, store};
pub use election::{ELECTION_COMPONENT, ElectionComponent};
pub use engine::Engine;
pub use error::{CheckError, ComponentError};
pub use examination::{DOCTOR_COMPONENT, Doctor, Finding, Verdict};
pub(crate) use output::Output;
pub use surroundings::{Network, NetworkFailure, Surroundings};
