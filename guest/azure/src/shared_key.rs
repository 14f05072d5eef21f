//! Shared Key: the signature of a request (REST: *Authorize with Shared Key*, version 2015-02-21
//! and later).
//!
//! The functions support any method and any headers: the component signs with them, and the
//! embedded store verifies with them.

use alloc::borrow::Cow;
use core::cmp::Ordering;
use core::fmt;

use super::encoding::percent_decode_text;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tenure_base::prelude::*;

/// An account key. Validated on creation; `Debug` prints nothing of it.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl Key {
    /// Parses the base64 text that the portal shows. Returns `None` if it is empty or not base64.
    pub fn from_base64(text: &str) -> Option<Key> {
        let bytes = STANDARD.decode(text).ok().filter(|bytes| !bytes.is_empty())?;
        Hmac::new_from_slice(&bytes).ok().map(Key)
    }

    /// Returns the signature of a [`string_to_sign`]: base64 of its HMAC-SHA256.
    pub fn sign(&self, string_to_sign: &str) -> String {
        let mut mac = self.0.clone();
        mac.update(string_to_sign.as_bytes());
        // `encode` would check that the Base64 is UTF-8, which adds 1 KB to the component.
        let mut signature = [0; 44];
        let _ = STANDARD.encode_slice(mac.finalize().into_bytes(), &mut signature);
        String::from_utf8_lossy(&signature).into_owned()
    }
}

/// Returns true if the text is Base64 of 32 bytes: the form of an HMAC-SHA256, which signs a
/// request or a SAS.
pub fn is_signature(text: &str) -> bool {
    STANDARD.decode(text).is_ok_and(|bytes| bytes.len() == 32)
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Returns the value of the `Authorization` header for a [`string_to_sign`].
pub fn authorization(account: &str, key: &Key, string_to_sign: &str) -> String {
    format!("SharedKey {account}:{}", key.sign(string_to_sign))
}

/// The headers that have a line of their own in the text to sign, in the order of the lines.
const STANDARD_HEADERS: [&str; 11] = [
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
];

/// Returns the text to sign: method, eleven standard headers, `x-ms-` headers, account, path and
/// query.
///
/// `path` is the path exactly as sent, percent-encoded, without the query. `query` is decoded (see
/// [`decoded_query`]). Header names match in any case. `account` is the account's name without
/// `-secondary`.
pub fn string_to_sign(
    method: &str,
    path: &str,
    query: &[(String, String)],
    headers: &[(String, String)],
    account: &str,
) -> String {
    let has_ms_date = find(headers, "x-ms-date").is_some();
    let mut text = method.to_ascii_uppercase();
    text.push('\n');
    for name in STANDARD_HEADERS {
        let value = match (name, find(headers, name)) {
            ("content-length", Some("0")) | (_, None) => "",
            ("date", _) if has_ms_date => "",
            (_, Some(value)) => value,
        };
        text.push_str(value);
        text.push('\n');
    }
    text.push_str(&canonical_headers(headers));
    text.push_str(&canonical_resource(path, query, account));
    text
}

fn find<'a>(headers: &'a [(String, String)], header_name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(header_name))
        .map(|(_, value)| trimmed(value))
}

fn trimmed(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}

/// Returns the `x-ms-` headers, one `name:value` line each, names in lower case and in the
/// service's order.
///
/// Empty values remain, and so do runs of blanks inside a value. The documentation says otherwise,
/// but the SDKs and Azurite do this.
pub fn canonical_headers(headers: &[(String, String)]) -> String {
    let service_headers = headers.iter().filter(|(name, _)| is_service_header(name));
    let service_headers = service_headers.map(|(name, value)| (to_lower(name), trimmed(value)));
    let service_headers = sorted(service_headers, |(one, _), (other, _)| service_order(one, other));
    let mut text = String::new();
    for (name, value) in service_headers {
        for part in [&*name, ":", value, "\n"] {
            text.push_str(part);
        }
    }
    text
}

