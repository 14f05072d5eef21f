//! State of an election, as logs, pages and commands show it: its turns, the time until a dead
//! leader is replaced, and the difference between this machine's clock and the service's.

use chrono::{SecondsFormat, Utc};
use serde::Serialize;
use std::fmt;
use std::time::Duration;
use tenure_core::{
    Ended, Failover, Outcome, Report, Schedule, Timestamp, Turns, Zone, format_duration,
    milliseconds,
};

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
    Unknown,
    /// There is no leader.
    NoLeader,
    /// The last turn did not succeed.
    LastTurnFailed,
    /// The election is healthy.
    Healthy,
}

/// A turn that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndedTurn {
    /// Slot of the turn, RFC 3339 in UTC. For a trigger, this is the time of its request.
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
    /// Milliseconds from the end of the turn until this summary was made.
    pub ago_ms: Option<u64>,
    /// Run time in milliseconds. `None` also if the turn never started, or its end was not
    /// observed.
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
    /// Due time, which is the slot plus the jitter, with the offset and the name of the schedule's
    /// time zone (RFC 9557).
    pub local: String,
    /// Milliseconds from the time at which this summary was made until the turn is due. 0 if it was
    /// already due.
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
                // The turn's last attempt failed, and no other attempt follows.
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
            _ if !is_led => ElectionHealth::NoLeader,
            Some(last) if last.outcome != succeeded => ElectionHealth::LastTurnFailed,
            _ => ElectionHealth::Healthy,
        }
    }

    /// Returns the summary without values that change only because time passes.
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

/// Returns the slot of the newest turn if that turn was abandoned. `triggered` selects the turns
/// for triggers; otherwise the turns of the schedule count.
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

/// Longest delay with which the service ends a lease (assumption A1 of the protocol).
const EXPIRY_DELAY: Duration = Duration::from_secs(2);

/// Suggested failover time if none is set.
const ADVISED_FAILOVER: Failover = Failover { within: Duration::from_secs(3) };

/// Time until a dead leader is replaced, and the mechanism.
///
/// `Display` writes a sentence without its full stop. Example: "a machine that dies is replaced
/// within about 3s; a process that dies while its supervisor lives, at once".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakeoverTime {
    /// Time from the newest beat of a silent leader until it has certainly stopped, according to
    /// its record. `None` if followers wait for the lease to expire.
    pub promise: Option<Duration>,
    /// Duration of a lease.
    pub lease: Duration,
    /// Longest interval between two polls of a follower.
    pub poll: Duration,
    /// True if the leader leaves its last will with a supervisor, as far as is known.
    pub is_supervised: bool,
    /// True if followers notice the end of the leader at once, because they watch its address.
    pub is_watched: bool,
}

impl TakeoverTime {
    /// Returns true if followers can watch that address. Other texts are only displayed.
    pub fn may_be_watched(address: &str) -> bool {
        ["http://", "https://"].iter().any(|scheme| address.starts_with(scheme))
    }

    /// Returns the approximate time until a leader is replaced whose machine has failed.
    pub fn after_machine_failure(&self) -> Duration {
        let tenths = |span: Duration| {
            Duration::from_millis(100 * u64::try_from((span.as_millis() + 50) / 100).unwrap_or(0))
        };
        let after_expiry = self.lease + EXPIRY_DELAY + self.poll;
        self.promise.map_or(after_expiry, |promise| tenths(Failover::from_promise(promise).within))
    }

    /// Returns the time in which followers notice a released lease, or `None` if they are notified.
    fn notice_interval(&self) -> Option<Duration> {
        let notice_interval = self
            .promise
            .map_or(self.poll, |promise| Failover::from_promise(promise).beat_interval());
        (!self.is_watched).then_some(notice_interval)
    }
}

