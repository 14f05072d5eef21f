//! Percent-encoding (RFC 3986, 2.1), of bytes: an encoded character may be any.

pub use percent_encoding::AsciiSet;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tenure_base::prelude::*;

/// The unreserved characters of RFC 3986 remain; all others are encoded.
pub const UNRESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Only letters and digits remain.
pub const ALL: &AsciiSet = NON_ALPHANUMERIC;

/// Encodes all characters of the set as `%` and two digits.
pub fn encode(text: &str, set: &'static AsciiSet) -> String {
    utf8_percent_encode(text, set).to_string()
}

/// Decodes the bytes. A `%` that is not followed by two digits remains.
pub fn decode(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

/// Decodes text; invalid parts become the replacement character.
pub fn decode_text(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}
