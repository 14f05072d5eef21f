//! Texts of settings and messages: the detection of quotation marks around a value and of secrets
//! in the wrong place, the search for a text in another one, the formatting of an error chain, and
//! the detection of deceptive characters.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::error::Error;

/// Returns the text before the first `mark` and the text after it, or `None` without a `mark`.
///
/// The standard library's search is made for long texts, and would add 3 KB to the component. Its
/// `contains` of a non-ASCII character adds half of that, and `as_bytes().contains` almost nothing.
#[must_use]
pub fn cut<'t>(text: &'t str, mark: &str) -> Option<(&'t str, &'t str)> {
    let last = text.len().checked_sub(mark.len())?;
    (0..=last).find_map(|at| {
        let (before, rest) = text.split_at_checked(at)?;
        Some((before, rest.strip_prefix(mark)?))
    })
}

/// The problem with a value in quotation marks.
pub const QUOTED: &str = "the value is in quotation marks";

/// The advice for the problem [`QUOTED`].
pub const QUOTED_ADVICE: &str = "leave the quotation marks out; a shell removes them, but a container's environment and a file do not";

/// Returns true if a value still has the quotation marks that a shell would have removed.
#[must_use]
pub fn is_quoted(value: &str) -> bool {
    matches!(value.trim().as_bytes(), [b'"', .., b'"'] | [b'\'', .., b'\''])
}

/// Returns true if a value begins with a quotation mark.
#[must_use]
pub fn begins_quoted(value: &str) -> bool {
    matches!(value.trim_start().as_bytes(), [b'"' | b'\'', ..])
}

/// Formats an error and all its causes in one line.
#[must_use]
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let chain = core::iter::successors(Some(error), |error| (*error).source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Marks of connection strings, signatures, tokens and webhook secrets, in lower case.
const SECRET_MARKS: [&str; 6] =
    ["accountkey", "sharedaccesssignature", "sig=", "bearer ", "eyj0", "whsec_"];

/// Minimum length of a word that may be a key or a token, in bytes.
const MIN_SECRET_LENGTH: usize = 32;

/// Returns true if a text, or a part of it, looks like a key, a signature or a token. A complaint
/// does not show such a value.
#[must_use]
pub fn looks_secret(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let is_secret_char = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | '_' | '~' | '-' | '.' | '%')
    };
    SECRET_MARKS.iter().any(|mark| cut(&lower, mark).is_some())
        || text.split(|c| !is_secret_char(c)).any(|word| {
            let has_byte = |kind: fn(&u8) -> bool| word.as_bytes().iter().any(kind);
            let is_key = has_byte(u8::is_ascii_uppercase) && has_byte(u8::is_ascii_digit);
            // The form of `openssl rand -hex 32`.
            let is_hex = word.as_bytes().iter().all(u8::is_ascii_hexdigit);
            word.len() >= MIN_SECRET_LENGTH && (is_key || is_hex)
        })
}

/// Returns the value as a complaint shows it. A very long value, or one that looks like a misplaced
/// secret, is hidden.
#[must_use]
pub fn redact(value: &str) -> &str {
    if value.len() > 1100 || looks_secret(value) { "…" } else { value }
}

/// Returns true for characters that control a terminal or disguise a text: control characters,
/// Unicode line ends, direction marks, and the invisible byte order mark.
#[must_use]
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod secret_tests;

#[cfg(test)]
mod tests {
    use super::cut;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cut_as_the_library_cuts(text in "[abé]{0,12}", mark in "[abé]{0,3}") {
            prop_assert_eq!(cut(&text, &mark), text.split_once(&mark));
        }
    }
}
