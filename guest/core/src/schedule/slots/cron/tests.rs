use chrono::{DateTime, Duration, TimeZone as _, Utc};
use croner::parser::{CronParser, Seconds};
use proptest::prelude::*;
use proptest::sample::select;

use super::super::zone::Zone;
use super::*;

fn utc(text: &str) -> i64 {
    DateTime::parse_from_rfc3339(text).unwrap().timestamp()
}

fn to_rfc3339(second: i64) -> String {
    DateTime::from_timestamp(second, 0).unwrap().format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns the first slots after an instant.
fn slots(cron: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let (cron, zone) = (Cron::parse(cron).unwrap(), Zone::from_name(zone).unwrap());
    let next = |then: &i64| cron.next(&zone, *then);
    let first = next(&utc(after));
    core::iter::successors(first, next).take(count).map(to_rfc3339).collect()
}

fn complaint(text: &str) -> Vec<(usize, String)> {
    let errors = Cron::parse(text).unwrap_err();
    assert!(errors.iter().all(|error| !error.expected.is_empty()));
    let summary = |error: CronError| (error.position, format!("{}|{}", error.piece, error.problem));
    errors.into_iter().map(summary).collect()
}

#[test]
fn zone_prefix_of_other_crons_is_rejected_with_advice() {
    for text in ["CRON_TZ=Europe/Berlin 0 9 * * *", "TZ=UTC */5 * * * *"] {
        let zone = text.split(' ').next().unwrap();
        let problem = format!("{zone}|a time zone stands before the fields");
        assert_eq!(complaint(text), [(1, problem)]);
        assert!(Cron::parse(text).unwrap_err()[0].expected.contains("time-zone"));
    }
}

#[test]
fn five_fields_and_six() {
    let after = "2026-11-20T07:01:40Z";
    assert_eq!(
        slots("*/15 * * * *", "UTC", after, 2),
        ["2026-11-20T07:15:00Z", "2026-11-20T07:30:00Z"]
    );
    assert_eq!(
        slots("*/20 * * * * *", "UTC", after, 2),
        ["2026-11-20T07:02:00Z", "2026-11-20T07:02:20Z"]
    );
    assert_eq!(
        slots("30 0 9 * * MON-FRI", "Europe/Berlin", after, 2),
        ["2026-11-20T08:00:30Z", "2026-11-23T08:00:30Z"]
    );
}

#[test]
fn nicknames_steps_lists_and_the_days_of_azure_and_quartz_users() {
    let after = "2026-11-20T07:01:40Z";
    for (cron, first) in [
        ("@hourly", "2026-11-20T08:00:00Z"),
        ("@DAILY", "2026-11-21T00:00:00Z"),
        ("@weekly", "2026-11-22T00:00:00Z"),
        ("@monthly", "2026-12-01T00:00:00Z"),
        ("@yearly", "2027-01-01T00:00:00Z"),
        ("5/10 * * * *", "2026-11-20T07:05:00Z"),
        ("0 8-18/5,23 * * *", "2026-11-20T08:00:00Z"),
        ("0 0 L * *", "2026-11-30T00:00:00Z"),
        ("0 0 ? * FRI#L", "2026-11-27T00:00:00Z"),
        ("0 0 * * 1#1", "2026-12-07T00:00:00Z"),
        ("0 0 * * 7", "2026-11-22T00:00:00Z"),
        ("0 0 * * SAT-SUN", "2026-11-21T00:00:00Z"),
        ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
        ("0 0 13 * FRI", "2026-11-27T00:00:00Z"), // either will do
        ("0 0 */1 * FRI", "2026-11-27T00:00:00Z"), // a `*`
        ("0 0 13 * */1", "2026-12-13T00:00:00Z"),
    ] {
        assert_eq!(slots(cron, "UTC", after, 1), [first], "{cron}");
    }
    // The last day of a step is Saturday, as in other crons.
    let (monday, wednesday, friday) =
        ("2026-11-23T00:00:00Z", "2026-11-25T00:00:00Z", "2026-11-27T00:00:00Z");
    let next = "2026-11-30T00:00:00Z";
    assert_eq!(slots("0 0 * * MON/2", "UTC", after, 4), [monday, wednesday, friday, next]);
}

/// The table of docs/configuration.md: Berlin, 29 March 2026, 02:00 → 03:00, at 01:00Z.
#[test]
fn skipped_hour_in_spring() {
    let after = "2026-03-29T00:00:00Z"; // 01:00
    // Fixed: once, as soon as the clocks have been put forward.
    assert_eq!(
        slots("30 2 * * *", "Europe/Berlin", after, 2),
        ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
    );
    assert_eq!(
        slots("0,15,30 2 * * *", "Europe/Berlin", after, 2),
        ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]
    );
    // 03:00 itself exists, and is the same instant.
    assert_eq!(
        slots("0 2,3 * * *", "Europe/Berlin", after, 2),
        ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]
    );
    // An interval: a skipped time does not run.
    assert_eq!(
        slots("30 * * * *", "Europe/Berlin", after, 3),
        ["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:30:00Z"]
    );
    assert_eq!(slots("*/30 2 * * *", "Europe/Berlin", after, 1), ["2026-03-30T00:00:00Z"]);
}