/// Returns `/`, account, path, then one `\nname:value` for each query name. Names are in lower case
/// and sorted; several values are sorted and joined by commas.
pub fn canonical_resource(path: &str, query: &[(String, String)], account: &str) -> String {
    let query = query.iter().map(|(name, value)| (to_lower(name), value.as_str()));
    let query = sorted(query, |one, other| one.cmp(other));
    let mut text = String::from("/");
    text.push_str(account);
    text.push_str(path);
    let mut last = None;
    for (name, value) in &query {
        if last == Some(name) {
            text.push(',');
        } else {
            text.push('\n');
            text.push_str(name);
            text.push(':');
        }
        text.push_str(value);
        last = Some(name);
    }
    text
}

fn is_service_header(name: &str) -> bool {
    name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("x-ms-"))
}

/// Returns the name in lower case. Most names are already, so they are not copied.
fn to_lower(name: &str) -> Cow<'_, str> {
    match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    }
}

type Pair<'a> = (Cow<'a, str>, &'a str);

/// Returns the pairs in the given order; equal pairs keep their order. Insertion is fast enough for
/// a dozen pairs. The standard sort would add 4 KB to the component for each order.
fn sorted<'a>(
    pairs: impl Iterator<Item = Pair<'a>>,
    order: fn(&Pair<'a>, &Pair<'a>) -> Ordering,
) -> Vec<Pair<'a>> {
    let mut sorted = Vec::new();
    for pair in pairs {
        let index = sorted.partition_point(|other| order(other, &pair).is_le());
        sorted.insert(index, pair);
    }
    sorted
}

/// Splits a query, without its `?`, into names and values, and percent-decodes them. A `+` remains.
pub fn decoded_query(query: &str) -> Vec<(String, String)> {
    query
        .split('&')
        .filter(|piece| !piece.is_empty())
        .map(|piece| piece.split_once('=').unwrap_or((piece, "")))
        .map(|(name, value)| (percent_decode_text(name), percent_decode_text(value)))
        .collect()
}

/// Compares header names in the service's order: .NET's culture order, not byte order.
///
/// `-` and `'` count only if all else is equal. Other punctuation (including `_`) comes before
/// digits, and digits before letters.
fn service_order(one: &str, other: &str) -> Ordering {
    let is_alphanumeric = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
    // Most names first differ in a letter or digit, which decides: all before it is equal.
    match one.bytes().zip(other.bytes()).find(|(one, other)| one != other) {
        Some((one, other)) if is_alphanumeric(one) && is_alphanumeric(other) => {
            return one.cmp(&other);
        }
        _ => {}
    }
    let weights = one.bytes().filter_map(weight).cmp(other.bytes().filter_map(weight));
    weights.then_with(|| one.bytes().map(minor_weight).cmp(other.bytes().map(minor_weight)))
}

const PUNCTUATION: &[u8] = b"!#$%&*.^_`|~+";

/// Returns the main weight of a byte. `None` if the byte counts only if all else is equal.
fn weight(byte: u8) -> Option<u16> {
    match byte {
        b'-' | b'\'' => None,
        b'0'..=b'9' | b'a'..=b'z' => Some(0x100 + u16::from(byte)),
        _ => match PUNCTUATION.iter().position(|known| *known == byte) {
            Some(index) => Some(index as u16),
            None => Some(0x200 + u16::from(byte)),
        },
    }
}

