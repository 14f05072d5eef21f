//! What is told of a handler that did not come to its end, or has too much to say.

use wasmtime::Trap;
use wasmtime::component::ResourceTableError;

/// Bytes of a handler's error that are handed on. It is for people.
const ERROR: usize = 4096;

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

/// A handler's error, not endless.
pub(super) fn shortened(mut text: String) -> String {
    if text.len() > ERROR {
        text.truncate(text.floor_char_boundary(ERROR));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_two_characters() {
        assert_eq!(shortened("x".repeat(ERROR)), "x".repeat(ERROR));
        let cut = shortened(format!("x{}", "ü".repeat(ERROR)));
        assert_eq!(cut.len(), ERROR - 1 + '…'.len_utf8());
        assert!(cut.ends_with("ü…"));
    }
}
