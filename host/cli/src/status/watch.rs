//! `tenure status --watch`: reads elections repeatedly, and prints their changes.

use super::{Subjects, describe_wait};
use crate::complaint::Complaint;
use crate::output::event_lines::{Layout, format_line};
use crate::output::log::{LogContext, json};
use crate::output::times::{
    attempt_clause, described_zone, in_zone, last_success_clause, time_of_day, turn_duration,
};
use crate::output::{CommandResult, columns, complain, fail, report_write_error, wants_colour};
use crate::settings::CommandLine;
use crate::settings::table::{DEFAULT_INTERVAL, FOR_EACH_FILE};
use crate::signals::Signals;
use anstyle::{AnsiColor, Style};
use chrono::{DateTime, Utc};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tenure::engine::Election;
use tenure::status::TurnSummary;
use tenure_clock::{BootClock, Clock};
use tenure_core::{Outcome, Problem, Snapshot, Timestamp, Turns, Zone};
use tokio::select;
use tokio::task::JoinSet;

/// Delay between the first reads of two elections.
const SPREAD: Duration = Duration::from_millis(20);

/// Width of the column with the names of changes.
const NAME_WIDTH: usize = 8;

pub(super) async fn watch(line: &CommandLine) -> CommandResult {
    let mut signals = Signals::new().map_err(fail)?;
    let clock = BootClock::new();
    let Subjects { subjects, json, interval, .. } =
        Subjects::from_command_line(line, &clock).await?;
    if subjects.is_empty() {
        // An empty list would never change while it is watched.
        let problem = "the list has no names, so there is no election to watch";
        let advice = "write a name into it, and start again";
        return Err(complain(&[Complaint::new(FOR_EACH_FILE.name, problem, advice)], json));
    }
    let interval = interval.unwrap_or(DEFAULT_INTERVAL);
    let longest = subjects.iter().map(|subject| subject.election.chars().count()).max();
    let width = longest.filter(|_| subjects.len() > 1);
    let colour = io::stdout().is_terminal() && wants_colour();
    let mut watchers = JoinSet::new();
    for (number, subject) in subjects.into_iter().enumerate() {
        let context = LogContext { election: subject.election, candidate: String::new() };
        let writer = ChangeWriter { context, width, json, colour };
        // Spreads the reads over the interval.
        let start_at = clock.now() + SPREAD * u32::try_from(number).unwrap_or(u32::MAX);
        let start_at = start_at.min(clock.now() + interval);
        watchers.spawn(watch_election(subject.handle, clock.clone(), start_at, interval, writer));
    }
    select! {
        // A watcher ends only if it cannot write to standard output.
        _ = watchers.join_next() => {}
        _ = signals.next() => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Watches an election until standard output is closed or cannot be written.
async fn watch_election(
    election: Arc<Election>,
    clock: BootClock,
    start_at: Duration,
    interval: Duration,
    writer: ChangeWriter,
) {
    let mut detector = ChangeDetector::default();
    clock.sleep_until(start_at).await;
    loop {
        let began = clock.now();
        for change in detector.update(election.inspect().await) {
            if let Err(error) = writer.write(&change, detector.zone()) {
                report_write_error(&error);
                return;
            }
        }
        clock.sleep_until(began + interval).await;
    }
}

/// Writer of the changes of an election.
struct ChangeWriter {
    /// The context of the lines. It names the election only.
    context: LogContext,
    /// Length of the longest election name. None for a single election, whose lines do not name it.
    width: Option<usize>,
    json: bool,
    colour: bool,
}

impl ChangeWriter {
    fn write(&self, change: &Change, zone: Zone) -> io::Result<()> {
        let now = Utc::now();
        let line = match self.json {
            true => json(now, None, &self.context, change).unwrap_or_default(),
            false => {
                let election = self.width.map(|width| (self.context.election.as_str(), width));
                let width = columns(io::stdout());
                change.line(now, Layout { election, zone, colour: self.colour, width })
            }
        };
        let mut out = io::stdout();
        writeln!(out, "{line}").and_then(|()| out.flush())
    }
}

/// One change. Serialized with its name in `event`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Change {
    /// The election has a new leader.
    Leader {
        name: String,
        term: u64,
        since: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        address: Option<String>,
    },
    /// There is no leader. `last` is the name of the former leader.
    NoLeader { last: Option<String> },
    /// The state of the lease has changed.
    Lease { state: &'static str },
    /// A slot was claimed for a turn.
    SlotClaimed { slot: String, attempt: u32 },
    /// The end of a turn was recorded.
    SlotFinished {
        slot: String,
        outcome: &'static str,
        #[serde(flatten)]
        outlook: Outlook,
    },
    /// The time of the next turn. Reported for the first read only, if the record shows no finished
    /// slot: none had a turn yet, or the newest one is tried again.
    NextTurn {
        #[serde(flatten)]
        outlook: Outlook,
    },
    /// A turn for a trigger was claimed, or its end was recorded.
    Triggered {
        id: String,
        attempt: u32,
        outcome: Option<&'static str>,
        #[serde(flatten)]
        outlook: Option<Outlook>,
    },
    /// The election cannot be read, or no candidate can lead.
    Problem { class: &'static str, detail: String },
    /// The problem is resolved.
    ProblemOver,
}

/// The last turns and the next one, for a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Outlook {
    #[serde(flatten)]
    turns: TurnSummary,
    #[serde(skip)]
    has_leader: bool,
}

/// Detector of changes since the last read.
#[derive(Default)]
struct ChangeDetector {
    last: Option<Snapshot>,
    problem: Option<Problem>,
}

impl ChangeDetector {
    /// Returns the time zone of the recorded schedule. UTC if there is none.
    fn zone(&self) -> Zone {
        described_zone(self.last.as_ref().and_then(|last| last.turns.schedule.as_deref()))
    }

    /// Returns the changes since the last read. After the first read, the whole state counts as
    /// changed.
    fn update(&mut self, result: Result<Snapshot, Problem>) -> Vec<Change> {
        let mut changes = Vec::new();
        let (snapshot, problem) = match result {
            Ok(snapshot) => {
                let problem = snapshot.problem.clone();
                (Some(snapshot), problem)
            }
            Err(problem) => (None, Some(problem)),
        };
        match &problem {
            Some(Problem { class, detail }) if self.problem != problem => {
                let (class, detail) = (class.name(), detail.clone());
                changes.push(Change::Problem { class, detail });
            }
            None if self.problem.is_some() => changes.push(Change::ProblemOver),
            _ => {}
        }
        self.problem = problem;
        let Some(snapshot) = snapshot else { return changes };
        let last = self.last.as_ref();
        let first = last.is_none();
        if last.map(|last| last.lease) != Some(snapshot.lease) {
            changes.push(Change::Lease { state: snapshot.lease.name() });
        }
        let (previous, current) = (last.and_then(Snapshot::leader), snapshot.leader());
        match current {
            Some(leader) if previous.map(|former| former.term) != Some(leader.term) => {
                changes.push(Change::Leader {
                    name: leader.name.clone(),
                    term: leader.term,
                    since: leader.since.to_rfc3339(),
                    address: leader.address.clone(),
                });
            }
            None if first || previous.is_some() => {
                let last = snapshot.incumbent.as_ref().map(|last| last.name.clone());
                changes.push(Change::NoLeader { last });
            }
            _ => {}
        }
        changes.extend(turn_changes(last, &snapshot));
        self.last = Some(snapshot);
        changes
    }
}

fn turn_changes(previous: Option<&Snapshot>, current: &Snapshot) -> Vec<Change> {
    let mut changes = Vec::new();
    let outlook = Outlook {
        turns: TurnSummary::new(current.answered_at, &current.turns),
        has_leader: current.leader().is_some(),
    };
    let (last, now) = (previous.map(|last| &last.turns), &current.turns);
    // Two attempts at a slot may have the same outcome, and then only the end times differ. A turn
    // for a trigger changes these too, so they count only if no such turn has changed.
    let end_times = |turns: &Turns| (turns.last_success, turns.last_failure);
    let another_end = last.is_none_or(|last| {
        last.finished != now.finished
            || (last.triggered == now.triggered && end_times(last) != end_times(now))
    });
    // Once the next attempt is claimed, the record only holds the failure of the previous one.
    let failed = now.last_failure.filter(|failure| {
        let is_retried = now.last_slot.as_ref().is_some_and(|claimed| claimed.slot == failure.slot);
        is_retried && last.is_some_and(|last| last.last_failure != now.last_failure)
    });
    let finished = now.finished.as_ref().map(|finished| (finished.slot, finished.outcome));
    // The end of a turn comes first: the claim on record is usually that of a later turn.
    if let Some((slot, outcome)) =
        finished.or(failed.map(|failure| (failure.slot, failure.end.outcome)))
        && another_end
    {
        let (slot, outcome) = (slot.to_rfc3339(), outcome.name());
        changes.push(Change::SlotFinished { slot, outcome, outlook: outlook.clone() });
    } else if last.is_none() && outlook.turns.next_turn.is_some() {
        changes.push(Change::NextTurn { outlook: outlook.clone() });
    }
    if let Some(claimed) = now.last_slot.as_ref()
        && last.and_then(|last| last.last_slot.as_ref()) != Some(claimed)
    {
        changes.push(Change::SlotClaimed {
            slot: claimed.slot.to_rfc3339(),
            attempt: claimed.attempt,
        });
        // The claimed turn may have ended since the last read, so its claim comes first.
        if now.finished.as_ref().is_some_and(|finished| finished.slot == claimed.slot) {
            changes.reverse();
        }
    }
    if let Some(triggered) = now.triggered.as_ref()
        && last.and_then(|last| last.triggered.as_ref()) != Some(triggered)
    {
        changes.push(Change::Triggered {
            id: triggered.id.clone(),
            attempt: triggered.attempt,
            outcome: triggered.outcome.map(Outcome::name),
            outlook: triggered.outcome.and(outlook_of_slot(&outlook, triggered.slot)),
        });
    }
    changes
}

/// Returns the outlook for the end of the turn of this slot, unless a later turn has ended.
fn outlook_of_slot(outlook: &Outlook, slot: Timestamp) -> Option<Outlook> {
    let slot = slot.to_rfc3339();
    outlook.turns.last_turn.as_ref().is_some_and(|last| last.slot == slot).then(|| outlook.clone())
}

/// Describes the end of a turn, its duration and the next turn.
fn describe_end(outcome: &str, slot: Option<&str>, outlook: &Outlook, zone: Zone) -> String {
    let last = outlook.turns.last_turn.as_ref();
    let last_turn = last.filter(|last| slot.is_none_or(|slot| last.slot == slot));
    let took_ms = last_turn.and_then(|last| last.took_ms);
    let duration = took_ms.map(|ms| format!(" after {}", turn_duration(ms))).unwrap_or_default();
    let success = match outcome {
        "succeeded" => String::new(),
        _ => last_success_clause(&outlook.turns, zone),
    };
    let next = next_turn(outlook).map(|next| format!("; {next}")).unwrap_or_default();
    format!("{outcome}{duration}{success}{next}")
}

impl Change {
    /// Formats the change as a text line.
    fn line(&self, now: DateTime<Utc>, layout: Layout<'_>) -> String {
        let (style, name, text) = self.describe(layout.zone);
        format_line(&time_of_day(now, layout.zone), (style, name, NAME_WIDTH), &text, layout)
    }

    fn describe(&self, zone: Zone) -> (Style, &'static str, String) {
        let (plain, green) = (Style::new(), AnsiColor::Green.on_default().bold());
        let (yellow, red) = (AnsiColor::Yellow.on_default(), AnsiColor::Red.on_default());
        let outcome_style = |outcome: &str| if outcome == "succeeded" { plain } else { yellow };
        match self {
            Self::Leader { name, term, since, address } => {
                let address = address.as_ref().map(|at| format!(", at {at}")).unwrap_or_default();
                let since = in_zone(since, zone);
                (green, "leader", format!("{name}, term {term}, since {since}{address}"))
            }
            Self::NoLeader { last } => {
                let last = last.as_ref().map(|last| format!("; the last one was {last}"));
                (yellow, "leader", format!("none{}", last.unwrap_or_default()))
            }
            Self::Lease { state } => (plain, "lease", (*state).to_owned()),
            Self::SlotClaimed { slot, attempt } => (
                plain,
                "slot",
                format!("{} claimed{}", in_zone(slot, zone), attempt_clause(*attempt)),
            ),
            Self::SlotFinished { slot, outcome, outlook } => {
                let ending = describe_end(outcome, Some(slot), outlook, zone);
                (outcome_style(outcome), "slot", format!("{} {ending}", in_zone(slot, zone)))
            }
            Self::NextTurn { outlook } => (plain, "slot", next_turn(outlook).unwrap_or_default()),
            Self::Triggered { id, attempt, outcome, outlook } => {
                let (style, ending) = match outcome {
                    None => (plain, "claimed".to_owned()),
                    Some(outcome) => {
                        let outlook = outlook.clone().unwrap_or_default();
                        (outcome_style(outcome), describe_end(outcome, None, &outlook, zone))
                    }
                };
                (style, "trigger", format!("{id}{}: {ending}", attempt_clause(*attempt)))
            }
            Self::Problem { class, detail } => (red, "problem", format!("{class}: {detail}")),
            Self::ProblemOver => (green, "problem", "resolved".to_owned()),
        }
    }
}

/// Describes the time of the next turn, in the time zone of its schedule.
fn next_turn(outlook: &Outlook) -> Option<String> {
    let next = outlook.turns.next_turn.as_ref()?;
    Some(format!("next turn {} ({})", next.local, describe_wait(next, outlook.has_leader)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at, end, idle, incumbent};
    use super::*;
    use tenure_core::{
        Ended, Finished, LastSlot, LeaseState, NextTurn, Outcome, ProblemClass, Triggered,
    };

    const LAYOUT: Layout<'_> =
        Layout { election: None, zone: Zone::UTC, colour: false, width: None };

    fn snapshot(lease: LeaseState, leader: Option<(&str, u64)>) -> Snapshot {
        idle(lease, leader.map(|(name, term)| incumbent(name, term, 5)))
    }

    /// Returns the length of the time in a line.
    fn time() -> usize {
        time_of_day(DateTime::UNIX_EPOCH, Zone::UTC).len()
    }

    fn lines(changes: &[Change]) -> Vec<String> {
        let line = |change: &Change| change.line(DateTime::UNIX_EPOCH, LAYOUT);
        changes.iter().map(|change| line(change)[time() + 2..].to_owned()).collect()
    }

    #[test]
    fn first_read_reports_all_and_no_change_reports_nothing() {
        let mut watcher = ChangeDetector::default();
        let leased = snapshot(LeaseState::Leased, Some(("ada", 7)));
        let first = lines(&watcher.update(Ok(leased.clone())));
        assert_eq!(
            first,
            ["lease     leased", "leader    ada, term 7, since 1970-01-01T00:00:05Z"]
        );
        let mut later = Snapshot { answered_at: at(70), ..leased };
        later.turns.next = Some(NextTurn { slot: at(1), at: at(1) });
        assert_eq!(watcher.update(Ok(later)), []);
        let mut watcher = ChangeDetector::default();
        let nothing = lines(&watcher.update(Ok(snapshot(LeaseState::Absent, None))));
        assert_eq!(nothing, ["lease     absent", "leader    none"]);
    }

    #[test]
    fn leader_change_is_reported() {
        let mut watcher = ChangeDetector::default();
        watcher.update(Ok(snapshot(LeaseState::Leased, Some(("ada", 7)))));
        let expired = lines(&watcher.update(Ok(snapshot(LeaseState::Expired, Some(("ada", 7))))));
        assert_eq!(expired, ["lease     expired", "leader    none; the last one was ada"]);
        let ben = watcher.update(Ok(snapshot(LeaseState::Leased, Some(("ben", 9)))));
        assert!(matches!(&ben[..], [Change::Lease { .. }, Change::Leader { term: 9, .. }]));
        // The same name with another term is a new leader.
        let again = watcher.update(Ok(snapshot(LeaseState::Leased, Some(("ben", 10)))));
        assert!(matches!(&again[..], [Change::Leader { term: 10, .. }]), "{again:?}");
    }

    #[test]
    fn turns_are_reported_in_order() {
        let mut watcher = ChangeDetector::default();
        let mut now = snapshot(LeaseState::Leased, Some(("ada", 7)));
        watcher.update(Ok(now.clone()));
        now.turns.last_slot = Some(LastSlot { slot: at(60), attempt: 1 });
        let claimed = lines(&watcher.update(Ok(now.clone())));
        assert_eq!(claimed, ["slot      1970-01-01T00:01:00Z claimed"]);
        now.turns.finished = Some(Finished { slot: at(60), outcome: Outcome::Failed });
        now.turns.last_slot = Some(LastSlot { slot: at(65), attempt: 2 });
        let next = lines(&watcher.update(Ok(now.clone())));
        assert_eq!(
            next,
            [
                "slot      1970-01-01T00:01:00Z failed",
                "slot      1970-01-01T00:01:05Z claimed, attempt 2"
            ]
        );
        now.turns.finished = Some(Finished { slot: at(70), outcome: Outcome::Succeeded });
        now.turns.last_slot = Some(LastSlot { slot: at(70), attempt: 1 });
        now.turns.triggered =
            Some(Triggered { id: "v1".to_owned(), slot: at(70), attempt: 1, outcome: None });
        let both = lines(&watcher.update(Ok(now)));
        assert_eq!(
            both,
            [
                "slot      1970-01-01T00:01:10Z claimed",
                "slot      1970-01-01T00:01:10Z succeeded",
                "trigger   v1: claimed"
            ]
        );
    }

    #[test]
    fn failed_attempt_is_reported_before_the_next() {
        let mut watcher = ChangeDetector::default();
        let mut now = snapshot(LeaseState::Leased, Some(("ada", 7)));
        let slot = at(60);
        now.turns.last_slot = Some(LastSlot { slot, attempt: 1 });
        watcher.update(Ok(now.clone()));
        let end = end(Outcome::Failed, 61, None);
        now.turns.last_failure = Some(Ended { slot, triggered: false, end });
        now.turns.last_slot = Some(LastSlot { slot, attempt: 2 });
        let both = lines(&watcher.update(Ok(now.clone())));
        assert!(both[0].starts_with("slot      1970-01-01T00:01:00Z failed"), "{both:?}");
        assert_eq!(both[1..], ["slot      1970-01-01T00:01:00Z claimed, attempt 2"]);
        assert!(watcher.update(Ok(now)).is_empty());
    }

    #[test]
    fn turn_end_is_reported_with_duration_and_next_turn() {
        let mut watcher = ChangeDetector::default();
        let mut now = snapshot(LeaseState::Leased, Some(("ada", 7)));
        now.turns.next = Some(NextTurn { slot: at(120), at: at(120) });
        let first = lines(&watcher.update(Ok(now.clone())));
        assert_eq!(first[2], "slot      next turn 1970-01-01T00:02:00Z (in 55s)");
        let ended_turn = |slot: u64, outcome, took: u64| {
            let end = end(outcome, slot + took, Some(took * 1_000));
            Ended { slot: at(slot), triggered: false, end }
        };
        now.turns.last_success = Some(ended_turn(30, Outcome::Succeeded, 1));
        now.turns.last_slot = Some(LastSlot { slot: at(60), attempt: 1 });
        now.turns.finished = Some(Finished { slot: at(60), outcome: Outcome::Failed });
        now.turns.last_failure = Some(ended_turn(60, Outcome::Failed, 2));
        let failed = "slot      1970-01-01T00:01:00Z failed after 2.0 s; last success \
                      1970-01-01T00:00:31Z; next turn 1970-01-01T00:02:00Z (in 55s)";
        assert_eq!(lines(&watcher.update(Ok(now.clone())))[1], failed);
        now.turns.last_failure = Some(ended_turn(60, Outcome::Failed, 3));
        assert_eq!(watcher.update(Ok(now)).len(), 1, "another attempt that failed is news");
    }

    #[test]
    fn due_turn_without_a_leader_waits_for_one() {
        let mut now = snapshot(LeaseState::Expired, Some(("ada", 7)));
        now.turns.next = Some(NextTurn { slot: at(60), at: at(60) });
        let changes = ChangeDetector::default().update(Ok(now));
        let next = "slot      next turn 1970-01-01T00:01:00Z (as soon as there is a leader)";
        assert_eq!(lines(&changes)[2], next);
        let json = serde_json::to_value(&changes[2]).unwrap();
        assert_eq!((&json["event"], &json["next_turn"]["in_ms"]), (&"next-turn".into(), &0.into()));
    }

    #[test]
    fn triggered_turn_is_reported_like_a_slot() {
        let mut watcher = ChangeDetector::default();
        let mut now = snapshot(LeaseState::Leased, Some(("ada", 7)));
        now.turns.next = Some(NextTurn { slot: at(120), at: at(120) });
        watcher.update(Ok(now.clone()));
        let triggered = |outcome, attempt| {
            Some(Triggered { id: "rerun".to_owned(), slot: at(60), attempt, outcome })
        };
        now.turns.triggered = triggered(None, 1);
        assert_eq!(lines(&watcher.update(Ok(now.clone()))), ["trigger   rerun: claimed"]);
        now.turns.triggered = triggered(Some(Outcome::Failed), 2);
        now.turns.last_failure = Some(Ended {
            slot: at(60),
            triggered: true,
            end: end(Outcome::Failed, 62, Some(2_000)),
        });
        let failed = "trigger   rerun, attempt 2: failed after 2.0 s; next turn 1970-01-01T00:02:00Z (in 55s)";
        let changes = watcher.update(Ok(now.clone()));
        assert_eq!(lines(&changes), [failed]);
        let json = serde_json::to_value(&changes[0]).unwrap();
        assert_eq!((&json["event"], &json["outcome"]), (&"triggered".into(), &"failed".into()));
        assert_eq!(json["last_turn"]["triggered"], true, "{json}");
        // A late read sees the end of another turn, which must not be reported for this one.
        now.turns.triggered = triggered(Some(Outcome::Succeeded), 3);
        now.turns.last_success = Some(Ended {
            slot: at(61),
            triggered: false,
            end: end(Outcome::Succeeded, 64, Some(3_000)),
        });
        let changes = lines(&watcher.update(Ok(now)));
        assert_eq!(changes, ["trigger   rerun, attempt 3: succeeded"]);
    }

    #[test]
    fn a_problem_begins_once_and_ends() {
        let problem = |detail: &str| {
            Err(Problem { class: ProblemClass::Unreachable, detail: detail.to_owned() })
        };
        let mut watcher = ChangeDetector::default();
        let leased = snapshot(LeaseState::Leased, Some(("ada", 7)));
        watcher.update(Ok(leased.clone()));
        assert_eq!(
            lines(&watcher.update(problem("no answer"))),
            ["problem   unreachable: no answer"]
        );
        assert_eq!(watcher.update(problem("no answer")), []);
        assert_eq!(watcher.update(problem("no name")).len(), 1, "another one is news");
        assert_eq!(watcher.update(Ok(leased)), [Change::ProblemOver], "and nothing else is");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        let change = Change::NoLeader { last: Some("a\u{1b}[31m\nb".to_owned()) };
        let line = change.line(DateTime::UNIX_EPOCH, LAYOUT);
        assert!(!line.contains(['\u{1b}', '\n']), "{line:?}");
        assert_eq!(line.find("none"), Some(time() + NAME_WIDTH + 4));
        assert!(
            change.line(DateTime::UNIX_EPOCH, Layout { colour: true, ..LAYOUT }).contains('\u{1b}')
        );
    }

    #[test]
    fn programs_get_the_name_of_the_change() {
        let change = Change::SlotClaimed { slot: "x".to_owned(), attempt: 1 };
        let json = serde_json::to_string(&change).unwrap();
        assert_eq!(json, r#"{"event":"slot-claimed","slot":"x","attempt":1}"#);
    }
}
