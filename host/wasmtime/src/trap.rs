//! What is told of a handler that did not come to its end.

use wasmtime::Trap;
use wasmtime::component::ResourceTableError;

/// Why a handler trapped, or could not be started, in words that help its author.
pub(super) fn explain(error: &wasmtime::Error) -> String {
    match error.downcast_ref::<Trap>() {
        Some(Trap::UnreachableCodeReached) => {
            return "it gave up, by a panic or an abort; its standard error may say why".to_owned();
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
