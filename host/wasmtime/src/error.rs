//! Errors of the component itself, and texts that explain traps.

use std::sync::{Arc, Mutex, PoisonError};
use tenure::engine::ElectorError;
use thiserror::Error;
use wasmtime::Trap;
use wasmtime::component::ResourceTableError;

/// An error of the component: it trapped, broke its contract, or could not be loaded. The text has
/// the details.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the election component failed: {0}")]
pub struct ComponentError(String);

impl ComponentError {
    /// Creates an error with the description `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(super) fn from_wasmtime(error: &wasmtime::Error) -> Self {
        Self(format!("{error:#}"))
    }
}

impl From<ComponentError> for ElectorError {
    fn from(error: ComponentError) -> Self {
        Self::new(error.to_string())
    }
}

/// An error that prevents WebAssembly from running in this process. The text has the details.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("WebAssembly cannot be run here: {0}")]
pub struct EngineError(String);

impl EngineError {
    pub(super) fn from_wasmtime(error: &wasmtime::Error) -> Self {
        Self(format!("{error:#}"))
    }
}

/// An error of [`ElectionComponent::check`](super::ElectionComponent::check).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CheckError {
    /// The settings are invalid. Contains all complaints, each with the variable of its setting.
    #[error("{}", .0.join(". "))]
    Settings(Vec<String>),
    /// The component itself failed.
    #[error(transparent)]
    Component(#[from] ComponentError),
}

/// Maximum length of [`StderrTail`], in bytes.
const TAIL_BYTES: usize = 2048;

/// The newest bytes of the component's standard error. After a panic, they contain its message,
/// which the trap lacks.
#[derive(Clone, Default)]
pub(super) struct StderrTail(Arc<Mutex<String>>);

impl StderrTail {
    pub(super) fn add(&self, line: &str) {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        text.push_str(line);
        text.push(' ');
        let excess = text.len().saturating_sub(TAIL_BYTES);
        let cut = text.ceil_char_boundary(excess);
        text.drain(..cut);
    }

    /// Returns the error of a trap, with the text on standard error if there is any.
    pub(super) fn explain(&self, error: &wasmtime::Error) -> ComponentError {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let message = text.trim();
        match message {
            "" => ComponentError::from_wasmtime(error),
            message => ComponentError::new(format!("{message} ({:#})", error.root_cause())),
        }
    }
}

/// Returns the reason why a handler trapped or could not start, for its author.
pub(super) fn explain_trap(error: &wasmtime::Error) -> String {
    match error.downcast_ref::<Trap>() {
        Some(Trap::UnreachableCodeReached) => {
            return "it panicked or aborted; its standard error may say why".to_owned();
        }
        Some(Trap::StackOverflow) => {
            return "its calls nest too deeply: the stack is full".to_owned();
        }
        _ => {}
    }
    if let Some(ResourceTableError::Full) = error.downcast_ref() {
        return "it holds too many of the host's resources at a time: streams, requests, pollables"
            .to_owned();
    }
    format!("{:#}", error.root_cause())
}

#[cfg(test)]
mod tests {
    use super::StderrTail;

    #[test]
    fn a_panic_message_becomes_the_error() {
        let tail = StderrTail::default();
        tail.add("panicked at guest/src/wasi/mod.rs:1:2:");
        tail.add("no way");
        let message = tail.explain(&wasmtime::Error::msg("wasm trap: unreachable")).to_string();
        let expected = "panicked at guest/src/wasi/mod.rs:1:2: no way (wasm trap: unreachable)";
        assert!(message.ends_with(expected), "{message}");
    }
}
