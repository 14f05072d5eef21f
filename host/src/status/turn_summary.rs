//! Summary of the past and upcoming turns of an election.

use chrono::{SecondsFormat, Utc};
use serde::Serialize;
use tenure_core::{Ended, Outcome, Schedule, Timestamp, Turns, Zone, milliseconds};

/// Summary of an election's past and upcoming turns according to its record.
///
/// The log, the pages, `/leader`, `/watch` and `tenure status` show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TurnSummary {
    /// Newest turn that has ended. `None` if there was none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_turn: Option<EndedTurn>,
    /// Newest turn that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success: Option<EndedTurn>,
    /// Newest turn that ended in another way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<EndedTurn>,
    /// Next turn. `None` if no schedule is on record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_turn: Option<UpcomingTurn>,
}

/// Health of an election. Lists show the worst first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ElectionHealth {
    /// The state is unknown: the account does not respond or refuses, or the blob is not an
    /// election.
    #[default]
    NotSeen,
    /// There is no leader.
    NobodyLeads,
    /// The last turn did not succeed.
    LastTurnFailed,
    /// The election is healthy.
    Well,
}

/// A turn that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndedTurn {
    /// Slot of the turn, RFC 3339 in UTC; for a trigger, the time of its request.
    pub slot: String,
    /// True if the turn ran for a trigger, outside the schedule.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub triggered: bool,
    /// Slot with the offset and the name of the schedule's time zone (RFC 9557).
    pub local: String,
    /// Outcome, as the WIT spells it.
    pub outcome: &'static str,
    /// End of the turn, RFC 3339 in UTC. `None` for work that lasted as long as a leadership, which
    /// neither succeeded nor failed.
    pub ended: Option<String>,
    /// Time since the end, when this summary was made.
    pub ago_ms: Option<u64>,
    /// Run time. `None` also if the turn never started, or its end was not observed.
    pub took_ms: Option<u64>,
    /// Name of the candidate that reported the turn; only for the last failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
    /// Reason of the failure; only for the last failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An upcoming turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UpcomingTurn {
    /// Slot of the turn, RFC 3339 in UTC.
    pub slot: String,
    /// Due time with the offset and the name of the schedule's time zone (RFC 9557): its slot plus
    /// the jitter.
    pub local: String,
    /// Time until it is due, when this summary was made. 0 if it is due now.
    pub in_ms: u64,
}

impl TurnSummary {
    /// Creates the summary of `turns` at `now`.
    #[must_use]
    pub fn new(now: Timestamp, turns: &Turns) -> Self {
        let zone = turns.schedule.as_deref().and_then(Schedule::from_description);
        let zone = zone.map_or(Zone::UTC, |(_, zone)| zone);
        let ended_turn = |ended: Ended| EndedTurn {
            slot: ended.slot.to_rfc3339(),
            triggered: ended.triggered,
            local: local_time(ended.slot, zone),
            outcome: ended.end.outcome.name(),
            ended: Some(ended.end.at.to_rfc3339()),
            ago_ms: Some(milliseconds(now.since(ended.end.at))),
            took_ms: ended.end.took.map(milliseconds),
            candidate: None,
            reason: None,
        };
        let detailed = |ended: Ended| match &turns.failure_detail {
            Some(detail) if turns.last_failure == Some(ended) => EndedTurn {
                candidate: Some(detail.candidate.clone()),
                reason: Some(detail.reason.clone()).filter(|reason| !reason.is_empty()),
                ..ended_turn(ended)
            },
            _ => ended_turn(ended),
        };
        let ends = [turns.last_success, turns.last_failure];
        let newest = ends.into_iter().flatten().max_by_key(|ended| (ended.end.at, ended.slot));
        // Work that lasted as long as its leadership has an outcome, but is neither the last
        // success nor the last failure.
        let is_earlier =
            |ended: Ended, slot| ended.slot < slot && (!ended.triggered || ended.end.at < slot);
        let unmatched_finish = turns.finished.as_ref().filter(|finished| {
            ends.into_iter().flatten().all(|ended| is_earlier(ended, finished.slot))
        });
        let last_turn = match unmatched_finish {
            None => newest.map(detailed),
            Some(finished) => Some(EndedTurn {
                slot: finished.slot.to_rfc3339(),
                triggered: false,
                local: local_time(finished.slot, zone),
                outcome: finished.outcome.name(),
                ended: None,
                ago_ms: None,
                took_ms: None,
                candidate: None,
                reason: None,
            }),
        };
        Self {
            last_turn: last_turn.map(|last| match turns.last_failure {
                // Its last attempt failed, and there is no further one.
                Some(failure)
                    if abandoned(turns, failure.triggered) == Some(failure.slot)
                        && last.outcome == failure.end.outcome.name() =>
                {
                    EndedTurn { outcome: Outcome::Abandoned.name(), ..last }
                }
                _ => last,
            }),
            last_success: turns.last_success.map(detailed),
            last_failure: turns.last_failure.map(detailed),
            next_turn: turns.next.map(|next| UpcomingTurn {
                slot: next.slot.to_rfc3339(),
                local: local_time(next.at, zone),
                in_ms: milliseconds(next.at.since(now)),
            }),
        }
    }

