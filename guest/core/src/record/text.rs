//! Texts that may stand on the record and in side blobs.
//!
//! Other programs may write any text to the blob. A text that no settings allow is ignored.
//! Otherwise terminals would show it, and each leader would copy it to the next record, whose size
//! is limited.

use sha2::{Digest, Sha256};
use tenure_azure::encoding::{self, AsciiSet};
use tenure_base::prelude::*;

/// Maximum length of a candidate's name, in bytes.
pub const MAX_NAME: usize = 128;

/// Maximum length of a failure reason, in bytes.
pub(crate) const MAX_REASON: usize = 200;

/// Maximum length of an order's id, in characters.
const MAX_ID: usize = 64;

/// Maximum length of a candidate's address, in bytes.
pub const MAX_ADDRESS: usize = 256;

/// Maximum length of a cron expression, in bytes.
pub(crate) const MAX_CRON: usize = 256;

/// Maximum length of a schedule description, in bytes: the longest cron expression plus the name of
/// a time zone.
pub(crate) const MAX_SCHEDULE: usize = MAX_CRON + 64;

/// The characters that metadata values encode.
const ENCODED: &AsciiSet = &encoding::EXCEPT_UNRESERVED.remove(b':').remove(b'/');

/// Returns the first 64 bits of the text's SHA-256.
pub(crate) fn fingerprint(text: &str) -> u64 {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().take(8).fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

/// Encodes a value for metadata.
pub(crate) fn encode(value: &str) -> String {
    encoding::percent_encode(value, ENCODED)
}

/// Decodes a value of metadata. None if it is not text.
pub(crate) fn decode(value: &str) -> Option<String> {
    String::from_utf8(encoding::percent_decode(value)).ok()
}

/// Returns true if a text has no characters that affect the text around them. Those are control
/// characters, line separators, and characters that change the writing direction (Unicode Standard
/// Annex 9).
pub(crate) fn is_plain(text: &str) -> bool {
    !text.chars().any(is_disruptive)
}

fn is_disruptive(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the beginning of a text in one line: at most `longest` bytes, cut between two
/// characters.
pub(crate) fn one_line(text: &str, longest: usize) -> String {
    let mut line = String::new();
    for word in
        text.split(|c: char| c.is_whitespace() || is_disruptive(c)).filter(|w| !w.is_empty())
    {
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

/// Returns true if settings allow this text of at most `longest` bytes.
pub(crate) fn is_allowed_text(text: &str, longest: usize) -> bool {
    text.len() <= longest && !text.trim().is_empty() && is_plain(text)
}

/// Decodes a metadata value. None if settings do not allow the text. Each byte of the text is
/// encoded as at most three.
pub(crate) fn decode_allowed(value: &str, longest: usize) -> Option<String> {
    let is_short = value.len() <= 3 * longest;
    decode(value).filter(|text| is_short && is_allowed_text(text, longest))
}

/// Returns true if an order may have this id.
pub fn is_order_id(text: &str) -> bool {
    let is_plain_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_ID).contains(&text.len()) && text.bytes().all(is_plain_byte)
}
