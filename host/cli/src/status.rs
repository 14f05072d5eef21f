//! `tenure status`: one look at an election, or at all of a file.

mod here;
mod several;

use super::complaint::printable;
use super::log::json_text;
use super::look::{Look, Looks, look, plan, some_at_a_time};
use super::output::{UNUSABLE, print};
use super::settings::CommandLine;
use super::spans::{ago, ahead, took, whole};
use super::terminal::{broken, columns};
use super::zones::zone_of;
pub(super) use here::slot_ahead;
use here::{Own, Remark};
use serde_json::{Value, json};
pub(super) use several::problems;
use std::process::ExitCode;
use std::time::Duration;
use tenure::contract::{
    EndedTurn, Finished, Incumbent, LastSlot, LeaseState, MissedSlots, Outlook, Problem, Snapshot,
    Started, Turns, class_name, outcome_name, rfc3339, schedule_words_and_text,
};
use tenure::program::local;
use tenure::program::shares::Plan;
use tenure::settings::{Replacement, names};
use tenure_core::Zone;

/// Nobody leads.
const NOBODY: u8 = 1;

pub(super) async fn status(line: &CommandLine) -> ExitCode {
    let Looks { each, all_of_a_file, json } = match look(line).await {
        Ok(looks) => looks,
        Err(code) => return code,
    };
    match each.as_slice() {
        several if all_of_a_file && json => {
            let plans = plans(several).await;
            let objects =
                several.iter().zip(&plans).map(|(look, plan)| object(look, plan.as_ref()));
            let elections: Vec<_> = objects.collect();
            print(&json_text(&json!({ "elections": elections })));
            exit_code(several)
        }
        [one] => status_of_one(one, json).await,
        several => {
            print(&several::table(several));
            several::problems(several);
            exit_code(several)
        }
    }
}

async fn status_of_one(look: &Look, json: bool) -> ExitCode {
    let plan = plans(std::slice::from_ref(look)).await.pop().flatten();
    match &look.seen {
        _ if json => print(&json_text(&object(look, plan.as_ref()))),
        Ok(snapshot) => {
            let width = columns(std::io::stdout());
            let split = plan.map(|plan| row("shares", &split(&look.election, &plan), width));
            print(&(text(look, snapshot) + &split.unwrap_or_default()));
        }
        Err(_) => {}
    }
    several::problems(std::slice::from_ref(look));
    exit_code(std::slice::from_ref(look))
}

/// The coordinator has no turns. It is not asked for otherwise, since that is a request more.
fn may_be_split(snapshot: &Snapshot) -> bool {
    snapshot.incumbent.is_some() && snapshot.turns.schedule.is_none()
}

/// The plan of each whose work is split.
async fn plans(looks: &[Look]) -> Vec<Option<Plan>> {
    let each = looks.iter().map(|look| {
        let split = look.seen.as_ref().is_ok_and(may_be_split);
        let component = split.then(|| look.component.clone());
        async move { plan(&component?).await }
    });
    some_at_a_time(each).await
}

fn split(election: &str, plan: &Plan) -> String {
    let next = plan.next.map(|next| format!(", and {next} were asked for")).unwrap_or_default();
    format!("split into {}{next}; who holds which: tenure shares {election}", plan.count())
}

/// The worst of all.
pub(super) fn exit_code(looks: &[Look]) -> ExitCode {
    let code = |look: &Look| match &look.seen {
        Err(_) => UNUSABLE,
        Ok(snapshot) if snapshot.problem.is_some() => UNUSABLE,
        Ok(snapshot) if snapshot.leader().is_none() => NOBODY,
        Ok(_) => 0,
    };
    ExitCode::from(looks.iter().map(code).max().unwrap_or(0))
}

/// What concerns this machine.
fn remarks(look: &Look, snapshot: &Snapshot) -> Vec<Remark> {
    let settings = &look.configuration.settings;
    let name = settings.get(names::NAME).map(str::to_owned);
    let own = Own { name, schedule: settings.schedule() };
    here::remarks(snapshot, &own, look.within)
}

/// How soon the leader is replaced.
fn replaced(look: &Look, snapshot: &Snapshot) -> Option<Replacement> {
    replacement(snapshot, look.configuration.settings.replacement()?)
}

/// An election for programs.
fn object(look: &Look, plan: Option<&Plan>) -> Value {
    let election = &look.election;
    let snapshot = match &look.seen {
        Ok(snapshot) => snapshot,
        Err(problem) => return unseen(election, problem),
    };
    let mut object = as_json(election, snapshot);
    object["failover"] = json!(replaced(look, snapshot).map(|replacement| json!({
        "machine_ms": milliseconds(replacement.machine()),
        "promise_ms": replacement.promise.map(milliseconds),
        "detail": replacement.to_string(),
    })));
    object["shares"] =
        json!(plan.map(|plan| json!({ "count": plan.count(), "next_count": plan.next })));
    object["here"] = json!(remarks(look, snapshot));
    object
}

