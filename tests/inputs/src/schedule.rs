//! Cron expressions, time zones, intervals and durations.

use tenure_base::duration::{format_duration, parse_duration};
use tenure_core::{Cron, Schedule, Timestamp, Zone};

use crate::answer::wall;

/// Tests a cron expression with a time zone after the last blank, or the words of a schedule.
///
/// Its instants rise, and its words parse to the same schedule.
pub fn schedule(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let (cron, zone) = text.rsplit_once(' ').unwrap_or((text, "UTC"));
    let parsed = match (Cron::parse(cron), Zone::from_name(zone)) {
        (Ok(cron), Some(zone)) => Some(Schedule::Cron(Box::new(cron), zone)),
        (Err(errors), _) => {
            assert!(!errors.is_empty());
            None
        }
        _ => None,
    };
    let described = Schedule::from_description(text).map(|(schedule, _)| schedule);
    for schedule in parsed.into_iter().chain(described) {
        let name = schedule.description();
        let reparsed =
            Schedule::from_description(&name).map(|(schedule, _)| schedule.description());
        assert_eq!(reparsed.as_ref(), Some(&name));
        let _ = schedule.shortest_interval();
        let now = Timestamp::from_date(wall());
        assert!(schedule.newest(now).is_none_or(|slot| slot <= now), "{name}");
        let mut instant = now;
        for _ in 0..3 {
            let Some(next) = schedule.next(instant) else { break };
            assert!(next > instant, "{name}");
            assert!(schedule.newest(next) == Some(next), "{name}");
            instant = next;
        }
    }
}

/// Tests a duration. A parsed duration survives formatting and parsing.
pub fn durations(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    if let Some(duration) = parse_duration(text) {
        assert_eq!(parse_duration(&format_duration(duration)), Some(duration), "{text}");
    }
}
