//! Percent-encoding (RFC 3986, 2.1), of bytes: an encoded character may be any.

use crate::prelude::*;

/// All but letters, digits and what is `kept` as `%` and two digits.
pub fn encode(text: &str, kept: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            for digit in [byte >> 4, byte & 15] {
                encoded.push(char::from(DIGITS[usize::from(digit)]));
            }
        }
    }
    encoded
}

/// The bytes that were encoded. A `%` that is not followed by two digits stays.
pub fn decode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let encoded = after.first_chunk().filter(|_| *first == b'%').and_then(value);
        bytes.push(encoded.unwrap_or(*first));
        rest = match encoded {
            Some(_) => &after[2..],
            None => after,
        };
    }
    bytes
}

/// The same as text; what is none becomes the character for that.
pub fn decode_text(text: &str) -> String {
    String::from_utf8_lossy(&decode(text)).into_owned()
}

fn value(digits: &[u8; 2]) -> Option<u8> {
    let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
    u8::try_from(16 * high? + low?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_the_library_does(text in "[a-z%0-9A-F~/é ]{0,20}|\\PC{0,10}") {
            const SET: &AsciiSet = &NON_ALPHANUMERIC.remove(b'~').remove(b'/');
            let theirs = utf8_percent_encode(&text, SET).to_string();
            prop_assert_eq!(&encode(&text, b"~/"), &theirs);
            prop_assert_eq!(decode_text(&theirs), text.as_str());
            let theirs = percent_decode_str(&text);
            prop_assert_eq!(decode_text(&text), theirs.clone().decode_utf8_lossy());
            prop_assert_eq!(decode(&text), theirs.collect::<Vec<_>>());
        }
    }
}
