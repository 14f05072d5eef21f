//! `tenure status`: shows an election, or all elections of a file or of a container.

mod container;
mod shares;
mod tables;
mod this_machine;
mod watch;

use crate::complaint::printable;
use crate::configuration::Configuration;
use crate::output::log::json_text;
use crate::output::times::{
    ago, attempt_clause, described_zone, now, turn_duration, until, whole_seconds,
};
use crate::output::{CommandResult, UNUSABLE, columns, complain, print, ranges, wrap_words};
use crate::settings::table::{ALL_IN, HISTORY, INTERVAL, JSON, WATCH};
use crate::settings::{CommandLine, Elections};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use shares::Shares;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tenure::engine::{CandidateSettings, Election};
use tenure::status::{EndedTurn, TakeoverTime, TurnSummary, UpcomingTurn, local_time};
use tenure_clock::BootClock;
use tenure_core::{
    Finished, Incumbent, LastSlot, Listed, MissedSlots, Outcome, Problem, Snapshot, Timestamp,
    Triggered, Turns, Zone, milliseconds,
};
use tenure_server::format::{candidate_as_json, describe_schedule_with_source};
use this_machine::{LocalConfig, Remark};

/// Maximum number of elections that are read at the same time.
const MAX_CONCURRENT: usize = 16;

/// Exit code: there is no leader, or a member does not hold the shares that it should hold.
const NOT_AS_PLANNED: u8 = 1;

pub(super) async fn status(line: &CommandLine) -> CommandResult {
    if line.has(&WATCH) {
        return watch::watch(line).await;
    }
    let Subjects { subjects, is_whole_file, json, .. } =
        Subjects::from_command_line(line, &BootClock::new()).await?;
    // The table of several elections does not list their candidates.
    let with_candidates = json || subjects.len() == 1;
    let views = subjects.into_iter().map(|subject| View::read(subject, with_candidates));
    let views: Vec<_> = stream::iter(views).buffered(MAX_CONCURRENT).collect().await;
    let objects = || views.iter().map(object);
    print(&match views.as_slice() {
        _ if json && is_whole_file => {
            json_text(&json!({ "elections": objects().collect::<Vec<_>>() }))
        }
        _ if json => objects().map(|object| json_text(&object)).collect(),
        [one] => one_as_text(one, line.has(&HISTORY)),
        several if line.has(&HISTORY) => {
            format!("{}\n{}", tables::elections(several), tables::histories(several))
        }
        several => tables::elections(several),
    });
    tables::print_problems(&views);
    let code_of_none = if line.has(&ALL_IN) { NOT_AS_PLANNED } else { 0 };
    Ok(ExitCode::from(views.iter().map(View::exit_code).max().unwrap_or(code_of_none)))
}

/// An election with valid settings.
struct Subject {
    pub election: String,
    pub configuration: Configuration,
    pub handle: Arc<Election>,
}

/// The elections of the command line.
struct Subjects {
    pub subjects: Vec<Subject>,
    /// True if these are all elections of a file or of a container. JSON output then has a list,
    /// even for one election.
    pub is_whole_file: bool,
    pub json: bool,
    /// The value of `--interval`.
    pub interval: Option<Duration>,
}

impl Subjects {
    /// Validates the settings of all elections. Sends nothing, except to list a container.
    ///
    /// # Errors
    ///
    /// Returns the exit code, after printing the complaints.
    async fn from_command_line(line: &CommandLine, clock: &BootClock) -> Result<Self, ExitCode> {
        let json = line.has(&JSON);
        let shared = Election::new(CandidateSettings::default(), clock);
        let mut elections = match line.has(&ALL_IN) {
            true => container::elections(line, &shared).await?,
            false => Elections::from_command_line(line),
        };
        let (mut subjects, mut interval) = (Vec::new(), None);
        for resolved in std::mem::take(&mut elections.resolved) {
            let mut configuration = Configuration::for_status(resolved);
            let handle = Arc::new(configuration.resolve_election(&shared).0);
            interval = configuration.duration(&INTERVAL);
            elections.complain(std::mem::take(&mut configuration.complaints));
            subjects.push(Subject { election: configuration.election(), configuration, handle });
        }
        if !elections.complaints.is_empty() {
            return Err(complain(&elections.complaints, json));
        }
        Ok(Self { subjects, is_whole_file: elections.is_whole_file, json, interval })
    }
}

/// An election as it was read, with the data in blobs next to its own.
struct View {
    election: String,
    configuration: Configuration,
    snapshot: Result<Snapshot, Problem>,
    /// This machine's time of day before and after the read.
    read_between: (Timestamp, Timestamp),
    candidates: Result<Vec<Listed>, Problem>,
    /// None if the work is not split.
    shares: Option<Result<Shares, Problem>>,
}