    /// Returns the health of a reachable election with these turns.
    #[must_use]
    pub fn health(&self, is_led: bool) -> ElectionHealth {
        let succeeded = Outcome::Succeeded.name();
        match &self.last_turn {
            _ if !is_led => ElectionHealth::NobodyLeads,
            Some(last) if last.outcome != succeeded => ElectionHealth::LastTurnFailed,
            _ => ElectionHealth::Well,
        }
    }

    /// Returns the summary without values that change with the time alone.
    #[must_use]
    pub fn without_relative_times(&self) -> Self {
        let strip = |turn: &EndedTurn| EndedTurn { ago_ms: None, ..turn.clone() };
        Self {
            last_turn: self.last_turn.as_ref().map(strip),
            last_success: self.last_success.as_ref().map(strip),
            last_failure: self.last_failure.as_ref().map(strip),
            next_turn: self.next_turn.clone().map(|next| UpcomingTurn { in_ms: 0, ..next }),
        }
    }
}

/// Returns the slot of the newest turn of the schedule, or for a trigger, if it was abandoned.
fn abandoned(turns: &Turns, triggered: bool) -> Option<Timestamp> {
    let (slot, outcome) = match triggered {
        true => turns.triggered.as_ref().map(|newest| (newest.slot, newest.outcome))?,
        false => turns.finished.as_ref().map(|finished| (finished.slot, Some(finished.outcome)))?,
    };
    (outcome == Some(Outcome::Abandoned)).then_some(slot)
}

/// Formats an instant with the offset and the name of a zone (RFC 9557).
#[must_use]
pub fn local_time(instant: Timestamp, zone: Zone) -> String {
    if zone == Zone::UTC {
        return instant.to_rfc3339();
    }
    let time = instant.to_date().with_timezone(&zone).fixed_offset();
    format!("{}[{}]", time.to_rfc3339_opts(SecondsFormat::AutoSi, false), zone.name())
}

