//! WebAssembly: the engine, and the election component on it.

mod alarm;
pub(crate) mod bindings;
mod cache;
mod compiled;
mod context;
mod election;
mod engine;
mod error;
mod functions;
mod holdings;
mod instances;
mod last_step;
mod last_words;
mod limits;
mod linker;
mod output;
mod places;
mod surroundings;
#[cfg(test)]
mod tests;
mod ticker;
mod wasi_http;

pub(crate) use compiled::Kept;
pub(crate) use context::{Context, Grant, store};
#[cfg(feature = "component")]
pub use election::ELECTION_COMPONENT;
pub use election::ElectionComponent;
pub use engine::Engine;
#[cfg(test)]
use engine::RESTING;
pub use error::{CheckError, ComponentError, EngineError};
pub(crate) use linker::linker;
pub(crate) use output::Output;
pub use surroundings::{Network, NetworkFailure, Surroundings};
