//! Texts that the pages share with `tenure status` and `tenure check`.

use chrono::Month;
use serde_json::{Value, json};
use tenure_core::{Listed, Timestamp, milliseconds};

/// Returns a candidate as an object of `/candidates` and of `tenure status --json`.
#[must_use]
pub fn candidate_as_json(candidate: &Listed, now: Timestamp) -> Value {
    let Listed { name, address, ready, failover, seen_at } = candidate;
    json!({
        "name": name,
        "address": address,
        "ready": ready,
        "failover_ms": failover.map(milliseconds),
        "seen": seen_at.to_rfc3339(),
        "ago_ms": milliseconds(now.since(*seen_at)),
    })
}

/// Describes a schedule on record in words: `every day at 02:00 Europe/Berlin` for `cron 0 2 * * *
/// Europe/Berlin`.
///
/// A schedule that a short sentence cannot express is returned unchanged.
#[must_use]
pub(crate) fn describe_schedule(description: &str) -> String {
    let description_text = match description.split_once(' ') {
        Some(("every", span)) => describe_interval(span),
        Some(("cron", rest)) => {
            rest.rsplit_once(' ').and_then(|(expression, zone)| describe_cron(expression, zone))
        }
        _ => None,
    };
    description_text.unwrap_or_else(|| description.to_owned())
}

/// Describes a schedule in words, followed by the original in parentheses if it differs.
#[must_use]
pub fn describe_schedule_with_source(description: &str) -> String {
    match describe_schedule(description) {
        text if text == description => text,
        text => format!("{text} ({description})"),
    }
}

/// Describes an interval. Intervals are aligned to 1970-01-01T00:00:00Z, so a day begins at
/// midnight UTC.
fn describe_interval(span: &str) -> Option<String> {
    let text = match span {
        "1s" => "every second",
        "1m" => "every minute",
        "1h" => "every hour",
        "1d" => "every day at 00:00 UTC",
        _ => return None,
    };
    Some(text.to_owned())
}

fn describe_cron(expression: &str, zone: &str) -> Option<String> {
    let expression = match expression {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        other => other,
    };
    let fields: Vec<_> = expression.split(' ').collect();
    let [minute, hour, day, month, weekday] = match fields[..] {
        [minute, hour, day, month, weekday] | ["0", minute, hour, day, month, weekday] => {
            [minute, hour, day, month, weekday]
        }
        [second, "*", "*", "*", "*" | "?", "*" | "?"] => {
            return parse_step(second, 60).map(|step| every(step, "second"));
        }
        _ => return None,
    };
    let days = describe_days(day, month, weekday)?;
    if let (Some(minute), Some(hours)) = (parse_number(minute, 0, 59), parse_numbers(hour, 0, 23)) {
        let times: Vec<_> = hours.iter().map(|hour| format!("{hour:02}:{minute:02}")).collect();
        return Some(format!(
            "{} at {} {zone}",
            days.as_deref().unwrap_or("every day"),
            join_items(&times)
        ));
    }
    // A sentence about an interval on selected days would be longer than the expression.
    if days.is_some() {
        return None;
    }
    match (parse_number(minute, 0, 59), parse_step(minute, 60), parse_step(hour, 24)) {
        (Some(0), _, Some(1)) if zone == "UTC" => Some("every hour".to_owned()),
        (Some(minute), _, Some(1)) if zone == "UTC" => {
            Some(format!("every hour at minute {minute}"))
        }
        // In a zone at :30 or :45, this is another minute of UTC.
        (Some(minute), _, Some(1)) => Some(format!("every hour at minute {minute} {zone}")),
        (Some(minute), _, Some(hours)) => {
            Some(format!("every {hours} hours from 00:{minute:02} {zone}"))
        }
        (_, Some(minutes), Some(1)) => Some(every(minutes, "minute")),
        _ => None,
    }
}

/// Describes the days of a cron expression: `Some(None)` for every day, `None` if a short sentence
/// cannot express them.
fn describe_days(day: &str, month: &str, weekday: &str) -> Option<Option<String>> {
    let all = |field: &str| matches!(field, "*" | "?");
    // Not every month has a day after the 28th, and not every year a 29 February.
    const LAST_COMMON_DAY: u32 = 28;
    match (all(day), all(month), all(weekday)) {
        (true, true, true) => Some(None),
        (true, true, false) => describe_weekdays(weekday).map(Some),
        (false, true, true) if day.eq_ignore_ascii_case("l") => {
            Some(Some("on the last day of each month".to_owned()))
        }
        (false, true, true) => {
            let days: Vec<_> =
                parse_numbers(day, 1, LAST_COMMON_DAY)?.iter().map(u32::to_string).collect();
            let unit = if days.len() == 1 { "day" } else { "days" };
            Some(Some(format!("on {unit} {} of each month", join_items(&days))))
        }
        (false, false, true) => {
            let day = parse_number(day, 1, LAST_COMMON_DAY)?;
            let month = match parse_number(month, 1, 12) {
                Some(number) => Month::try_from(u8::try_from(number).ok()?).ok()?,
                None => month.parse().ok()?,
            };
            Some(Some(format!("each year on {day} {}", month.name())))
        }
        _ => None,
    }
}

