//! Readable durations: `15s`, `500ms`, `2.5s`, `1h30m`, `1d`.
//!
//! This is our own code, because the crate `humantime` needs the standard library, which is a large
//! part of a small component.

use alloc::string::{String, ToString};
use core::time::Duration;

/// The spellings of each unit and its nanoseconds, the longest unit first. Output uses the first
/// spelling, and days in place of weeks.
const UNITS: [(&[&str], u64); 8] = [
    (&["w", "week", "weeks"], 604_800_000_000_000),
    (&["d", "day", "days"], 86_400_000_000_000),
    (&["h", "hr", "hrs", "hour", "hours"], 3_600_000_000_000),
    (&["m", "min", "mins", "minute", "minutes"], 60_000_000_000),
    (&["s", "sec", "secs", "second", "seconds"], 1_000_000_000),
    (&["ms"], 1_000_000),
    (&["us"], 1_000),
    (&["ns"], 1),
];

/// Parses and adds up numbers with units, such as `1h 30m`; the blanks are optional. A number may
/// have a fraction.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut nanos = 0_u64;
    loop {
        let (number, tail) = split(rest, |byte| byte.is_ascii_digit() || byte == b'.');
        let (unit, tail) = split(tail.trim_start(), |byte| byte.is_ascii_alphabetic());
        nanos = nanos.checked_add(parse_part(number, unit)?)?;
        rest = tail.trim_start();
        if rest.is_empty() {
            return Some(Duration::from_nanos(nanos));
        }
    }
}

/// Returns whole nanoseconds, at most `u64::MAX`.
pub fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns whole milliseconds, at most `u64::MAX`.
pub fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Splits `text` after the bytes at its start that `is_member` accepts.
fn split(text: &str, is_member: fn(u8) -> bool) -> (&str, &str) {
    let end = text.bytes().position(|byte| !is_member(byte)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// Parses one number with its unit, in nanoseconds. A fraction of a nanosecond is dropped.
fn parse_part(number: &str, unit: &str) -> Option<u64> {
    let (_, mut unit) = *UNITS.iter().find(|(names, _)| names.contains(&unit))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let mut nanos = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    if fraction.is_empty() {
        return None;
    }
    for digit in fraction.bytes() {
        unit /= 10;
        nanos = nanos.checked_add(unit * u64::from(digit.checked_sub(b'0')?))?;
    }
    Some(nanos)
}

/// Formats a duration with as many units as needed, such as `1h 30m`.
pub fn format_duration(duration: Duration) -> String {
    let mut remaining = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (names, unit) in UNITS.into_iter().skip(1) {
        if remaining >= unit {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&(remaining / unit).to_string());
            text.push_str(names[0]);
            remaining %= unit;
        }
    }
    if text.is_empty() {
        text.push_str("0s");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(millis: u64) -> Option<Duration> {
        Some(Duration::from_millis(millis))
    }

    #[test]
    fn numbers_with_units_are_read() {
        let valid = [
            ("15s", ms(15_000)),
            (" 500ms ", ms(500)),
            ("2.5s", ms(2_500)),
            ("0.25m", ms(15_000)),
            ("1h30m", ms(5_400_000)),
            ("1h 30 min", ms(5_400_000)),
            ("1d", ms(86_400_000)),
            ("2days", ms(172_800_000)),
            ("1w", ms(604_800_000)),
            ("2 weeks 1day", ms(1_296_000_000)),
            ("5sec", ms(5_000)),
            ("5secs", ms(5_000)),
            ("2mins", ms(120_000)),
            ("3hrs", ms(10_800_000)),
            ("0s", ms(0)),
            ("1us 1ns", Some(Duration::from_nanos(1_001))),
            ("0.1ns", ms(0)),
        ];
        for (text, duration) in valid {
            assert_eq!(parse_duration(text), duration, "{text}");
        }
    }

    #[test]
    fn other_texts_are_none() {
        let invalid = [
            "",
            " ",
            "5",
            "s",
            "-5s",
            "+5s",
            "5 s s",
            "5S",
            "5x",
            "5s,",
            "1.s",
            ".5s",
            "1.2.3s",
            "1:30",
            "5µs",
            "٣s",
            "18446744073709551616ns",
            "18446744073709551615s",
            "213503d 24d",
        ];
        for text in invalid {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn written_with_the_units_it_needs() {
        let written = [
            (0, "0s"),
            (1, "1ns"),
            (2_500_000_000, "2s 500ms"),
            (5_400_000_000_000, "1h 30m"),
            (90_061_000_000_000, "1d 1h 1m 1s"),
            (604_800_000_000_000, "7d"),
        ];
        for (nanos, text) in written {
            assert_eq!(format_duration(Duration::from_nanos(nanos)), text);
        }
    }

    proptest! {
        #[test]
        fn durations_round_trip(nanos: u64) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Some(duration));
        }

        #[test]
        fn nothing_panics(text in "[0-9.a-zµ ]{0,12}") {
            if let Some(duration) = parse_duration(&text) {
                prop_assert_eq!(parse_duration(&format_duration(duration)), Some(duration));
            }
        }
    }
}