impl View {
    async fn read(subject: Subject, with_candidates: bool) -> Self {
        let before = now();
        let snapshot = subject.handle.inspect().await;
        let read_between = (before, now());
        let candidates = match with_candidates && snapshot.is_ok() {
            true => subject.handle.candidates().await,
            false => Ok(Vec::new()),
        };
        let incumbent = snapshot.as_ref().ok().and_then(|snapshot| snapshot.incumbent.as_ref());
        let shares = match incumbent {
            Some(Incumbent { coordinates: true, .. }) => Some(shares::read(&subject).await),
            _ => None,
        };
        let Subject { election, configuration, .. } = subject;
        Self { election, configuration, snapshot, read_between, candidates, shares }
    }

    fn exit_code(&self) -> u8 {
        let Ok(snapshot) = &self.snapshot else { return UNUSABLE };
        match &self.shares {
            _ if snapshot.problem.is_some() => UNUSABLE,
            Some(Err(_)) => UNUSABLE,
            Some(Ok(shares)) if shares.unread().is_some() => UNUSABLE,
            Some(Ok(shares)) if !shares.is_as_planned() => NOT_AS_PLANNED,
            _ if snapshot.leader().is_none() => NOT_AS_PLANNED,
            _ => 0,
        }
    }

    /// Returns remarks about this machine, and about data that could not be read.
    fn remarks(&self, snapshot: &Snapshot) -> Vec<Remark> {
        let options = &self.configuration.settings.options;
        let local = LocalConfig { name: options.name.clone(), schedule: options.schedule() };
        let mut remarks = this_machine::remarks(snapshot, &local, self.read_between);
        let mut add_unread = |class, subject: String, Problem { class: why, detail }: &Problem| {
            let detail = format!("{subject} could not be read ({}): {detail}", why.name());
            remarks.push(Remark { class, detail });
        };
        if let Err(problem) = &self.candidates {
            add_unread("candidates", "the list of candidates".to_owned(), problem);
        }
        match &self.shares {
            Some(Err(problem)) => {
                add_unread("shares", "the plan of the shares".to_owned(), problem)
            }
            Some(Ok(shares)) => {
                if let Some((numbers, problem)) = shares.unread() {
                    let subject = format!("the records of shares {}", ranges(&numbers));
                    add_unread("shares", subject, problem);
                }
            }
            None => {}
        }
        remarks
    }

    /// Returns how soon another candidate replaces the leader if it dies.
    fn replacement(&self, snapshot: &Snapshot) -> Option<TakeoverTime> {
        replacement(snapshot, self.configuration.settings.takeover_time()?)
    }
}

/// Returns an election as JSON.
fn object(view: &View) -> Value {
    let View { election, candidates, shares, .. } = view;
    let snapshot = match &view.snapshot {
        Ok(snapshot) => snapshot,
        Err(problem) => return unread_object(election, problem),
    };
    let mut object = as_json(election, snapshot);
    object["failover"] = json!(view.replacement(snapshot).map(|replacement| json!({
        "machine_ms": milliseconds(replacement.after_machine_failure()),
        "promise_ms": replacement.promise.map(milliseconds),
        "detail": replacement.to_string(),
    })));
    let now = now();
    let candidates = candidates.as_ref().ok().map(|listed| {
        listed.iter().map(|candidate| candidate_as_json(candidate, now)).collect::<Vec<_>>()
    });
    object["candidates"] = json!(candidates);
    let shares = shares.as_ref().and_then(|shares| shares.as_ref().ok());
    object["shares"] = json!(shares.map(shares::as_json));
    object["here"] = json!(view.remarks(snapshot));
    object
}

/// Returns an election that could not be read as JSON.
fn unread_object(election: &str, problem: &Problem) -> Value {
    let remarks =
        [Remark { class: "role", detail: this_machine::meaning(problem.class).to_owned() }];
    json!({ "election": election, "problem": self::problem(problem), "here": remarks })
}

fn problem(problem: &Problem) -> Value {
    json!({ "class": problem.class.name(), "detail": problem.detail })
}

