//! Formats instants and durations.

use chrono::{DateTime, Local, Offset as _, Utc};
use std::time::Duration;
use tenure::status::{TurnSummary, local_time};
use tenure_base::duration::format_duration;
use tenure_core::{Schedule, Timestamp, Zone};

/// Returns this machine's time of day.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_date(Utc::now())
}

pub(crate) fn whole_seconds(milliseconds: u64) -> String {
    format_duration(Duration::from_secs(milliseconds / 1_000))
}

pub(crate) fn turn_duration(milliseconds: u64) -> String {
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..60_000 => format!("{}.{} s", milliseconds / 1_000, milliseconds % 1_000 / 100),
        _ => whole_seconds(milliseconds),
    }
}

/// Returns a clause with the number of the attempt. Empty for the first attempt.
pub(crate) fn attempt_clause(attempt: u32) -> String {
    match attempt {
        0 | 1 => String::new(),
        number => format!(", attempt {number}"),
    }
}

/// Returns the time of the last success, as a clause.
pub(crate) fn last_success_clause(turns: &TurnSummary, zone: Zone) -> String {
    let ended = turns.last_success.as_ref().and_then(|last| last.ended.as_ref());
    ended.map(|at| format!("; last success {}", in_zone(at, zone))).unwrap_or_default()
}

/// Formats the time between two instants in whole seconds.
pub(crate) fn elapsed(from: Timestamp, to: Timestamp) -> String {
    format_duration(Duration::from_secs(to.since(from).as_secs()))
}

/// Formats the age of an instant in whole seconds.
pub(crate) fn ago(instant: Timestamp, now: Timestamp) -> String {
    format!("{} ago", elapsed(instant, now))
}

/// Formats the time until an instant in whole seconds, rounded up. None if the instant is past.
pub(crate) fn until(instant: Timestamp, now: Timestamp) -> Option<String> {
    let wait = instant.since(now);
    let wait = Duration::from_secs(wait.as_secs() + u64::from(wait.subsec_nanos() > 0));
    (!wait.is_zero()).then(|| format!("in {}", format_duration(wait)))
}

/// Returns the time zone of a schedule from its description in the record: that of a cron
/// expression, else UTC.
pub(crate) fn described_zone(schedule: Option<&str>) -> Zone {
    schedule.and_then(Schedule::from_description).map_or(Zone::UTC, |(_, zone)| zone)
}

/// Returns the time zone of a schedule: that of a cron expression, else UTC.
pub(crate) fn schedule_zone(schedule: Option<&Schedule>) -> Zone {
    match schedule {
        Some(Schedule::Cron(_, zone)) => *zone,
        _ => Zone::UTC,
    }
}

/// Formats the time of day for a terminal. Omits the zone's offset if this machine has the same
/// one.
pub(crate) fn time_of_day(now: DateTime<Utc>, zone: Zone) -> String {
    let (zoned, local) = (now.with_timezone(&zone), now.with_timezone(&Local));
    let same = zoned.offset().fix() == local.offset().fix();
    zoned.format(if same { "%H:%M:%S%.3f" } else { "%H:%M:%S%.3f%:z" }).to_string()
}

/// Converts an RFC 3339 instant to a time zone. Returns any other text unchanged.
pub(crate) fn in_zone(instant: &str, zone: Zone) -> String {
    Timestamp::parse(instant)
        .map_or_else(|| instant.to_owned(), |instant| local_time(instant, zone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn_duration_uses_the_largest_units() {
        for (ms, words) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1.0 s"),
            (59_999, "59.9 s"),
            (3_661_000, "1h 1m 1s"),
        ] {
            assert_eq!(turn_duration(ms), words);
        }
    }

    #[test]
    fn an_instant_is_written_in_the_zone_of_the_schedule() {
        let zone = described_zone(Some("cron 0 3 * * * Europe/Berlin"));
        assert_eq!(zone.name(), "Europe/Berlin");
        let local = in_zone("2026-07-01T01:00:00Z", zone);
        assert_eq!(local, "2026-07-01T03:00:00+02:00[Europe/Berlin]");
        assert_eq!(in_zone("2026-07-01T01:00:00Z", described_zone(None)), "2026-07-01T01:00:00Z");
        assert_eq!(in_zone("soon", zone), "soon");
    }

    #[test]
    fn time_of_day_omits_the_offset_of_this_machine() {
        let now = DateTime::UNIX_EPOCH;
        // The two zones have different offsets, so at most one is this machine's.
        let zones = ["Asia/Kolkata", "Asia/Kathmandu"].map(|name| Zone::from_name(name).unwrap());
        let times = zones.map(|zone| time_of_day(now, zone));
        let local = now.with_timezone(&Local).offset().fix().local_minus_utc();
        for (shown, (time, offset, seconds)) in times
            .iter()
            .zip([("05:30:00.000", "+05:30", 19_800), ("05:45:00.000", "+05:45", 20_700)])
        {
            let offset = if local == seconds { "" } else { offset };
            assert_eq!(*shown, format!("{time}{offset}"));
        }
    }
}
