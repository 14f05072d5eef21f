//! What a round showed: the sink's beats, held against what the candidates said of themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tenure_core::Failover;

use crate::Beat;
use crate::candidate::Line;
use crate::sink::stale;

/// From what to what a takeover is measured: to the first beat of the next term.
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
    /// The takeovers, in their order.
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

/// What the candidates of one seat told, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub lines: Vec<Line>,
    pub failover: Option<Failover>,
    /// When they sent writes of metadata, in their order.
    pub writes: Vec<DateTime<Utc>>,
}

impl Told {
    /// Until when their leader may have worked that did so `then`, and said it is valid until `end`. One that
    /// beats acts by its newest write; whether that was answered is not known here.
    fn may_work_until(&self, then: DateTime<Utc>, end: DateTime<Utc>) -> DateTime<Utc> {
        let Some(failover) = self.failover else { return end };
        let newest = self.writes.iter().take_while(|write| **write <= then).last();
        newest.map_or(DateTime::<Utc>::MIN_UTC, |newest| *newest + failover.acts())
    }
}

impl Evidence {
    pub(super) fn of(takeovers: Vec<(Case, Duration)>, beats: &[Beat], told: &[Told]) -> Self {
        let ends: Vec<_> = told.iter().map(|told| (told, validity(&told.lines))).collect();
        let late = beats.iter().filter_map(|beat| {
            let of = |(told, ends): &(&Told, BTreeMap<_, _>)| {
                ends.get(&beat.term).map(|end| told.may_work_until(beat.wall, *end))
            };
            let late = beat.wall - ends.iter().filter_map(of).max()?;
            late.to_std().ok().filter(|late| !late.is_zero())
        });
        let terms: BTreeSet<_> = ends.iter().flat_map(|(_, ends)| ends.keys()).copied().collect();
        let lines = told.iter().flat_map(|told| &told.lines);
        let won = lines.filter(|line| line.name() == "elected").count();
        Self {
            takeovers,
            terms: terms.len(),
            won_twice: won - terms.len(),
            beats: beats.len(),
            stale: stale(beats),
            late: late.collect(),
            unexplained: beats.iter().filter(|beat| !terms.contains(&beat.term)).count(),
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
            Beat { at: began + after, wall: at(ms), term, slot: 0, beat: 0, pid: 0, share: None }
        };
        arrivals.iter().map(beat).collect()
    }

    fn by_lease(lines: &[Line]) -> Told {
        Told { lines: lines.to_vec(), failover: None, writes: Vec::new() }
    }

    #[test]
    fn a_leader_that_beats_is_held_against_its_newest_write() {
        let failover = Some(Failover { within: Duration::from_secs(3) });
        let lines = vec![line("elected", 100, 7, 1_700)];
        let told = Told { lines, failover, writes: [0, 500, 9_000].map(at).to_vec() };
        let beats = beats(&[(110, 7), (2_150, 7), (2_200, 7), (2_215, 7), (9_001, 7)]);
        let evidence = Evidence::of(Vec::new(), &beats, &[told]);
        assert_eq!(evidence.late, [Duration::from_millis(15)]);
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
        let evidence = Evidence::of(Vec::new(), &beats, &[by_lease(&lines)]);
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
        assert_eq!(Evidence::of(Vec::new(), &[], &[by_lease(&lines)]).won_twice, 1);
        let told = lines.map(|line| by_lease(&[line]));
        assert_eq!(Evidence::of(Vec::new(), &[], &told).won_twice, 1);
    }
}