/// The same of one that could not be read.
pub(super) fn unseen(election: &str, problem: &Problem) -> Value {
    let here = [Remark { class: "role", detail: here::meaning(problem.class).to_owned() }];
    json!({ "election": election, "problem": self::problem(problem), "here": here })
}

fn problem(problem: &Problem) -> Value {
    json!({ "class": class_name(problem.class), "detail": problem.detail })
}

/// One election for people.
fn text(look: &Look, snapshot: &Snapshot) -> String {
    let width = columns(std::io::stdout());
    let replaced = replaced(look, snapshot);
    let replaced = replaced.map(|told| row("failover", &told.to_string(), width));
    as_text(&look.election, snapshot, width)
        + &replaced.unwrap_or_default()
        + &here::rows(&remarks(look, snapshot), width)
}

/// How soon somebody else leads when the leader dies: by the record, and where that says nothing by the settings
/// here. A supervisor leaves no trace on record: that of `tenure run` is taken for granted.
fn replacement(snapshot: &Snapshot, by_settings: Replacement) -> Option<Replacement> {
    let leader = snapshot.leader()?;
    Some(Replacement {
        promise: snapshot.promise.map(Duration::from_nanos),
        supervised: true,
        watched: leader.address.is_some(),
        ..by_settings
    })
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn as_json(election: &str, snapshot: &Snapshot) -> Value {
    let incumbent = |incumbent: &Incumbent| {
        json!({
            "name": incumbent.name,
            "term": incumbent.term,
            "since": rfc3339(incumbent.since),
            "address": incumbent.address,
        })
    };
    let last_slot = |last: &LastSlot| {
        json!({
            "slot": rfc3339(last.slot),
            "attempt": last.attempt,
        })
    };
    let finished = |finished: &Finished| {
        json!({
            "slot": rfc3339(finished.slot),
            "outcome": outcome_name(finished.outcome),
        })
    };
    let triggered = |newest: &Started| {
        json!({
            "id": newest.id,
            "asked": rfc3339(newest.slot),
            "attempt": newest.attempt,
            "outcome": newest.outcome.map(outcome_name),
        })
    };
    let missed =
        |missed: &MissedSlots| json!({ "slot": rfc3339(missed.slot), "count": missed.count });
    let turns = &snapshot.turns;
    let outlook = Outlook::at(snapshot.asked_at, turns);
    json!({
        "election": election,
        "lease": lease_name(snapshot.lease),
        "leader": snapshot.leader().map(incumbent),
        "last_leader": snapshot.incumbent.as_ref().map(incumbent),
        "schedule": turns.schedule,
        "last_turn": outlook.last_turn,
        "last_success": outlook.last_success,
        "last_failure": outlook.last_failure,
        "next_turn": outlook.next_turn,
        "last_slot": turns.last_slot.as_ref().map(last_slot),
        "finished": turns.finished.as_ref().map(finished),
        "triggered": turns.triggered.as_ref().map(triggered),
        "missed": turns.missed.as_ref().map(missed),
        "changes": snapshot.changes,
        "history": snapshot.history.iter().map(incumbent).collect::<Vec<_>>(),
        "problem": snapshot.problem.as_ref().map(problem),
        "asked_at": rfc3339(snapshot.asked_at),
    })
}

/// One of the rows for people, on a terminal of some width.
fn row(name: &str, value: &str, width: Option<usize>) -> String {
    // Names and addresses are what somebody wrote on the blob.
    format!("{name:<12} {}\n", broken(&printable(value), 13, width))
}

fn as_text(election: &str, snapshot: &Snapshot, width: Option<usize>) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| text.push_str(&row(name, &value, width));
    row("election", election.to_owned());
    row("lease", lease_name(snapshot.lease).to_owned());
    match (snapshot.leader(), &snapshot.incumbent) {
        (Some(leader), _) => {
            row("leader", leader.name.clone());
            row("term", leader.term.to_string());
            let ago = ago(leader.since, snapshot.asked_at);
            let zone = zone_of(snapshot.turns.schedule.as_deref());
            row("since", format!("{} ({ago})", local(leader.since, zone)));
            if let Some(address) = &leader.address {
                row("address", address.clone());
            }
        }
        (None, None) => row("leader", "nobody".to_owned()),
        (None, Some(last)) => {
            row("leader", format!("nobody; the last one was {}, term {}", last.name, last.term));
        }
    }
    if let Some(problem) = &snapshot.problem {
        row("problem", format!("{}: {}", class_name(problem.class), problem.detail));
    }
    if let Some(before) = snapshot.history.first() {
        let changes = match snapshot.changes {
            1 => "1 change".to_owned(),
            changes => format!("{changes} changes"),
        };
        row("before", format!("{}, term {} ({changes}: tenure history)", before.name, before.term));
    }
    turn_rows(snapshot, &mut row);
    text
}