/// Formats one election as rows, and a section for each list with entries. Empty if the election
/// could not be read.
fn one_as_text(view: &View, with_history: bool) -> String {
    let Ok(snapshot) = &view.snapshot else { return String::new() };
    let width = columns(std::io::stdout());
    let replacement = view.replacement(snapshot);
    let replacement_row =
        replacement.map(|replacement| row("failover", &replacement.to_string(), width));
    let mut text = as_text(&view.election, snapshot, width);
    text += &replacement_row.unwrap_or_default();
    text += &this_machine::rows(&view.remarks(snapshot), width);
    let mut sections = Vec::new();
    if with_history {
        sections.push(tables::leaders(snapshot));
    }
    if let Some(listed) = view.candidates.as_ref().ok().filter(|listed| !listed.is_empty()) {
        sections.push(tables::candidates(listed, now()));
    }
    if let Some(Ok(shares)) = &view.shares {
        sections.push(shares::as_text(shares));
    }
    for section in sections {
        text.push('\n');
        text += &section;
    }
    text
}

/// Returns how soon another candidate replaces a dead leader. Promise and address are those on
/// record. Lease and poll interval, which no record shows, are of the local settings. Assumes a
/// supervisor, as in `tenure run`, because the record does not show one.
fn replacement(snapshot: &Snapshot, by_settings: TakeoverTime) -> Option<TakeoverTime> {
    let leader = snapshot.leader()?;
    Some(TakeoverTime {
        promise: snapshot.promise,
        is_supervised: true,
        is_watched: leader.address.as_deref().is_some_and(TakeoverTime::may_be_watched),
        ..by_settings
    })
}

fn as_json(election: &str, snapshot: &Snapshot) -> Value {
    let incumbent = |incumbent: &Incumbent| {
        json!({
            "name": incumbent.name,
            "term": incumbent.term,
            "since": incumbent.since.to_rfc3339(),
            "address": incumbent.address,
        })
    };
    let last_slot = |last: &LastSlot| {
        json!({
            "slot": last.slot.to_rfc3339(),
            "attempt": last.attempt,
        })
    };
    let finished = |finished: &Finished| {
        json!({
            "slot": finished.slot.to_rfc3339(),
            "outcome": finished.outcome.name(),
        })
    };
    let triggered = |newest: &Triggered| {
        json!({
            "id": newest.id,
            "requested_at": newest.slot.to_rfc3339(),
            "attempt": newest.attempt,
            "outcome": newest.outcome.map(Outcome::name),
        })
    };
    let missed =
        |missed: &MissedSlots| json!({ "slot": missed.slot.to_rfc3339(), "count": missed.count });
    let turns = &snapshot.turns;
    let summary = TurnSummary::new(snapshot.answered_at, turns);
    json!({
        "election": election,
        "lease": snapshot.lease.name(),
        "leader": snapshot.leader().map(incumbent),
        "last_leader": snapshot.incumbent.as_ref().map(incumbent),
        "schedule": turns.schedule,
        "last_turn": summary.last_turn,
        "last_success": summary.last_success,
        "last_failure": summary.last_failure,
        "next_turn": summary.next_turn,
        "last_slot": turns.last_slot.as_ref().map(last_slot),
        "finished": turns.finished.as_ref().map(finished),
        "triggered": turns.triggered.as_ref().map(triggered),
        "missed": turns.missed.as_ref().map(missed),
        "changes": snapshot.changes,
        "history": snapshot.history.iter().map(incumbent).collect::<Vec<_>>(),
        "problem": snapshot.problem.as_ref().map(problem),
        "answered_at": snapshot.answered_at.to_rfc3339(),
    })
}

/// Formats a row. Wraps it to `width` columns if the output is a terminal.
fn row(name: &str, value: &str, width: Option<usize>) -> String {
    // Any client with write access to the blob chooses the names and addresses.
    format!("{name:<12} {}\n", wrap_words(&printable(value), 13, width))
}

fn as_text(election: &str, snapshot: &Snapshot, width: Option<usize>) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| text.push_str(&row(name, &value, width));
    row("election", election.to_owned());
    row("lease", snapshot.lease.name().to_owned());
    match (snapshot.leader(), &snapshot.incumbent) {
        (Some(leader), _) => {
            row("leader", leader.name.clone());
            row("term", leader.term.to_string());
            let ago = ago(leader.since, snapshot.answered_at);
            let zone = described_zone(snapshot.turns.schedule.as_deref());
            row("since", format!("{} ({ago})", local_time(leader.since, zone)));
            if let Some(address) = &leader.address {
                row("address", address.clone());
            }
        }
        (None, None) => row("leader", "none".to_owned()),
        (None, Some(last)) => {
            row("leader", format!("none; the last one was {}, term {}", last.name, last.term));
        }
    }
    if let Some(problem) = &snapshot.problem {
        row("problem", problem.to_string());
    }
    if let Some(previous) = snapshot.history.first() {
        let changes = match snapshot.changes {
            1 => "1 change".to_owned(),
            changes => format!("{changes} changes"),
        };
        row(
            "before",
            format!(
                "{}, term {} ({changes}: tenure status --history)",
                previous.name, previous.term
            ),
        );
    }
    turn_rows(snapshot, &mut row);
    text
}

