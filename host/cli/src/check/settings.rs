//! The settings of the elections that are checked, as text and as JSON.

use crate::complaint::printable;
use crate::output::times::{now, schedule_zone};
use crate::output::{columns, wrap_words};
use crate::run::candidacy::Candidacy;
use crate::run::handler::WorkDescription;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;
use tenure::status::local_time;
use tenure_base::duration::format_duration;
use tenure_core::{Agenda, Delivery, Missed, Settings, Timestamp, milliseconds};
use tenure_server::format::describe_schedule_with_source;
#[cfg(unix)]
use tenure_supervisor::{Visibility, visibility};

/// Number of next turns to show.
const SHOWN_TURNS: usize = 3;

/// Column where the values of rows begin.
const INDENT: usize = 14;

/// Returns an election as JSON, without the findings about its account.
pub(super) fn object(candidacy: &Candidacy) -> Value {
    let Settings { election, name, agenda, timings, .. } = &candidacy.settings;
    let turns = turns(agenda, now());
    json!({
        "election": election.to_string(),
        "candidate": name,
        "schedule": agenda.description(),
        "next_turns": turns.iter().map(|turn| turn.text.as_str()).collect::<Vec<_>>(),
        "work": Some(&candidacy.work).filter(|work| !matches!(work, WorkDescription::Nothing)),
        "lease_ms": milliseconds(timings.lease),
        "failover_ms": timings.failover.map(|failover| milliseconds(failover.within)),
        "account": candidacy.account(),
        "credential": candidacy.credential,
        "notes": candidacy.notes,
    })
}

pub(super) fn as_text(candidacies: &[Candidacy], notes: &[String]) -> String {
    let width = columns(std::io::stdout());
    let mut text = String::new();
    let all_rows: Vec<_> = candidacies.iter().map(rows).collect();
    let common = common(&all_rows);
    let write = |text: &mut String, (name, value): &(&str, String)| {
        let value = wrap_words(&printable(value), INDENT, width);
        let _ = writeln!(text, "  {name:<11} {value}");
    };
    if !common.is_empty() {
        text.push_str("all elections\n");
        common.iter().for_each(|row| write(&mut text, row));
        text.push('\n');
    }
    for (candidacy, rows) in candidacies.iter().zip(&all_rows) {
        let _ = writeln!(text, "{}", printable(&candidacy.settings.election.to_string()));
        for row in rows.iter().filter(|row| !common.contains(row)) {
            write(&mut text, row);
        }
        text.push('\n');
    }
    for note in notes {
        let _ = writeln!(text, "{}", wrap_words(&printable(note), 0, width));
    }
    let elections = match candidacies.len() {
        1 => "1 election".to_owned(),
        several => format!("{several} elections"),
    };
    text + &format!("{elections}: the settings are right\n")
}

