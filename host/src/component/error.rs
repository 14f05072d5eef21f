//! What can go wrong with the component itself.

use crate::contract::Complaint;
use std::fmt;

/// The component trapped, broke its contract, or could not be loaded. The text says which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentError(String);

impl ComponentError {
    /// A failure that `text` describes.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(super) fn of(error: &wasmtime::Error) -> Self {
        Self(format!("{error:#}"))
    }
}

impl fmt::Display for ComponentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the election component failed: {}", self.0)
    }
}

impl std::error::Error for ComponentError {}

/// WebAssembly cannot be run in this process. The text says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineError(String);

impl EngineError {
    pub(super) fn of(error: &wasmtime::Error) -> Self {
        Self(format!("{error:#}"))
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebAssembly cannot be run here: {}", self.0)
    }
}

impl std::error::Error for EngineError {}

/// Why [`ElectionComponent::check`](super::ElectionComponent::check) did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckError {
    /// The settings are wrong.
    Settings(Vec<Complaint>),
    /// The component itself failed.
    Component(ComponentError),
}

impl From<ComponentError> for CheckError {
    fn from(error: ComponentError) -> Self {
        Self::Component(error)
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Component(error) => error.fmt(f),
            Self::Settings(complaints) => {
                for (number, complaint) in complaints.iter().enumerate() {
                    let before = if number == 0 { "" } else { ". " };
                    let Complaint { setting, problem, advice } = complaint;
                    write!(f, "{before}{setting}: {problem}; {advice}")?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for CheckError {}
