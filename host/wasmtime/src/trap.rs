//! Explains the traps of handlers.

use wasmtime::Trap;
use wasmtime::component::ResourceTableError;

/// Returns the reason why a handler trapped or could not start, in words for its author.
pub(super) fn explain(error: &wasmtime::Error) -> String {
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