/// Adds the rows about turns: the last results and the next turn.
fn turn_rows(snapshot: &Snapshot, row: &mut impl FnMut(&str, String)) {
    let turns = &snapshot.turns;
    let TurnSummary { last_turn, last_success, last_failure, next_turn } =
        TurnSummary::new(snapshot.answered_at, turns);
    let zone = described_zone(turns.schedule.as_deref());
    if let Some(schedule) = &turns.schedule {
        row("schedule", describe_schedule_with_source(schedule));
    }
    match &last_turn {
        Some(last) => row("last turn", describe_end(last)),
        None if turns.schedule.is_some() => row("last turn", "none is over yet".to_owned()),
        None => {}
    }
    let is_earlier =
        |turn: &&EndedTurn| last_turn.as_ref().is_none_or(|last| last.ended != turn.ended);
    for (name, turn) in [("last success", &last_success), ("last failure", &last_failure)] {
        if let Some(turn) = turn.as_ref().filter(is_earlier) {
            row(name, describe_end(turn));
        }
    }
    if let Some(MissedSlots { slot, count }) = &turns.missed {
        let slots = if *count == 1 { "1 slot".to_owned() } else { format!("{count} slots") };
        let before = describe_instant(*slot, snapshot.answered_at, zone);
        row("missed", format!("{slots} had no turn, before {before}"));
    }
    if let Some(claimed) = turns.last_slot.as_ref().filter(|claimed| !is_over(claimed, turns)) {
        let state = unfinished_state(claimed.slot, snapshot);
        let time = describe_instant(claimed.slot, snapshot.answered_at, zone);
        row("claimed", format!("{time}{}: {state}", attempt_clause(claimed.attempt)));
    }
    if let Some(Triggered { id, slot, attempt, outcome }) = &turns.triggered {
        let (attempt, requested_at) =
            (attempt_clause(*attempt), describe_instant(*slot, snapshot.answered_at, zone));
        let outcome = outcome.map_or_else(|| unfinished_state(*slot, snapshot), Outcome::name);
        row("triggered", format!("{id}, requested at {requested_at}{attempt}, {outcome}"));
    }
    if let Some(next) = next_turn {
        let wait = describe_wait(&next, snapshot.leader().is_some());
        row("next turn", format!("{} ({wait})", next.local));
    }
}

/// Describes the time until the next turn, in whole seconds, rounded up.
fn describe_wait(next: &UpcomingTurn, has_leader: bool) -> String {
    match (next.in_ms, has_leader) {
        (0, true) => "now".to_owned(),
        (0, false) => "as soon as there is a leader".to_owned(),
        (wait, _) => format!("in {}", whole_seconds(wait.next_multiple_of(1_000))),
    }
}

/// Describes a turn without a recorded outcome.
fn unfinished_state(slot: Timestamp, snapshot: &Snapshot) -> &'static str {
    match snapshot.leader() {
        None => "no outcome was recorded, and the leader that ran it is gone",
        // This leader may itself run a slot that was due before its term.
        Some(leader) if leader.since > slot => {
            "it is running, or the leader that ran it is gone and no outcome was recorded"
        }
        Some(_) => "it is running, or its outcome is not recorded yet",
    }
}

/// Returns true if the end of a claimed turn is recorded.
fn is_over(claimed: &LastSlot, turns: &Turns) -> bool {
    turns.finished.as_ref().is_some_and(|finished| finished.slot == claimed.slot)
}

fn describe_end(turn: &EndedTurn) -> String {
    let EndedTurn { local, triggered, outcome, ago_ms, took_ms, candidate, reason, .. } = turn;
    let ago = ago_ms.map(|ms| format!(" {} ago", whole_seconds(ms))).unwrap_or_default();
    let took = took_ms.map(|ms| format!(", after {}", turn_duration(ms))).unwrap_or_default();
    let origin = if *triggered { "triggered at" } else { "the slot" };
    let on = candidate.as_ref().map(|name| format!(", on {name}")).unwrap_or_default();
    let why = reason.as_ref().map(|reason| format!("; {reason}")).unwrap_or_default();
    format!("{outcome}{ago}{took}{on}: {origin} {local}{why}")
}

/// Formats an instant, with its distance from now in whole seconds.
fn describe_instant(instant: Timestamp, now: Timestamp, zone: Zone) -> String {
    let distance = until(instant, now).unwrap_or_else(|| ago(instant, now));
    format!("{} ({distance})", local_time(instant, zone))
}

#[cfg(test)]
mod tests;
