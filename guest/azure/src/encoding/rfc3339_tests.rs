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
        assert_eq!(parse_rfc3339(text), None, "{text}");
    }
}

#[test]
fn dates_round_trip() {
    for text in ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678Z"] {
        assert_eq!(parse_rfc3339(text).map(format_rfc3339).as_deref(), Some(text));
    }
    assert_eq!(parse_rfc3339("2026-01-02T05:04:05+02:00"), parse_rfc3339("2026-01-02T03:04:05Z"));
}

proptest! {
    #[test]
    fn nothing_panics(text in "[0-9TZ:.+-]{0,35}|\\PC{0,30}") {
        if let Some(date) = parse_rfc3339(&text) {
            prop_assert_eq!(parse_rfc3339(&format_rfc3339(date)), Some(date));
        }
    }
}

#[test]
fn a_leap_second_is_the_second_before() {
    assert_eq!(parse_rfc3339("2016-12-31T23:59:60Z"), parse_rfc3339("2016-12-31T23:59:59Z"));
    assert!(parse_rfc3339("2016-12-31T23:59:60Z").is_some());
}
