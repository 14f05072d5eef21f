//! Instants in RFC 3339.

use chrono::{DateTime, SecondsFormat, Timelike, Utc};
use tenure_base::prelude::*;

/// Formats it in UTC, such as `2026-01-02T03:04:05Z`, with 3, 6 or 9 digits for a part of a second.
pub fn format(date: DateTime<Utc>) -> String {
    date.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// Parses the output of [`format()`], also with another offset. A leap second (60) counts as the
/// last second of its minute.
pub fn parse(text: &str) -> Option<DateTime<Utc>> {
    let date = DateTime::parse_from_rfc3339(text).ok()?.to_utc();
    date.with_nanosecond(date.nanosecond() % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn invalid_instants_are_none() {
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
    fn dates_round_trip() {
        for text in ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678Z"] {
            assert_eq!(parse(text).map(format).as_deref(), Some(text));
        }
        assert_eq!(parse("2026-01-02T05:04:05+02:00"), parse("2026-01-02T03:04:05Z"));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[0-9TZ:.+-]{0,35}|\\PC{0,30}") {
            if let Some(date) = parse(&text) {
                prop_assert_eq!(parse(&format(date)), Some(date));
            }
        }
    }

    #[test]
    fn a_leap_second_is_the_second_before() {
        assert_eq!(parse("2016-12-31T23:59:60Z"), parse("2016-12-31T23:59:59Z"));
        assert!(parse("2016-12-31T23:59:60Z").is_some());
    }
}
