//! Instants as RFC 3339 writes them. The library's own functions for it are 4 KB of component.

use super::http_date::{digits, two_digits};
use crate::prelude::*;
use chrono::{DateTime, Datelike, NaiveDate, TimeDelta, Timelike, Utc};

/// In UTC, like `2026-01-02T03:04:05Z`, with 3, 6 or 9 digits for a part of a second. For the years
/// that have four digits.
pub fn format(date: DateTime<Utc>) -> String {
    let year = date.year().unsigned_abs();
    let mut text = String::with_capacity(30);
    for (before, number) in [
        ("", year / 100),
        ("", year % 100),
        ("-", date.month()),
        ("-", date.day()),
        ("T", date.hour()),
        (":", date.minute()),
        (":", date.second()),
    ] {
        text.push_str(before);
        two_digits(&mut text, number);
    }
    let nanos = date.nanosecond();
    let shown = match nanos {
        0 => 0,
        _ if nanos.is_multiple_of(1_000_000) => 4,
        _ if nanos.is_multiple_of(1_000) => 7,
        _ => 10,
    };
    text.push_str(format!(".{nanos:09}").get(..shown).unwrap_or_default());
    text.push('Z');
    text
}

/// Reads what [`format`] writes, with any other offset too. What is less than a nanosecond is left out.
pub fn parse(text: &str) -> Option<DateTime<Utc>> {
    let number = |at: usize, length: usize| digits(text.get(at..at + length)?, length);
    for (at, mark) in [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')] {
        if !text.as_bytes().get(at)?.eq_ignore_ascii_case(&mark) {
            return None;
        }
    }
    let (rest, nanos) = fraction(text.get(19..)?)?;
    let date = NaiveDate::from_ymd_opt(number(0, 4)? as i32, number(5, 2)?, number(8, 2)?)?;
    // A leap second (60) counts as the last second of its minute.
    let second = number(17, 2)?;
    let second = if second == 60 { 59 } else { second };
    let time = date.and_hms_nano_opt(number(11, 2)?, number(14, 2)?, second, nanos)?;
    time.and_utc().checked_sub_signed(TimeDelta::minutes(offset(rest)?))
}

/// The part of a second at the beginning, in nanoseconds, and what follows.
fn fraction(text: &str) -> Option<(&str, u32)> {
    let Some(text) = text.strip_prefix('.') else { return Some((text, 0)) };
    let end = text.bytes().position(|byte| !byte.is_ascii_digit())?;
    let shown = end.min(9);
    let mut nanos = digits(text.get(..shown)?, shown)?;
    for _ in shown..9 {
        nanos *= 10;
    }
    Some((text.get(end..)?, nanos))
}

/// `Z`, or `+hh:mm`: minutes east of Greenwich.
fn offset(text: &str) -> Option<i64> {
    if text.eq_ignore_ascii_case("Z") {
        return Some(0);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text.get(1..)?.split_once(':')?;
    let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
    (hours < 24 && minutes < 60).then(|| sign * i64::from(hours * 60 + minutes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::SecondsFormat;
    use proptest::prelude::*;

    fn library(text: &str) -> Option<DateTime<Utc>> {
        DateTime::parse_from_rfc3339(text).ok().map(|date| date.to_utc())
    }

    #[test]
    fn what_is_no_instant_is_none() {
        for text in [
            "",
            "2026-01-02",
            "2026-01-02T03:04:05",
            "2026-01-02T03:04Z",
            "2026-13-02T03:04:05Z",
            "2026-02-29T03:04:05Z",
            "2026-01-02T24:04:05Z",
            "2026-01-02T03:04:61Z",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05Z ",
            "2026-01-02T03:04:05+0100",
            "2026-01-02T03:04:05+24:00",
            "2026-01-02T03:04:05+01:60",
            "2026-1-2T03:04:05Z",
            "+026-01-02T03:04:05Z",
            "2026/01/02T03:04:05Z",
            "2026-01-02é03:04:05Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_leap_second_is_the_second_before() {
        assert_eq!(parse("2016-12-31T23:59:60Z"), parse("2016-12-31T23:59:59Z"));
        assert!(parse("2016-12-31T23:59:60Z").is_some());
    }

    proptest! {
        #[test]
        fn written_as_the_library_writes(
            seconds in 0_i64..253_402_300_800,
            nanos in 0_u32..1_000_000_000,
            unit in prop::sample::select(vec![1, 1_000, 1_000_000, 1_000_000_000_u32]),
        ) {
            let date = DateTime::from_timestamp(seconds, nanos - nanos % unit).unwrap();
            let text = format(date);
            prop_assert_eq!(&text, &date.to_rfc3339_opts(SecondsFormat::AutoSi, true));
            prop_assert_eq!(parse(&text), Some(date));
        }

        #[test]
        fn read_as_the_library_reads(
            text in "[0-2]{4}-[01][0-9]-[0-3][0-9][Tt][0-2][0-9]:[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,12})?([Zz]|[+-][01][0-9]:[0-5][0-9])",
        ) {
            prop_assert_eq!(parse(&text), library(&text));
        }

        #[test]
        fn nothing_panics(text in "[0-9TZ:.+-]{0,35}|\\PC{0,30}") {
            if let Some(date) = parse(&text) {
                prop_assert_eq!(Some(date), library(&text));
            }
        }
    }
}
