//! Evidence of a round: the sink's beats, compared with the candidates' own events.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tenure_core::Failover;

use crate::Beat;
use crate::candidate::Line;
use crate::sink::stale_beats;

/// Start of a takeover measurement, which ends at the first beat of the next term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    /// SIGKILL of the leader.
    Kill,
    /// SIGSTOP of the leader.
    Freeze,
    /// Partition of the leader from the store, or its SIGTERM if it was already cut off.
    CutOff,
    /// SIGTERM of the leader, and of followers.
    Terminate,
    /// End of a fault that left no candidate able to take over.
    AfterAll,
}

/// Evidence from a round.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Takeovers in order.
    pub takeovers: Vec<(Case, Duration)>,
    /// Number of terms.
    pub terms: usize,
    /// Number of terms that were won a second time.
    pub won_twice: usize,
    /// Number of beats that arrived.
    pub beats: usize,
    /// Delays of stale beats: time since the first beat of a newer term.
    pub stale: Vec<Duration>,
    /// Delays of late beats: time since the validity of their holder ended.
    pub late: Vec<Duration>,
    /// Beats of terms whose validity appears in no event.
    pub unexplained: usize,
}

/// Events of the successive candidates of one seat.
#[derive(Clone, Debug)]
pub(super) struct SeatLog {
    pub lines: Vec<Line>,
    pub failover: Option<Failover>,
    /// Times at which they sent metadata writes, in order.
    pub writes: Vec<DateTime<Utc>>,
}

impl SeatLog {
    /// Returns the end of the leader's validity after an event at `instant` that promised `end`. A
    /// leader that beats is bound by its newest write; this function does not know if that write
    /// was answered.
    fn validity_at(&self, instant: DateTime<Utc>, end: DateTime<Utc>) -> DateTime<Utc> {
        let Some(failover) = self.failover else { return end };
        let newest = self.writes.iter().take_while(|write| **write <= instant).last();
        newest.map_or(DateTime::<Utc>::MIN_UTC, |newest| *newest + failover.validity())
    }
}

impl Evidence {
    pub(super) fn from_logs(
        takeovers: Vec<(Case, Duration)>,
        beats: &[Beat],
        logs: &[SeatLog],
    ) -> Self {
        let validities: Vec<_> = logs.iter().map(|log| (log, validity(&log.lines))).collect();
        let late = beats.iter().filter_map(|beat| {
            let validity_of = |(log, validities): &(&SeatLog, BTreeMap<_, _>)| {
                validities.get(&beat.term).map(|end| log.validity_at(beat.wall, *end))
            };
            let lateness = beat.wall - validities.iter().filter_map(validity_of).max()?;
            lateness.to_std().ok().filter(|late| !late.is_zero())
        });
        let terms: BTreeSet<_> =
            validities.iter().flat_map(|(_, validities)| validities.keys()).copied().collect();
        let lines = logs.iter().flat_map(|log| &log.lines);
        let win_count = lines.filter(|line| line.name() == "elected").count();
        Self {
            takeovers,
            terms: terms.len(),
            won_twice: win_count - terms.len(),
            beats: beats.len(),
            stale: stale_beats(beats),
            late: late.collect(),
            unexplained: beats.iter().filter(|beat| !terms.contains(&beat.term)).count(),
        }
    }
}

/// Returns the end of each term's validity: the latest that its events promise. No leader has to
/// stop earlier.
#[must_use]
pub fn validity(lines: &[Line]) -> BTreeMap<u64, DateTime<Utc>> {
    let mut ends_by_term = BTreeMap::new();
    for line in lines.iter().filter(|line| matches!(line.name(), "elected" | "renewed")) {
        let timestamp = line.event["timestamp"].as_str().unwrap_or_default();
        let Ok(timestamp) = DateTime::parse_from_rfc3339(timestamp) else { continue };
        let Some(valid_for) = line.event["valid_for_ms"].as_i64() else { continue };
        let end = timestamp.to_utc() + TimeDelta::milliseconds(valid_for);
        let latest = ends_by_term.entry(line.term()).or_insert(end);
        *latest = end.max(*latest);
    }
    ends_by_term
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
            Beat {
                received_at: began + after,
                wall: at(ms),
                term,
                slot: 0,
                beat: 0,
                pid: 0,
                share: None,
            }
        };
        arrivals.iter().map(beat).collect()
    }

    fn lease_log(lines: &[Line]) -> SeatLog {
        SeatLog { lines: lines.to_vec(), failover: None, writes: Vec::new() }
    }

    #[test]
    fn a_failover_leader_is_checked_against_its_newest_write() {
        let failover = Some(Failover { within: Duration::from_secs(3) });
        let lines = vec![line("elected", 100, 7, 1_700)];
        let log = SeatLog { lines, failover, writes: [0, 500, 9_000].map(at).to_vec() };
        let beats = beats(&[(110, 7), (2_150, 7), (2_200, 7), (2_215, 7), (9_001, 7)]);
        let evidence = Evidence::from_logs(Vec::new(), &beats, &[log]);
        assert_eq!(evidence.late, [Duration::from_millis(15)]);
    }

    #[test]
    fn beats_are_checked_against_the_latest_validity_of_their_term() {
        let lines = [
            line("elected", 0, 7, 12_000),
            line("renewed", 4_000, 7, 11_999),
            line("stood-down", 9_000, 7, 0),
            line("elected", 18_000, 9, -5),
        ];
        let beats =
            beats(&[(10, 7), (15_999, 7), (16_020, 7), (18_000, 9), (18_030, 8), (18_100, 7)]);
        let evidence = Evidence::from_logs(Vec::new(), &beats, &[lease_log(&lines)]);
        let milliseconds =
            |all: &[Duration]| all.iter().map(Duration::as_millis).collect::<Vec<_>>();
        assert_eq!(milliseconds(&evidence.late), [21, 5, 2_101]);
        assert_eq!(milliseconds(&evidence.stale), [30, 100]);
        assert_eq!((evidence.terms, evidence.won_twice), (2, 0));
        assert_eq!((evidence.beats, evidence.unexplained), (6, 1));
    }

    #[test]
    fn a_term_won_twice_is_counted() {
        let lines = [line("elected", 0, 7, 12_000), line("elected", 20_000, 7, 12_000)];
        assert_eq!(Evidence::from_logs(Vec::new(), &[], &[lease_log(&lines)]).won_twice, 1);
        let logs = lines.map(|line| lease_log(&[line]));
        assert_eq!(Evidence::from_logs(Vec::new(), &[], &logs).won_twice, 1);
    }
}