/// Returns this machine's wall clock time.
pub(crate) fn wall_clock() -> Timestamp {
    Timestamp::from_date(Utc::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tenure_core::{End, Finished, NextTurn};

    const SECOND: Duration = Duration::from_secs(1);
    const DAY: Duration = Duration::from_secs(86_400);
    /// 2026-03-28T02:00:00Z. The clocks of Berlin go forward in the following night.
    const SLOT: Timestamp = Timestamp(1_774_663_200_000_000_000);

    fn ended(slot: Timestamp, outcome: Outcome) -> Ended {
        let took = Some(Duration::from_millis(12_300));
        let at = slot.plus(Duration::from_millis(12_345));
        Ended { slot, triggered: false, end: End { outcome, at, took } }
    }

    fn turns() -> Turns {
        Turns {
            schedule: Some("cron 0 3 * * * Europe/Berlin".to_owned()),
            last_slot: None,
            finished: Some(Finished { slot: SLOT, outcome: Outcome::Failed }),
            triggered: None,
            last_success: Some(ended(SLOT.minus(DAY), Outcome::Succeeded)),
            last_failure: Some(ended(SLOT, Outcome::Failed)),
            failure_detail: None,
            missed: None,
            next: Some(NextTurn {
                slot: SLOT.plus(DAY - 3_600 * SECOND),
                at: SLOT.plus(DAY - 3_540 * SECOND),
            }),
        }
    }

    #[test]
    fn times_are_those_of_the_schedules_zone() {
        let outlook = TurnSummary::new(SLOT.plus(60 * SECOND), &turns());
        let last = outlook.last_turn.clone().unwrap();
        assert_eq!(Some(&last), outlook.last_failure.as_ref());
        assert_eq!(last.slot, "2026-03-28T02:00:00Z");
        assert_eq!(last.local, "2026-03-28T03:00:00+01:00[Europe/Berlin]");
        assert_eq!(
            (last.outcome, last.took_ms, last.ago_ms),
            ("failed", Some(12_300), Some(47_655))
        );
        assert_eq!(
            outlook.last_success.as_ref().unwrap().local,
            "2026-03-27T03:00:00+01:00[Europe/Berlin]"
        );
        let next = outlook.next_turn.clone().unwrap();
        assert_eq!(next.slot, "2026-03-29T01:00:00Z");
        assert_eq!(next.local, "2026-03-29T03:01:00+02:00[Europe/Berlin]", "with its jitter");
        assert_eq!(next.in_ms, 82_800_000);
        assert_eq!(
            TurnSummary::new(SLOT.plus(61 * SECOND), &turns()).without_relative_times(),
            outlook.without_relative_times()
        );
        let overdue = TurnSummary::new(SLOT.plus(2 * DAY), &turns());
        assert_eq!(overdue.next_turn.unwrap().in_ms, 0);
        let every = Turns { schedule: Some("every 1d".to_owned()), ..turns() };
        assert_eq!(
            TurnSummary::new(Timestamp(0), &every).last_turn.unwrap().local,
            "2026-03-28T02:00:00Z"
        );
    }

    #[test]
    fn worse_health_sorts_first() {
        let failed = TurnSummary::new(SLOT.plus(DAY), &turns());
        let well = TurnSummary::default();
        let healths =
            [ElectionHealth::NotSeen, failed.health(false), failed.health(true), well.health(true)];
        use ElectionHealth::{LastTurnFailed, NobodyLeads, NotSeen, Well};
        assert_eq!(healths, [NotSeen, NobodyLeads, LastTurnFailed, Well]);
        assert!(healths.is_sorted());
        let ended = |outcome| EndedTurn { outcome, ..failed.last_turn.clone().unwrap() };
        let succeeded = TurnSummary { last_turn: Some(ended("succeeded")), ..failed.clone() };
        assert_eq!(succeeded.health(true), Well);
    }

    #[test]
    fn the_last_turn_is_the_newest_known_one() {
        let last = |turns: &Turns| TurnSummary::new(SLOT.plus(DAY), turns).last_turn;
        let no_turns = Turns { finished: None, last_success: None, last_failure: None, ..turns() };
        assert_eq!(last(&no_turns), None);
        let later_success =
            Turns { last_success: Some(ended(SLOT.plus(SECOND), Outcome::Succeeded)), ..turns() };
        assert_eq!(last(&later_success).unwrap().outcome, "succeeded");
        let abandoned_turns = Turns {
            finished: Some(Finished { slot: SLOT, outcome: Outcome::Abandoned }),
            ..turns()
        };
        let abandoned = last(&abandoned_turns).unwrap();
        assert_eq!((abandoned.outcome, abandoned.took_ms), ("abandoned", Some(12_300)));
        // Requested before that slot, and run after it.
        let triggered = Ended { triggered: true, ..ended(SLOT.minus(SECOND), Outcome::Succeeded) };
        let newest = last(&Turns { last_success: Some(triggered), last_failure: None, ..turns() });
        assert!(newest.is_some_and(|turn| turn.triggered && turn.outcome == "succeeded"));
        // Two locks within one millisecond.
        let (early, late) = (
            ended(SLOT, Outcome::Failed),
            ended(SLOT.plus(Duration::from_nanos(1)), Outcome::Succeeded),
        );
        let late = Ended { end: End { at: early.end.at, ..late.end }, ..late };
        let both = Turns { last_success: Some(late), last_failure: Some(early), ..turns() };
        assert_eq!(last(&both).unwrap().outcome, "succeeded");
        // Work that lasted as long as its leadership.
        let later = Finished { slot: SLOT.plus(SECOND), outcome: Outcome::Succeeded };
        let recorded = last(&Turns { finished: Some(later), ..turns() }).unwrap();
        assert_eq!((recorded.outcome, recorded.ended, recorded.took_ms), ("succeeded", None, None));
    }
}
