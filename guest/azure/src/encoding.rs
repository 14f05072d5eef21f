//! Text forms of values in requests and answers: percent-encoding (RFC 3986, 2.1), dates in HTTP
//! and instants in RFC 3339.
//!
//! A date in HTTP has the form of RFC 1123, `Fri, 02 Jan 2026 03:04:05 GMT`; no other form is sent
//! or accepted.

use chrono::{DateTime, Datelike, NaiveDate, SecondsFormat, Timelike, Utc};
pub use percent_encoding::AsciiSet;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tenure_base::prelude::*;

/// The set of all characters except the unreserved ones of RFC 3986.
pub const EXCEPT_UNRESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The set of all characters except ASCII letters and digits.
pub const ALL: &AsciiSet = NON_ALPHANUMERIC;

/// Encodes the characters of the set, and all non-ASCII characters: each byte becomes `%` and two
/// hexadecimal digits.
pub fn percent_encode(text: &str, set: &'static AsciiSet) -> String {
    utf8_percent_encode(text, set).to_string()
}

/// Decodes to bytes, which need not be UTF-8. A `%` without two hexadecimal digits after it
/// remains.
pub fn percent_decode(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

/// Decodes to text. Invalid UTF-8 becomes the replacement character. A `%` without two hexadecimal
/// digits after it remains.
pub fn percent_decode_text(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Formats the date for `x-ms-date`, in whole seconds.
pub fn format_http_date(date: DateTime<Utc>) -> String {
    let day = DAYS.get(date.weekday().num_days_from_monday() as usize).unwrap_or(&"");
    let month = MONTHS.get(date.month0() as usize).unwrap_or(&"");
    let year = date.year().unsigned_abs();
    let mut text = String::with_capacity(29);
    text.push_str(day);
    text.push_str(", ");
    two_digits(&mut text, date.day());
    for piece in [" ", month, " "] {
        text.push_str(piece);
    }
    two_digits(&mut text, year / 100);
    two_digits(&mut text, year % 100);
    for (separator, number) in [(' ', date.hour()), (':', date.minute()), (':', date.second())] {
        text.push(separator);
        two_digits(&mut text, number);
    }
    text.push_str(" GMT");
    text
}

/// Appends the last two digits of a number. Every request has a date or two, and the library's
/// formatting takes several times as long.
fn two_digits(text: &mut String, number: u32) {
    for digit in [number / 10, number % 10] {
        text.push(char::from_digit(digit % 10, 10).unwrap_or('0'));
    }
}

/// Parses a `Date` header. Returns `None` if it is not an RFC 1123 date in GMT. The name of the
/// weekday is not checked.
pub fn parse_http_date(text: &str) -> Option<DateTime<Utc>> {
    let (_, text) = text.trim().split_once(',')?;
    let mut parts = text.strip_prefix(' ')?.split(' ');
    let day = digits(parts.next()?, 2)?;
    let month = parts.next()?;
    let month = MONTHS.iter().position(|name| *name == month)?;
    let year = digits(parts.next()?, 4)?;
    let mut time = parts.next()?.split(':');
    let (hour, minute, second) =
        (digits(time.next()?, 2)?, digits(time.next()?, 2)?, digits(time.next()?, 2)?);
    if parts.next() != Some("GMT") || parts.next().is_some() || time.next().is_some() {
        return None;
    }
    // A leap second (60) counts as the last second of its minute.
    let date = NaiveDate::from_ymd_opt(year as i32, month as u32 + 1, day)?;
    date.and_hms_opt(hour, minute, if second == 60 { 59 } else { second })
        .map(|date| date.and_utc())
}

fn digits(text: &str, length: usize) -> Option<u32> {
    let only_digits = text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    if only_digits { text.parse().ok() } else { None }
}

/// Formats a date in UTC, such as `2026-01-02T03:04:05Z`. A fraction of a second has 3, 6 or 9
/// digits.
pub fn format_rfc3339(date: DateTime<Utc>) -> String {
    date.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// Parses a date in RFC 3339 with any offset. A leap second (60) counts as the last second of its
/// minute.
pub fn parse_rfc3339(text: &str) -> Option<DateTime<Utc>> {
    let date = DateTime::parse_from_rfc3339(text).ok()?.to_utc();
    date.with_nanosecond(date.nanosecond() % 1_000_000_000)
}

#[cfg(test)]
mod http_date_tests;
#[cfg(test)]
mod rfc3339_tests;