/// The table of docs/configuration.md: Berlin, 25 October 2026, 03:00 → 02:00, at 01:00Z.
#[test]
fn repeated_hour_in_autumn() {
    let after = "2026-10-24T23:59:00Z"; // 01:59
    // Fixed: the first time.
    assert_eq!(
        slots("30 2 * * *", "Europe/Berlin", after, 2),
        ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
    );
    assert_eq!(
        slots("0 2,3 * * *", "Europe/Berlin", after, 2),
        ["2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z"]
    );
    // An interval: both times.
    assert_eq!(
        slots("30 * * * *", "Europe/Berlin", after, 3),
        ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"]
    );
    assert_eq!(
        slots("*/30 2 * * *", "Europe/Berlin", after, 4),
        [
            "2026-10-25T00:00:00Z",
            "2026-10-25T00:30:00Z",
            "2026-10-25T01:00:00Z",
            "2026-10-25T01:30:00Z"
        ]
    );
}

#[test]
fn a_change_of_half_an_hour_and_one_at_midnight() {
    // Lord Howe, 5 April 2026: 02:00 → 01:30, at 15:00Z of the day before.
    assert_eq!(
        slots("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T14:00:00Z", 2),
        ["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"]
    );
    // Havana, 8 March 2026: 00:00 → 01:00, at 05:00Z.
    assert_eq!(
        slots("0 0 * * *", "America/Havana", "2026-03-08T04:00:00Z", 2),
        ["2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"]
    );
}

#[test]
fn errors_show_position_and_problem() {
    for (text, expected) in [
        ("", vec![(1, "|the number of fields is 0")]),
        ("* * * *", vec![(8, "|the number of fields is 4")]),
        ("* * * * * * *", vec![(13, "|the number of fields is 7")]),
        ("@often", vec![(7, "|the number of fields is 1")]),
        ("61 * * * *", vec![(1, "61|the minute is not between 0 and 59")]),
        ("* 8- * * *", vec![(5, "|the hour is incomplete")]),
        (
            "* * 31-1 * *",
            vec![(5, "31-1|the day of the month has a range that ends before it begins")],
        ),
        ("* * * * MOM", vec![(9, "MOM|the day of the week cannot be read")]),
        ("*/0 * * * *", vec![(3, "0|the minute has a step that is not a number in its range")]),
        ("* * * * 1#6", vec![(11, "6|the day of the week names a week that is not 1 to 5 or L")]),
        ("? * * * *", vec![(1, "?|the minute cannot be read")]),
        ("0 0 30 2 *", vec![(5, "|such a day never comes")]),
        (
            "70 * ü 13 *",
            vec![
                (1, "70|the minute is not between 0 and 59"),
                (6, "ü|the day of the month cannot be read"),
                (8, "13|the month is not between 1 and 12"),
            ],
        ),
    ] {
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(position, problem)| (position, problem.to_owned()))
            .collect();
        assert_eq!(complaint(text), expected, "{text}");
    }
}

#[test]
fn the_newest_slot_is_the_last_one_that_is_not_later() {
    for (cron, now, newest) in [
        ("0 9 * * MON", "2026-11-20T07:01:40Z", "2026-11-16T09:00:00Z"),
        ("0 9 * * MON", "2026-11-16T09:00:00Z", "2026-11-16T09:00:00Z"),
        ("0 9 * * MON", "2026-11-16T08:59:59Z", "2026-11-09T09:00:00Z"),
        ("0 0 29 2 *", "2026-11-20T00:00:00Z", "2024-02-29T00:00:00Z"),
        ("* * * * * *", "2026-11-20T07:01:40Z", "2026-11-20T07:01:40Z"),
        ("*/2 30 4 1 1 *", "2026-11-20T07:01:40Z", "2026-01-01T04:30:58Z"),
    ] {
        let found = Cron::parse(cron).unwrap().newest(&Zone::UTC, utc(now)).map(to_rfc3339);
        assert_eq!(found.as_deref(), Some(newest), "{cron} at {now}");
    }
    let never_yet =
        Cron::parse("0 0 1 1 *").unwrap().newest(&Zone::UTC, utc("1970-01-01T00:00:01Z"));
    assert_eq!(never_yet.map(to_rfc3339).as_deref(), Some("1970-01-01T00:00:00Z"));
}