fn describe_weekdays(field: &str) -> Option<String> {
    const NAMES: [&str; 7] =
        ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
    let name = |text: &str| {
        let short = |name: &&str| name[..3].eq_ignore_ascii_case(text);
        let numbered = || NAMES.get(parse_number(text, 0, 7)? as usize % 7).copied();
        NAMES.into_iter().find(short).or_else(numbered)
    };
    if let Some((from, to)) = field.split_once('-') {
        return Some(format!("{} to {}", name(from)?, name(to)?));
    }
    let named: Option<Vec<_>> = field.split(',').map(name).collect();
    Some(format!("every {}", join_items(&named?)))
}

fn every(count: u32, unit: &str) -> String {
    match count {
        1 => format!("every {unit}"),
        count => format!("every {count} {unit}s"),
    }
}

/// Returns the step of a field if it divides `period` evenly.
fn parse_step(field: &str, period: u32) -> Option<u32> {
    match field {
        "*" => Some(1),
        field => {
            let step = parse_number(field.strip_prefix("*/")?, 1, period)?;
            period.is_multiple_of(step).then_some(step)
        }
    }
}

fn parse_numbers(field: &str, min: u32, max: u32) -> Option<Vec<u32>> {
    field.split(',').map(|text| parse_number(text, min, max)).collect()
}

fn parse_number(text: &str, min: u32, max: u32) -> Option<u32> {
    text.parse().ok().filter(|number| (min..=max).contains(number))
}

/// Joins items: `a`, `a and b`, `a, b and c`.
fn join_items(items: &[impl AsRef<str>]) -> String {
    let items: Vec<_> = items.iter().map(AsRef::as_ref).collect();
    match items.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => items.join(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_described_in_words() {
        for (description, words) in [
            ("every 1d", "every day at 00:00 UTC"),
            ("every 1h", "every hour"),
            ("every 90m", "every 90m"),
            ("cron 0 2 * * * Europe/Berlin", "every day at 02:00 Europe/Berlin"),
            ("cron 0 0 2 * * * UTC", "every day at 02:00 UTC"),
            ("cron 30 6,18 * * ? UTC", "every day at 06:30 and 18:30 UTC"),
            ("cron 5 4,8,12 * * * UTC", "every day at 04:05, 08:05 and 12:05 UTC"),
            ("cron 0 9 * * mon-fri Europe/Berlin", "Monday to Friday at 09:00 Europe/Berlin"),
            ("cron 0 9 * * 1,THU UTC", "every Monday and Thursday at 09:00 UTC"),
            ("cron 0 9 * * 7 UTC", "every Sunday at 09:00 UTC"),
            ("cron @weekly UTC", "every Sunday at 00:00 UTC"),
            ("cron 0 3 1 * * UTC", "on day 1 of each month at 03:00 UTC"),
            ("cron 0 3 1,15 * * UTC", "on days 1 and 15 of each month at 03:00 UTC"),
            ("cron 0 3 28 * * UTC", "on day 28 of each month at 03:00 UTC"),
            ("cron 0 3 L * * UTC", "on the last day of each month at 03:00 UTC"),
            ("cron @yearly UTC", "each year on 1 January at 00:00 UTC"),
            ("cron 0 3 24 dec * UTC", "each year on 24 December at 03:00 UTC"),
            ("cron * * * * * UTC", "every minute"),
            ("cron */15 * * * * UTC", "every 15 minutes"),
            ("cron 0 * * * * UTC", "every hour"),
            ("cron 30 * * * * UTC", "every hour at minute 30"),
            ("cron 30 * * * * Asia/Kolkata", "every hour at minute 30 Asia/Kolkata"),
            ("cron @hourly Asia/Kathmandu", "every hour at minute 0 Asia/Kathmandu"),
            ("cron 10 */6 * * * Europe/Berlin", "every 6 hours from 00:10 Europe/Berlin"),
            ("cron */10 * * * * * UTC", "every 10 seconds"),
        ] {
            assert_eq!(describe_schedule(description), words);
        }
    }

    #[test]
    fn complex_schedules_are_shown_unchanged() {
        for description in [
            "while leading",
            "every 5s",
            "cron 0 9-17 * * * UTC",
            "cron */7 * * * * UTC",
            "cron 0 */5 * * * UTC",
            "cron */5 * * * mon-fri UTC",
            "cron 0 9 1 * mon UTC",
            "cron 0 9 * * mon#1 UTC",
            "cron 0 9 * 6-8 * UTC",
            "cron 15 0 9 * * * UTC",
            "cron 0 9 1 0 * UTC",
            "cron 0 3 29 2 * UTC",
            "cron 0 3 29 * * UTC",
            "cron 0 3 1,31 * * UTC",
            "cron",
            "",
        ] {
            assert_eq!(describe_schedule(description), description);
        }
    }

    #[test]
    fn descriptions_include_a_different_source() {
        assert_eq!(describe_schedule_with_source("every 5s"), "every 5s");
        let text = describe_schedule_with_source("cron 0 2 * * * UTC");
        assert_eq!(text, "every day at 02:00 UTC (cron 0 2 * * * UTC)");
    }
}