/// Returns the rows that all elections have in common, among those that elections can share.
fn common(all_rows: &[Vec<(&'static str, String)>]) -> Vec<(&'static str, String)> {
    let [first, others @ ..] = all_rows else { return Vec::new() };
    let is_common = |row: &&(&'static str, String)| {
        ["account", "credential", "note"].contains(&row.0)
            && others.iter().all(|rows| rows.contains(row))
    };
    if others.is_empty() { Vec::new() } else { first.iter().filter(is_common).cloned().collect() }
}

fn rows(candidacy: &Candidacy) -> Vec<(&'static str, String)> {
    let Settings { name, agenda, timings, .. } = &candidacy.settings;
    let description = &candidacy.work;
    let mut rows = vec![("candidate", name.clone())];
    let schedule = agenda.description();
    if let (WorkDescription::Nothing, None) = (description, &schedule) {
        rows.push(("work", describe_work(description)));
        rows.extend(account_rows(candidacy));
        return rows;
    }
    let schedule = schedule.as_deref().map(describe_schedule_with_source);
    let schedule = schedule.unwrap_or_else(|| "none".to_owned());
    let delay = match agenda.delay {
        Duration::ZERO => String::new(),
        delay => format!(", delayed by {} (--jitter)", format_duration(delay)),
    };
    rows.push(("schedule", format!("{schedule}{delay}{}", rules(agenda))));
    let labels = ["next turns"].into_iter().chain(std::iter::repeat(""));
    for (label, TurnTime { text, wait }) in labels.zip(turns(agenda, now())) {
        let wait = Duration::from_secs(wait.as_secs());
        rows.push((label, format!("{text} (in {})", format_duration(wait))));
    }
    rows.push(("work", describe_work(description)));
    #[cfg(unix)]
    if let WorkDescription::Command { .. } = description {
        rows.push(("processes", processes(visibility()).to_owned()));
    }
    if let Some(hosts) = allowed_hosts(description) {
        rows.push(("may reach", hosts));
    }
    rows.push(("lease", format_duration(timings.lease)));
    rows.extend(account_rows(candidacy));
    rows
}

fn account_rows(candidacy: &Candidacy) -> Vec<(&'static str, String)> {
    let account = [("account", candidacy.account()), ("credential", candidacy.credential.clone())];
    let notes = candidacy.notes.iter().map(|note| ("note", note.clone()));
    account.into_iter().chain(notes).collect()
}

/// Describes the delivery and the treatment of missed slots. Empty without slots.
fn rules(agenda: &Agenda) -> String {
    if agenda.is_one_turn_a_term() || agenda.schedule.is_none() {
        return String::new();
    }
    let delivery = match agenda.delivery {
        Delivery::AtMostOnce => "at most once".to_owned(),
        Delivery::AtLeastOnce { max_attempts } => {
            format!("at least once, in up to {max_attempts} attempts")
        }
    };
    let missed = match agenda.missed {
        Missed::Skip => "missed slots are skipped".to_owned(),
        Missed::Once => "one turn stands for all missed slots".to_owned(),
        Missed::All(most) => format!("the newest {most} missed slots run"),
    };
    format!("; each slot {delivery}, {missed}")
}

struct TurnTime {
    /// The local time in the schedule's zone.
    text: String,
    wait: Duration,
}

/// Returns the next turns of the timer after `now`.
fn turns(agenda: &Agenda, now: Timestamp) -> Vec<TurnTime> {
    let Some(schedule) = &agenda.schedule else { return Vec::new() };
    let first = schedule.next(now.minus(agenda.delay));
    let slots = std::iter::successors(first, |slot| schedule.next(*slot));
    let time = |slot: Timestamp| {
        let due = slot.plus(agenda.delay);
        TurnTime { text: local_time(due, schedule_zone(Some(schedule))), wait: due.since(now) }
    };
    slots.take(SHOWN_TURNS).map(time).collect()
}

fn describe_work(work: &WorkDescription) -> String {
    match work {
        WorkDescription::Component { imports, variables, .. } => {
            let packages = imports.iter().map(|name| name.split('/').next().unwrap_or_default());
            let packages: BTreeSet<_> = packages.collect();
            format!(
                "{work}; it imports {}; its variables: {}",
                comma_separated(packages),
                comma_separated(variables)
            )
        }
        WorkDescription::Webhook { .. } => format!("{work}, a POST for each turn"),
        WorkDescription::Application => work.to_string(),
        WorkDescription::Nothing => {
            "none is given, which `tenure run` needs: only the account is tested".to_owned()
        }
        WorkDescription::Command { arguments, .. } => match arguments {
            0 => work.to_string(),
            1 => format!("{work}, with 1 argument"),
            count => format!("{work}, with {count} arguments"),
        },
    }
}

fn comma_separated(names: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(unix)]
fn processes(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::All => "every process that the command starts is found, even if /proc hides it",
        Visibility::ScannedOnly => {
            "a process that leaves the command's process group is found only if /proc shows it (see hidepid): this \
             kernel does not list children (CONFIG_PROC_CHILDREN). While a hidden one runs, the lease is not released \
             but expires. If the command's supervisor is killed, even a process that /proc shows \
             goes on after the turn"
        }
        Visibility::ForeignProc => {
            "a process that leaves the command's process group is not found, since /proc belongs to another PID \
             namespace. While one runs, the lease is not released but expires. If the command's supervisor is killed, \
             it goes on after the turn. Mount a /proc of this namespace"
        }
        Visibility::NoProc => "no command can be started, since no /proc is mounted: mount it",
        Visibility::Unlisted => {
            "a process that leaves the command's process group is not found on this system, and goes on"
        }
    }
}

/// Lists the hosts that a component may send requests to.
fn allowed_hosts(work: &WorkDescription) -> Option<String> {
    match work {
        WorkDescription::Component { .. } if !work.sends_requests() => {
            Some("nothing: it imports no wasi:http".to_owned())
        }
        WorkDescription::Component { hosts, .. } if hosts.is_empty() => {
            Some("nothing: no host is allowed".to_owned())
        }
        WorkDescription::Component { hosts, .. } => Some(hosts.join(", ")),
        WorkDescription::Webhook { .. }
        | WorkDescription::Command { .. }
        | WorkDescription::Application
        | WorkDescription::Nothing => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_shared_by_all_elections_are_shown_once() {
        let row = |name, value: &str| (name, value.to_owned());
        let rows_of = |candidate: &str, account: &str| {
            vec![
                row("candidate", candidate),
                row("account", account),
                row("note", "shared"),
                row("lease", "15s"),
            ]
        };
        let shared = [row("account", "acme"), row("note", "shared")];
        assert_eq!(common(&[rows_of("ada", "acme"), rows_of("ben", "acme")]), shared);
        assert_eq!(common(&[rows_of("ada", "acme"), rows_of("ben", "other")]), shared[1..]);
        assert_eq!(common(&[rows_of("ada", "acme")]), [], "one election has them itself");
    }
}
