//! WebAssembly: the engine, and the election component on it.

mod bindings;
mod context;
mod election;
mod engine;
mod output;
#[cfg(test)]
mod tests;

pub(crate) use bindings::{leader, types};
pub(crate) use context::{Context, Grant, linker, store};
pub use election::{CheckError, ComponentError, ELECTION_COMPONENT, ElectionComponent};
pub use engine::Engine;
pub(crate) use output::Output;