/// A field that both this parser and croner read alike.
fn field(most: u32, least: u32) -> impl Strategy<Value = String> {
    let value = least..=most;
    prop_oneof![
        4 => Just("*".to_owned()),
        3 => value.clone().prop_map(|value| value.to_string()),
        1 => (2..=20_u32).prop_map(move |step| format!("*/{}", step.min(most))),
        1 => (value.clone(), value.clone())
            .prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => proptest::collection::vec(value, 2..4).prop_map(|values| {
            values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        }),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    let seconds = prop_oneof![3 => Just(String::new()), 1 => field(59, 0).prop_map(|f| f + " ")];
    let days = prop_oneof![4 => field(31, 1), 1 => Just("L".to_owned())];
    let weekdays = prop_oneof![4 => field(6, 0), 1 => (0..=6_u32, 1..=4_u32).prop_map(|(d, n)| format!("{d}#{n}"))];
    (seconds, field(59, 0), field(23, 0), days, field(12, 1), weekdays)
        .prop_map(|(s, mi, h, d, mo, w)| format!("{s}{mi} {h} {d} {mo} {w}"))
}

/// Excludes zones whose clocks jump over midnight, such as Nuuk. There croner checks the next day
/// instead, and misses the slot.
const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Havana",
    "America/Santiago",
    "Africa/Cairo",
    "Asia/Kolkata",
];

#[test]
fn a_time_that_is_jumped_over_with_midnight_is_that_of_the_jump() {
    let cron = Cron::parse("0 23 25 3 *").unwrap();
    let nuuk = Zone::from_name("America/Nuuk").unwrap();
    // 22:59:59 is followed by 00:00:00 of the 26th.
    let next = cron.next(&nuuk, utc("2028-03-25T20:00:00Z")).map(to_rfc3339);
    assert_eq!(next.as_deref(), Some("2028-03-26T01:00:00Z"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    /// The crate `croner` gives the same slots in the same zones, from any instant and around clock
    /// changes.
    #[test]
    fn croner_agrees(
        text in expression(),
        zone in select(&ZONES),
        day in 0..2_000_i64,
        second in 0..86_400_i64,
        at_change in any::<bool>(),
    ) {
        let Ok(cron) = Cron::parse(&text) else {
            prop_assume!(false, "such a day");
            unreachable!()
        };
        let zone = Zone::from_name(zone).unwrap();
        let mut from = utc("2026-01-01T00:00:00Z") + day * 86_400 + second;
        if at_change {
            let ends = zone.offset_span(from).end;
            if ends != i64::MAX {
                from = ends - 7_200 + second % 14_400;
            }
        }
        let reference = CronParser::builder().seconds(Seconds::Optional).build().parse(&text).unwrap();
        // Lists and ranges are an interval to croner, and fixed times here, as in Vixie's cron.
        prop_assume!(cron.is_interval || reference.determine_job_type() == croner::JobType::FixedTime);
        let mut actual = from;
        let mut expected = zone.timestamp_opt(from, 0).unwrap();
        for _ in 0..4 {
            actual = cron.next(&zone, actual).unwrap();
            expected = reference.find_next_occurrence(&expected, false).unwrap();
            prop_assert_eq!(to_rfc3339(actual), to_rfc3339(expected.timestamp()), "{}, {}, from {}", text, zone.name(), to_rfc3339(from));
        }
        // The reverse direction.
        prop_assert_eq!(cron.newest(&zone, actual).map(to_rfc3339), Some(to_rfc3339(actual)));
        let before = cron.newest(&zone, actual - 1).unwrap();
        prop_assert_eq!(cron.next(&zone, before).map(to_rfc3339), Some(to_rfc3339(actual)));
    }

    #[test]
    fn nothing_panics(text in "[0-9*/,#?LMON @-]{0,24}", at in -1_000_000_000_000..1_000_000_000_000_i64) {
        if let Ok(cron) = Cron::parse(&text) {
            prop_assert_eq!(Cron::parse(&cron.to_string()), Ok(cron.clone()));
            let _ = (cron.next(&Zone::UTC, at), cron.newest(&Zone::UTC, at));
        }
    }
}

#[test]
fn far_away_there_is_nothing() {
    let cron = Cron::parse("0 0 * * *").unwrap();
    assert_eq!(cron.next(&Zone::UTC, i64::MAX), None);
    assert_eq!(cron.newest(&Zone::UTC, i64::MIN), None);
    let ages = Duration::days(365 * 100).num_seconds();
    let last = DateTime::<Utc>::MAX_UTC.timestamp();
    assert!(cron.next(&Zone::UTC, last - ages).is_some());
    assert_eq!(cron.next(&Zone::UTC, last - 10), None);
}
