//! Percent-encoding (RFC 3986, 2.1), of bytes: an encoded character may be any.

pub use percent_encoding::AsciiSet;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tenure_base::prelude::*;

/// What RFC 3986 calls unreserved stays; all else is encoded.
pub const UNRESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Only letters and digits stay.
pub const ALL: &AsciiSet = NON_ALPHANUMERIC;

/// All that is in the set as `%` and two digits.
pub fn encode(text: &str, set: &'static AsciiSet) -> String {
    utf8_percent_encode(text, set).to_string()
}

/// The bytes that were encoded. A `%` that is not followed by two digits stays.
pub fn decode(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

/// The same as text; what is none becomes the character for that.
pub fn decode_text(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}
