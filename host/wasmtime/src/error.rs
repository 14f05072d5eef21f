//! What can go wrong with the component itself.

use tenure::engine::ElectorError;
use thiserror::Error;

/// The component trapped, broke its contract, or could not be loaded. The text says which.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the election component failed: {0}")]
pub struct ComponentError(String);

impl ComponentError {
    /// A failure that `text` describes.
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

/// WebAssembly cannot be run in this process. The text says why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("WebAssembly cannot be run here: {0}")]
pub struct EngineError(String);

impl EngineError {
    pub(super) fn from_wasmtime(error: &wasmtime::Error) -> Self {
        Self(format!("{error:#}"))
    }
}

/// Why [`ElectionComponent::check`](super::ElectionComponent::check) did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CheckError {
    /// The settings are wrong: all complaints, each with the variable of its setting.
    #[error("{}", .0.join(". "))]
    Settings(Vec<String>),
    /// The component itself failed.
    #[error(transparent)]
    Component(#[from] ComponentError),
}
