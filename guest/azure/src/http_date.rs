//! Dates as HTTP writes them: RFC 1123, `Fri, 02 Jan 2026 03:04:05 GMT`. Nothing else is sent or
//! believed.

use chrono::{DateTime, NaiveDateTime, Timelike, Utc};
use tenure_base::prelude::*;

/// The date for `x-ms-date`, in whole seconds.
pub fn format(date: DateTime<Utc>) -> String {
    date.format("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// Reads a `Date` header. `None` for everything that is not an RFC 1123 date in GMT; the day's name
/// is not checked. A leap second (60) counts as the last second of its minute.
pub fn parse(text: &str) -> Option<DateTime<Utc>> {
    let (_, text) = text.trim().split_once(", ")?;
    let fixed = text.len() == "02 Jan 2026 03:04:05 GMT".len();
    let date = NaiveDateTime::parse_from_str(text, "%d %b %Y %H:%M:%S GMT").ok()?;
    date.with_nanosecond(0).filter(|_| fixed).map(|date| date.and_utc())
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeZone;
    use proptest::prelude::*;

    #[test]
    fn written_with_two_digits_and_gmt() {
        let date = Utc.with_ymd_and_hms(2026, 1, 2, 3, 4, 5).unwrap();
        assert_eq!(format(date), "Fri, 02 Jan 2026 03:04:05 GMT");
    }

    #[test]
    fn garbage_is_no_date() {
        let wrong = [
            "",
            ", ",
            "Fri, 02 Jan 2026 03:04:05",
            "Fri, 02 Jan 2026 03:04:05 UTC",
            "Fri, 02 Jan 2026 03:04:05 +0000",
            "Fri, 02 Jan 2026 03:04:05 GMT x",
            "Fri, 02 Jan 2026 03:04:05:06 GMT",
            "Fri, 2 Jan 2026 03:04:05 GMT",
            "Fri, 30 Feb 2026 03:04:05 GMT",
            "Fri, 02 Jan 2026 24:04:05 GMT",
            "Fri, +2 Jan 2026 03:04:05 GMT",
            "Friday, 02-Jan-26 03:04:05 GMT",
            "Fri Jan  2 03:04:05 2026",
            "2026-01-02T03:04:05Z",
        ];
        for text in wrong {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_leap_second_is_the_last_of_its_minute() {
        let date = parse("Sat, 31 Dec 2016 23:59:60 GMT").map(|date| date.timestamp());
        assert_eq!(date, Some(1_483_228_799));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(seconds in 0i64..253_402_300_800) {
            let date = DateTime::from_timestamp(seconds, 0).unwrap();
            prop_assert_eq!(parse(&format(date)), Some(date));
        }

        #[test]
        fn nothing_panics(text in any::<String>()) {
            let read = parse(&text);
            prop_assert!(read.is_none_or(|date| parse(&format(date)) == Some(date)));
        }
    }
}
