//! The tail of a component's standard error. After a panic it has the message that the trap lacks.

use super::error::ComponentError;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of the component's standard error that are kept, for the text of a trap.
const TAIL_BYTES: usize = 2048;

/// The newest bytes of the component's standard error.
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

    pub(super) fn explain(&self, error: &wasmtime::Error) -> ComponentError {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let message = text.trim();
        match message {
            "" => ComponentError::from_wasmtime(error),
            message => ComponentError::new(format!("{message} ({:#})", error.root_cause())),
        }
    }
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