/// Returns the weight that decides if all main weights are equal.
fn minor_weight(byte: u8) -> u8 {
    match byte {
        b'\'' => 1,
        b'-' => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn every_standard_header_has_its_line() {
        let headers = pairs(&[
            ("Range", "l"),
            ("IF-UNMODIFIED-SINCE", "k"),
            ("If-None-Match", "j"),
            ("If-Match", "i"),
            ("If-Modified-Since", "h"),
            ("Date", "g"),
            ("Content-Type", "f"),
            ("Content-MD5", "e"),
            ("Content-Length", "4"),
            ("Content-Language", "c"),
            ("content-encoding", " b "),
            ("Host", "never"),
        ]);
        let text = string_to_sign("get", "/p", &[], &headers, "a");
        assert_eq!(text, "GET\nb\nc\n4\ne\nf\ng\nh\ni\nj\nk\nl\n/a/p");
    }

    #[test]
    fn zero_length_and_replaced_date_are_left_empty() {
        let headers = pairs(&[("Content-Length", "0"), ("Date", "then"), ("X-Ms-Date", "now")]);
        let text = string_to_sign("PUT", "/p", &[], &headers, "a");
        assert_eq!(text, "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:now\n/a/p");
    }

    #[test]
    fn header_names_sort_as_the_service_sorts() {
        let sorted = [
            "x-ms-deleted-container-name",
            "x-ms-deletesnapshots",
            "x-ms-delete-snapshots",
            "x-ms-meta-foo",
            "x-ms-meta-foo_bar",
            "x-ms-metafoo1",
            "x-ms-meta-foo1",
            "x-ms-meta-fooa",
            "x-ms-meta-foobar",
        ];
        let mut names = sorted;
        names.sort();
        assert_ne!(names, sorted, "byte order is another one");
        names.sort_by(|one, other| service_order(one, other));
        assert_eq!(names, sorted);
    }

    #[test]
    fn empty_values_stay_and_inner_blanks_too() {
        let headers = pairs(&[("x-ms-meta-b", "  a   b\t"), ("X-MS-Meta-A", ""), ("other", "x")]);
        assert_eq!(canonical_headers(&headers), "x-ms-meta-a:\nx-ms-meta-b:a   b\n");
    }

    #[test]
    fn repeated_query_names_are_joined() {
        let query =
            pairs(&[("Include", "b"), ("comp", "list"), ("include", "a"), ("includes", "c")]);
        assert_eq!(
            canonical_resource("/c", &query, "acc"),
            "/acc/c\ncomp:list\ninclude:a,b\nincludes:c"
        );
    }

    #[test]
    fn a_query_is_decoded_but_plus_stays() {
        let read = decoded_query("comp=list&&prefix=a%20b%2F+c&flag&x=1=2");
        assert_eq!(
            read,
            pairs(&[("comp", "list"), ("prefix", "a b/+c"), ("flag", ""), ("x", "1=2")])
        );
    }

    #[test]
    fn a_key_is_base64_and_not_empty() {
        assert!(Key::from_base64("AAEC").is_some());
        for wrong in ["", "=", "AAE", "A A=", "AAEC\n", "äöü"] {
            assert!(Key::from_base64(wrong).is_none(), "{wrong}");
        }
        assert_eq!(format!("{:?}", Key::from_base64("AAEC")), "Some(Key(..))");
    }

    proptest! {
        #[test]
        fn the_order_is_an_order(names in proptest::collection::vec("[a-c_'0-]{0,5}", 3)) {
            let order = |a: usize, b: usize| service_order(&names[a], &names[b]);
            prop_assert_eq!(order(0, 1), order(1, 0).reverse());
            prop_assert_eq!(order(0, 1) == Ordering::Equal, names[0] == names[1]);
            if order(0, 1) == order(1, 2) {
                prop_assert_eq!(order(0, 2), order(0, 1));
            }
        }

        #[test]
        fn any_request_can_be_signed(
            method in any::<String>(), path in any::<String>(), account in any::<String>(), raw in any::<String>(),
            headers in any::<Vec<(String, String)>>(),
        ) {
            let text = string_to_sign(&method, &path, &decoded_query(&raw), &headers, &account);
            prop_assert!(text.contains(&path));
            prop_assert_eq!(Key::from_base64("AAEC").unwrap().sign(&text).len(), 44);
        }
    }
}