/// Did it succeed, and when does it run next.
fn turn_rows(snapshot: &Snapshot, row: &mut impl FnMut(&str, String)) {
    let turns = &snapshot.turns;
    let Outlook { last_turn, last_success, last_failure, next_turn } =
        Outlook::at(snapshot.asked_at, turns);
    let zone = zone_of(turns.schedule.as_deref());
    if let Some(schedule) = &turns.schedule {
        row("schedule", schedule_words_and_text(schedule));
    }
    match &last_turn {
        Some(last) => row("last turn", ended(last)),
        None if turns.schedule.is_some() => row("last turn", "none is over yet".to_owned()),
        None => {}
    }
    let other = |turn: &&EndedTurn| last_turn.as_ref().is_none_or(|last| last.ended != turn.ended);
    for (name, turn) in [("last success", &last_success), ("last failure", &last_failure)] {
        if let Some(turn) = turn.as_ref().filter(other) {
            row(name, ended(turn));
        }
    }
    if let Some(MissedSlots { slot, count }) = &turns.missed {
        let slots = if *count == 1 { "1 slot".to_owned() } else { format!("{count} slots") };
        let before = when(*slot, snapshot.asked_at, zone);
        row("missed", format!("{slots} had no turn, before {before}"));
    }
    if let Some(claimed) = turns.last_slot.as_ref().filter(|claimed| !is_over(claimed, turns)) {
        let what = unfinished(claimed.slot, snapshot);
        let when = when(claimed.slot, snapshot.asked_at, zone);
        row("claimed", format!("{when}{}: {what}", again(claimed.attempt)));
    }
    if let Some(Started { id, slot, attempt, outcome }) = &turns.triggered {
        let (attempt, asked) = (again(*attempt), when(*slot, snapshot.asked_at, zone));
        let outcome = outcome.map_or_else(|| unfinished(*slot, snapshot), outcome_name);
        row("triggered", format!("{id}, asked for at {asked}{attempt}, {outcome}"));
    }
    if let Some(next) = next_turn {
        let wait = match (next.in_ms, snapshot.leader()) {
            (0, Some(_)) => "now".to_owned(),
            (0, None) => "as soon as somebody leads".to_owned(),
            (wait, _) => format!("in {}", whole(wait.next_multiple_of(1_000))),
        };
        row("next turn", format!("{} ({wait})", next.local));
    }
}

/// What is known of a turn without an outcome on record.
fn unfinished(slot: u64, snapshot: &Snapshot) -> &'static str {
    match snapshot.leader() {
        None => "no outcome was recorded, and the leader that ran it is gone",
        // A slot that was due before this leader began may be its own to run.
        Some(leader) if leader.since > slot => {
            "it is running, or the leader that ran it is gone and no outcome was recorded"
        }
        Some(_) => "it is running, or its outcome is not recorded yet",
    }
}

/// Whether the end of a claimed turn is on record.
fn is_over(claimed: &LastSlot, turns: &Turns) -> bool {
    turns.finished.as_ref().is_some_and(|finished| finished.slot == claimed.slot)
}

/// The end of a turn, as a sentence whose subject is the turn.
fn ended(turn: &EndedTurn) -> String {
    let EndedTurn { local, triggered, outcome, ago_ms, took_ms, candidate, reason, .. } = turn;
    let ago = ago_ms.map(|ms| format!(" {} ago", whole(ms))).unwrap_or_default();
    let took = took_ms.map(|ms| format!(", after {}", took(ms))).unwrap_or_default();
    let what = if *triggered { "triggered at" } else { "the slot" };
    let on = candidate.as_ref().map(|name| format!(", on {name}")).unwrap_or_default();
    let why = reason.as_ref().map(|reason| format!("; {reason}")).unwrap_or_default();
    format!("{outcome}{ago}{took}{on}: {what} {local}{why}")
}

fn again(attempt: u32) -> String {
    match attempt {
        1 => String::new(),
        again => format!(", attempt {again}"),
    }
}

/// An instant, and how long ago it was or will be in whole seconds.
fn when(then: u64, now: u64, zone: Zone) -> String {
    let distance = ahead(then, now).unwrap_or_else(|| ago(then, now));
    format!("{} ({distance})", local(then, zone))
}

pub(super) fn lease_name(state: LeaseState) -> &'static str {
    match state {
        LeaseState::Absent => "absent",
        LeaseState::Available => "available",
        LeaseState::Leased => "leased",
        LeaseState::Infinite => "infinite",
        LeaseState::Expired => "expired",
        LeaseState::Breaking => "breaking",
        LeaseState::Broken => "broken",
    }
}

#[cfg(test)]
mod tests;
