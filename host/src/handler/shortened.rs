//! What is told of a handler that has too much to say.

/// Bytes of a handler's error that are handed on. It is for people.
const ERROR: usize = 4096;

/// A handler's error, not endless.
pub fn shortened(mut text: String) -> String {
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
