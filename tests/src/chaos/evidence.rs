//! What a round showed: the sink's beats, held against what the candidates said of themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::Beat;
use crate::candidate::Line;
use crate::sink::stale;

/// From what to what a take-over is measured: to the first beat of the next term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    /// From the SIGKILL of the leader.
    Kill,
    /// From the SIGSTOP of the leader.
    Freeze,
    /// From when the leader was cut off from the store; or stopped, when it was cut off.
    CutOff,
    /// From the SIGTERM of the leader, and of others.
    Stop,
    /// From the end of a fault that left nobody who could take over at once.
    AfterAll,
}

/// What a round showed.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The take-overs, in their order.
    pub takeovers: Vec<(Case, Duration)>,
    /// How many terms were won.
    pub terms: usize,
    /// How many of them were won a second time.
    pub won_twice: usize,
    /// All beats that arrived.
    pub beats: usize,
    /// Of each beat that arrived after the first of a newer term: how long after it.
    pub stale: Vec<Duration>,
    /// Of each beat that arrived after the validity of its holder: how long after it.
    pub late: Vec<Duration>,
    /// Beats of terms of which nobody said how long they were valid.
    pub unexplained: usize,
}

impl Evidence {
    pub(super) fn of(takeovers: Vec<(Case, Duration)>, beats: &[Beat], lines: &[Line]) -> Self {
        let validity = validity(lines);
        let late = beats.iter().filter_map(|beat| {
            let end = validity.get(&beat.term)?;
            (beat.wall - *end).to_std().ok().filter(|late| !late.is_zero())
        });
        let won = lines.iter().filter(|line| line.name() == "elected").count();
        Self {
            takeovers,
            terms: validity.len(),
            won_twice: won - validity.len(),
            beats: beats.len(),
            stale: stale(beats),
            late: late.collect(),
            unexplained: beats.iter().filter(|beat| !validity.contains_key(&beat.term)).count(),
        }
    }
}

/// Until when each term was valid: the latest of what its events said. Nobody has to have
/// stopped earlier than that.
#[must_use]
pub fn validity(lines: &[Line]) -> BTreeMap<u64, DateTime<Utc>> {
    let mut ends = BTreeMap::new();
    for line in lines.iter().filter(|line| matches!(line.name(), "elected" | "renewed")) {
        let said = line.event["timestamp"].as_str().unwrap_or_default();
        let Ok(said) = DateTime::parse_from_rfc3339(said) else { continue };
        let Some(valid_for) = line.event["valid_for_ms"].as_i64() else { continue };
        let end = said.to_utc() + TimeDelta::milliseconds(valid_for);
        let latest = ends.entry(line.term()).or_insert(end);
        *latest = end.max(*latest);
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Instant;

    fn at(ms: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(1_800_000_000_000 + ms).unwrap()
    }

    fn line(event: &str, ms: i64, term: u64, valid_for_ms: i64) -> Line {
        let timestamp = at(ms).to_rfc3339();
        let event = json!({
            "event": event, "timestamp": timestamp, "term": term, "valid_for_ms": valid_for_ms,
        });
        Line { at: Instant::now(), event }
    }

    fn beats(arrivals: &[(i64, u64)]) -> Vec<Beat> {
        let began = Instant::now();
        let beat = |&(ms, term): &(i64, u64)| {
            let after = Duration::from_millis(ms.try_into().unwrap());
            Beat { at: began + after, wall: at(ms), term, slot: 0, beat: 0, pid: 0 }
        };
        arrivals.iter().map(beat).collect()
    }

    #[test]
    fn beats_are_held_against_the_latest_validity_of_their_term() {
        let lines = [
            line("elected", 0, 7, 12_000),
            line("renewed", 4_000, 7, 11_999),
            line("stood-down", 9_000, 7, 0),
            line("elected", 18_000, 9, -5),
        ];
        let beats =
            beats(&[(10, 7), (15_999, 7), (16_020, 7), (18_000, 9), (18_030, 8), (18_100, 7)]);
        let evidence = Evidence::of(Vec::new(), &beats, &lines);
        let milliseconds =
            |all: &[Duration]| all.iter().map(Duration::as_millis).collect::<Vec<_>>();
        assert_eq!(milliseconds(&evidence.late), [21, 5, 2_101]);
        assert_eq!(milliseconds(&evidence.stale), [30, 100]);
        assert_eq!((evidence.terms, evidence.won_twice), (2, 0));
        assert_eq!((evidence.beats, evidence.unexplained), (6, 1));
    }

    #[test]
    fn a_term_that_two_win_is_seen() {
        let lines = [line("elected", 0, 7, 12_000), line("elected", 20_000, 7, 12_000)];
        assert_eq!(Evidence::of(Vec::new(), &[], &lines).won_twice, 1);
    }
}