impl fmt::Display for TakeoverTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = if self.is_supervised { "a machine" } else { "a machine or a process" };
        let within = format_duration(self.after_machine_failure());
        match self.promise {
            Some(_) => write!(f, "{subject} that dies is replaced within about {within}")?,
            None => write!(
                f,
                "{subject} that dies is replaced when its lease expires, within about {within} (--failover {} shortens \
                 that)",
                format_duration(ADVISED_FAILOVER.within)
            )?,
        }
        if !self.is_supervised {
            return Ok(());
        }
        f.write_str("; a process that dies while its supervisor lives, ")?;
        match self.notice_interval() {
            Some(interval) => write!(f, "within {}", format_duration(interval)),
            None => f.write_str("at once"),
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// Largest difference that is not reported. The service's own clock may be as far off.
const TOLERANCE: Duration = Duration::from_secs(2);

/// Reportable difference between this machine's clock and the service's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockDifference {
    amount: Duration,
    is_behind: bool,
}

impl ClockDifference {
    /// Compares the service's time, which may be up to a second early, with this machine's time
    /// just before and after it was received. Returns `None` if they differ by at most 2 s.
    #[must_use]
    pub fn new(service: Timestamp, before: Timestamp, after: Timestamp) -> Option<Self> {
        let behind = service.since(after);
        let ahead = before.since(service.plus(SECOND));
        let (amount, is_behind) = if behind > ahead { (behind, true) } else { (ahead, false) };
        (amount > TOLERANCE).then_some(Self { amount, is_behind })
    }

    /// Converts an instant of this machine's clock to the service's clock.
    #[must_use]
    pub fn corrected(&self, instant: Timestamp) -> Timestamp {
        match self.is_behind {
            true => instant.plus(self.amount),
            false => instant.minus(self.amount),
        }
    }
}

/// Estimate of the service's wall clock, from reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServiceTime {
    /// Difference of this machine's clock, if it is large enough to report.
    pub difference: Option<ClockDifference>,
}

impl ServiceTime {
    /// Takes the service's time from a report that was taken `age` ago. A report without that time
    /// changes nothing.
    pub fn update(&mut self, report: &Report, age: Duration) {
        let Some(service) = report.service_time else { return };
        self.difference = ClockDifference::new(service.plus(age), wall_clock(), wall_clock());
    }

    /// Returns this machine's time, corrected by the difference.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.difference.map_or_else(wall_clock, |difference| difference.corrected(wall_clock()))
    }
}

impl fmt::Display for ClockDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded, because it is exact only to a second.
        let unit = if self.amount >= 120 * SECOND { 60 } else { 1 };
        let rounded = Duration::from_secs(
            (self.amount + SECOND * unit / 2).as_secs() / u64::from(unit) * u64::from(unit),
        );
        let relation = if self.is_behind { "behind" } else { "ahead of" };
        write!(
            f,
            "this machine's clock is {} {relation} the service's; set it by NTP (elections do not depend on it, but \
             signatures and certificates do)",
            format_duration(rounded)
        )
    }
}

