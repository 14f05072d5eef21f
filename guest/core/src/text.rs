//! Which texts may stand on the record and beside the blob.
//!
//! Whoever may write to the blob may write any text there. One that no settings allow is as if it were
//! not there: it would be shown on terminals, and carried on from leader to leader in a record
//! whose size the service bounds.

use sha2::{Digest, Sha256};
use tenure_azure::percent::{self, AsciiSet};
use tenure_base::prelude::*;

/// The longest name of a candidate, in bytes.
pub const LONGEST_NAME: usize = 128;

/// The longest reason of a failure, in bytes.
pub(super) const LONGEST_REASON: usize = 200;

/// The longest id of an order, in characters.
const LONGEST_ID: usize = 64;

/// The longest address of a candidate, in bytes.
pub const LONGEST_ADDRESS: usize = 256;

/// The longest cron expression, in bytes.
pub(super) const LONGEST_CRON: usize = 256;

/// The longest schedule in words, in bytes: that of the longest cron expression, and the name of a time
/// zone.
pub(super) const LONGEST_SCHEDULE: usize = LONGEST_CRON + 64;

const ENCODED: &AsciiSet = &percent::UNRESERVED.remove(b':').remove(b'/');

/// The first 64 bits of the SHA-256.
pub(super) fn fingerprint(text: &str) -> u64 {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().take(8).fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

/// A value as metadata holds it.
pub(super) fn encode(value: &str) -> String {
    percent::encode(value, ENCODED)
}

/// A value of metadata, unless it is none of text.
pub(super) fn decode(value: &str) -> Option<String> {
    String::from_utf8(percent::decode(value)).ok()
}

/// Whether a text has no characters that change the text around them: control characters, line
/// separators, and those that turn the direction of writing (Unicode Standard Annex 9).
pub(super) fn is_plain(text: &str) -> bool {
    !text.chars().any(is_disruptive)
}

fn is_disruptive(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The beginning of a text in one line: at most so many bytes, cut between two characters.
pub(super) fn one_line(text: &str, longest: usize) -> String {
    let mut line = String::new();
    for word in text.split(|c: char| c.is_whitespace() || is_disruptive(c)).filter(|w| !w.is_empty()) {
        let space = usize::from(!line.is_empty());
        if line.len() + space >= longest {
            break;
        }
        line.extend(core::iter::repeat_n(' ', space));
        for c in word.chars() {
            if line.len() + c.len_utf8() > longest {
                return line;
            }
            line.push(c);
        }
    }
    line
}

/// Whether settings allow a text of at most so many bytes.
pub(super) fn is_allowed_text(text: &str, longest: usize) -> bool {
    text.len() <= longest && !text.trim().is_empty() && is_plain(text)
}

/// The text of a metadata value that settings allow. Each byte of it is encoded as three at most.
pub(super) fn decode_allowed(value: &str, longest: usize) -> Option<String> {
    let is_short = value.len() <= 3 * longest;
    decode(value).filter(|text| is_short && is_allowed_text(text, longest))
}

/// Returns true if an order may have this id.
pub fn is_order_id(text: &str) -> bool {
    let is_plain_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=LONGEST_ID).contains(&text.len()) && text.bytes().all(is_plain_byte)
}
