//! What a component wrote before it trapped: a panic says there what the trap does not tell.

use super::error::ComponentError;
use std::sync::{Arc, Mutex, PoisonError};

/// What is kept of the component's standard error, for the text of a trap.
const LAST_WORDS: usize = 2048;

/// The newest bytes of the component's standard error.
#[derive(Clone, Default)]
pub(super) struct LastWords(Arc<Mutex<String>>);

impl LastWords {
    pub(super) fn add(&self, line: &str) {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        text.push_str(line);
        text.push(' ');
        let excess = text.len().saturating_sub(LAST_WORDS);
        let cut = text.ceil_char_boundary(excess);
        text.drain(..cut);
    }

    pub(super) fn explain(&self, error: &wasmtime::Error) -> ComponentError {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let said = text.trim();
        match said {
            "" => ComponentError::of(error),
            said => ComponentError::new(format!("{said} ({:#})", error.root_cause())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LastWords;

    #[test]
    fn the_words_of_a_panic_are_the_error() {
        let words = LastWords::default();
        words.add("panicked at guest/src/wasi/mod.rs:1:2:");
        words.add("no way");
        let told = words.explain(&wasmtime::Error::msg("wasm trap: unreachable")).to_string();
        let expected = "panicked at guest/src/wasi/mod.rs:1:2: no way (wasm trap: unreachable)";
        assert!(told.ends_with(expected), "{told}");
    }
}