#[cfg(test)]
mod turn_summary_tests {
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
        let summary = TurnSummary::new(SLOT.plus(60 * SECOND), &turns());
        let last = summary.last_turn.clone().unwrap();
        assert_eq!(Some(&last), summary.last_failure.as_ref());
        assert_eq!(last.slot, "2026-03-28T02:00:00Z");
        assert_eq!(last.local, "2026-03-28T03:00:00+01:00[Europe/Berlin]");
        assert_eq!(
            (last.outcome, last.took_ms, last.ago_ms),
            ("failed", Some(12_300), Some(47_655))
        );
        assert_eq!(
            summary.last_success.as_ref().unwrap().local,
            "2026-03-27T03:00:00+01:00[Europe/Berlin]"
        );
        let next = summary.next_turn.clone().unwrap();
        assert_eq!(next.slot, "2026-03-29T01:00:00Z");
        assert_eq!(next.local, "2026-03-29T03:01:00+02:00[Europe/Berlin]", "with its jitter");
        assert_eq!(next.in_ms, 82_800_000);
        assert_eq!(
            TurnSummary::new(SLOT.plus(61 * SECOND), &turns()).without_relative_times(),
            summary.without_relative_times()
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
            [ElectionHealth::Unknown, failed.health(false), failed.health(true), well.health(true)];
        use ElectionHealth::{Healthy, LastTurnFailed, NoLeader, Unknown};
        assert_eq!(healths, [Unknown, NoLeader, LastTurnFailed, Healthy]);
        assert!(healths.is_sorted());
        let ended = |outcome| EndedTurn { outcome, ..failed.last_turn.clone().unwrap() };
        let succeeded = TurnSummary { last_turn: Some(ended("succeeded")), ..failed.clone() };
        assert_eq!(succeeded.health(true), Healthy);
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
        // A trigger that was placed before that slot, and whose turn ended after the slot.
        let triggered = Ended { triggered: true, ..ended(SLOT.minus(SECOND), Outcome::Succeeded) };
        let newest = last(&Turns { last_success: Some(triggered), last_failure: None, ..turns() });
        assert!(newest.is_some_and(|turn| turn.triggered && turn.outcome == "succeeded"));
        // Two runs of `tenure lock` that ended within one millisecond.
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

#[cfg(test)]
mod takeover_time_tests {
    use super::*;

    const DEFAULT: TakeoverTime = TakeoverTime {
        promise: None,
        lease: Duration::from_secs(15),
        poll: Duration::from_secs(4),
        is_supervised: true,
        is_watched: true,
    };

    #[test]
    fn without_failover_the_text_names_lease_expiry() {
        assert_eq!(
            DEFAULT.to_string(),
            "a machine that dies is replaced when its lease expires, within about 21s (--failover 3s shortens that); \
             a process that dies while its supervisor lives, at once"
        );
        let unwatched = TakeoverTime { is_watched: false, ..DEFAULT };
        assert!(unwatched.to_string().ends_with("its supervisor lives, within 4s"), "{unwatched}");
    }

    #[test]
    fn with_failover_the_text_names_its_bound() {
        let with_promise =
            |promise| TakeoverTime { promise: Some(Duration::from_millis(promise)), ..DEFAULT };
        assert_eq!(
            with_promise(2_100).to_string(),
            "a machine that dies is replaced within about 3s; a process that dies while its supervisor lives, at once"
        );
        // Bounds that are not whole numbers.
        assert_eq!(with_promise(863).after_machine_failure(), Duration::from_millis(1_200));
        assert_eq!(with_promise(7_000).after_machine_failure(), Duration::from_secs(10));
        let unwatched = TakeoverTime { is_watched: false, ..with_promise(2_100) };
        assert!(
            unwatched.to_string().ends_with("its supervisor lives, within 500ms"),
            "{unwatched}"
        );
    }

    #[test]
    fn without_a_supervisor_a_process_counts_as_a_machine() {
        let unsupervised = TakeoverTime { is_supervised: false, ..DEFAULT };
        assert!(
            unsupervised.to_string().starts_with("a machine or a process that dies is"),
            "{unsupervised}"
        );
        assert!(!unsupervised.to_string().contains("supervisor"), "{unsupervised}");
    }
}

#[cfg(test)]
mod clock_tests {
    use super::*;

    /// The service's dates are whole seconds.
    #[test]
    fn a_difference_that_is_certainly_above_two_seconds_is_reported() {
        let now = Timestamp(1_795_000_000_000_000_000);
        let nanosecond = Duration::from_nanos(1);
        let later = |seconds: u32| now.plus(seconds * SECOND);
        let earlier = |seconds: u32| now.minus(seconds * SECOND);
        for (before, after, expected) in [
            (now, now, None),
            (later(3), later(3), None),
            (later(3).plus(nanosecond), later(4), Some("2s ahead of")),
            (earlier(5), earlier(2), None),
            (earlier(5), earlier(2).minus(nanosecond), Some("2s behind")),
            (earlier(1_200), earlier(1_199), Some("20m behind")),
            (later(3_601), later(3_601), Some("1h ahead of")),
        ] {
            let difference = ClockDifference::new(now, before, after);
            let text = difference.map(|found| found.to_string());
            assert_eq!(text.is_some(), expected.is_some(), "{text:?}");
            assert!(
                expected.is_none_or(|expected| text.as_ref().unwrap().contains(expected)),
                "{text:?}"
            );
            if let Some(difference) = difference {
                // The service's time was within that second when it was received.
                let (before, after) = (difference.corrected(before), difference.corrected(after));
                assert!(before <= later(1) && after >= now, "{difference:?}");
            }
        }
    }
}
