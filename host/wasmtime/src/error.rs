//! Errors of the component itself.

use tenure::engine::ElectorError;
use thiserror::Error;

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
    /// The settings are wrong. Has all complaints, each with the variable of its setting.
    #[error("{}", .0.join(". "))]
    Settings(Vec<String>),
    /// The component itself failed.
    #[error(transparent)]
    Component(#[from] ComponentError),
}
