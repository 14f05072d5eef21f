//! Dates in HTTP: RFC 1123, `Fri, 02 Jan 2026 03:04:05 GMT`. No other form is sent or accepted.

use chrono::{DateTime, Datelike, NaiveDate, Timelike, Utc};
use tenure_base::prelude::*;

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Formats the date for `x-ms-date`, in whole seconds.
pub fn format(date: DateTime<Utc>) -> String {
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

/// Appends two digits. Every request has a date or two, and the library's formatting takes several
/// times as long.
fn two_digits(text: &mut String, number: u32) {
    for digit in [number / 10, number % 10] {
        text.push(char::from_digit(digit % 10, 10).unwrap_or('0'));
    }
}

/// Parses a `Date` header. `None` for everything that is not an RFC 1123 date in GMT. The day's
/// name is not checked.
pub fn parse(text: &str) -> Option<DateTime<Utc>> {
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
        let invalid = [
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
        for text in invalid {
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
        fn dates_round_trip(seconds in 0i64..253_402_300_800) {
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
