use super::*;
use chrono::TimeZone;
use proptest::prelude::*;

#[test]
fn written_with_two_digits_and_gmt() {
    let date = Utc.with_ymd_and_hms(2026, 1, 2, 3, 4, 5).unwrap();
    assert_eq!(format_http_date(date), "Fri, 02 Jan 2026 03:04:05 GMT");
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
        assert_eq!(parse_http_date(text), None, "{text}");
    }
}

#[test]
fn a_leap_second_is_the_last_of_its_minute() {
    let date = parse_http_date("Sat, 31 Dec 2016 23:59:60 GMT").map(|date| date.timestamp());
    assert_eq!(date, Some(1_483_228_799));
}

proptest! {
    #[test]
    fn dates_round_trip(seconds in 0i64..253_402_300_800) {
        let date = DateTime::from_timestamp(seconds, 0).unwrap();
        prop_assert_eq!(parse_http_date(&format_http_date(date)), Some(date));
    }

    #[test]
    fn nothing_panics(text in any::<String>()) {
        let read = parse_http_date(&text);
        prop_assert!(read.is_none_or(|date| parse_http_date(&format_http_date(date)) == Some(date)));
    }
}
