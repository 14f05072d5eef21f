//! `tenure status`: one look at an election.

mod here;

use super::complaint::{self, Complaint, printable};
use super::log::json_text;
use super::look::{Look, look};
use super::settings::CommandLine;
use super::settings::table::JSON;
use super::terminal::{broken, columns};
use super::{UNUSABLE, fail, print};
pub(super) use here::slot_ahead;
use here::{Own, Remark};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;
use tenure::contract::{
    Finished, Incumbent, LastSlot, LeaseState, Outcome, Problem, Snapshot, Started, class_name,
    rfc3339,
};
use tenure::settings::{FailOver, names};
use tenure_base::duration::format_duration;

/// Nobody leads.
const NOBODY: u8 = 1;

pub(super) async fn status(line: &CommandLine) -> ExitCode {
    let Look { election, snapshot, configuration, within } = match look(line).await {
        Ok(look) => look,
        Err(code) => return code,
    };
    let own = Own {
        name: configuration.settings.get(names::NAME).map(str::to_owned),
        schedule: configuration.settings.schedule(),
    };
    let remarks = here::remarks(&snapshot, &own, within);
    let by_settings = configuration.settings.fail_over();
    let fail_over = by_settings.and_then(|by_settings| fail_over(&snapshot, by_settings));
    let text = match configuration.given.is_on(&JSON) {
        true => {
            let mut object = as_json(&election, &snapshot);
            object["fail_over"] = json!(fail_over.as_ref().map(|fail_over| json!({
                "machine_ms": milliseconds(fail_over.machine()),
                "promise_ms": fail_over.promise.map(milliseconds),
                "detail": fail_over.to_string(),
            })));
            object["here"] = json!(remarks);
            json_text(&object)
        }
        false => {
            let width = columns(std::io::stdout());
            let fail_over = fail_over.map(|told| row("fail-over", &told.to_string(), width));
            as_text(&election, &snapshot, width)
                + &fail_over.unwrap_or_default()
                + &here::rows(&remarks, width)
        }
    };
    print(&text);
    ExitCode::from(if leader(&snapshot).is_some() { 0 } else { NOBODY })
}

pub(super) fn complain(complaints: &[Complaint], json: bool) -> ExitCode {
    if json {
        print(&json_text(&json!({ "complaints": complaints })));
    }
    complaint::print(complaint::report(complaints));
    ExitCode::from(UNUSABLE)
}

pub(super) fn could_not_ask(election: &str, problem: &Problem, json: bool) -> ExitCode {
    let class = class_name(problem.class);
    let meaning = here::meaning(problem.class);
    if json {
        let here = [Remark { class: "role", detail: meaning.to_owned() }];
        let problem = json!({ "class": class, "detail": problem.detail });
        let object = json!({ "election": election, "problem": problem, "here": here });
        print(&json_text(&object));
    }
    let detail = printable(&problem.detail);
    fail(format_args!(
        "{election} could not be read ({class}): {detail}\n\
         here: {meaning}\n\
         To try each request, step by step: tenure doctor --election {election}"
    ))
}

/// Who leads: the one on record, as long as the lease is held.
pub(super) fn leader(snapshot: &Snapshot) -> Option<&Incumbent> {
    let held = matches!(snapshot.lease, LeaseState::Leased | LeaseState::Breaking);
    snapshot.incumbent.as_ref().filter(|_| held)
}

/// How soon somebody else leads when the leader dies: by the record, and where that says nothing by the settings
/// here. A supervisor leaves no trace on record: that of `tenure run` is taken for granted.
fn fail_over(snapshot: &Snapshot, by_settings: FailOver) -> Option<FailOver> {
    let leader = leader(snapshot)?;
    Some(FailOver {
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
    let started = |started: &Started| {
        json!({
            "value": started.value,
            "slot": rfc3339(started.slot),
            "attempt": started.attempt,
            "outcome": started.outcome.map(outcome_name),
        })
    };
    let triggered = |newest: &Started| {
        json!({
            "id": newest.value,
            "asked": rfc3339(newest.slot),
            "attempt": newest.attempt,
            "outcome": newest.outcome.map(outcome_name),
        })
    };
    json!({
        "election": election,
        "lease": lease_name(snapshot.lease),
        "leader": leader(snapshot).map(incumbent),
        "last_leader": snapshot.incumbent.as_ref().map(incumbent),
        "last_slot": snapshot.last_slot.as_ref().map(last_slot),
        "finished": snapshot.finished.as_ref().map(finished),
        "started": snapshot.started.as_ref().map(started),
        "triggered": snapshot.triggered.as_ref().map(triggered),
        "next_turn": snapshot.next_turn.map(rfc3339),
        "changes": snapshot.changes,
        "history": snapshot.history.iter().map(incumbent).collect::<Vec<_>>(),
        "asked_at": rfc3339(snapshot.asked_at),
    })
}

/// One of the rows for people, on a terminal of some width.
fn row(name: &str, value: &str, width: Option<usize>) -> String {
    // Names and addresses are what somebody wrote on the blob.
    format!("{name:<10} {}\n", broken(&printable(value), 11, width))
}

fn as_text(election: &str, snapshot: &Snapshot, width: Option<usize>) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| text.push_str(&row(name, &value, width));
    row("election", election.to_owned());
    row("lease", lease_name(snapshot.lease).to_owned());
    match (leader(snapshot), &snapshot.incumbent) {
        (Some(leader), _) => {
            row("leader", leader.name.clone());
            row("term", leader.term.to_string());
            row("since", when(leader.since, snapshot.asked_at));
            if let Some(address) = &leader.address {
                row("address", address.clone());
            }
        }
        (None, None) => row("leader", "nobody".to_owned()),
        (None, Some(last)) => {
            row("leader", format!("nobody; the last one was {}, term {}", last.name, last.term));
        }
    }
    if let Some(before) = snapshot.history.first() {
        let changes = match snapshot.changes {
            1 => "1 change".to_owned(),
            changes => format!("{changes} changes"),
        };
        row("before", format!("{}, term {} ({changes}: tenure history)", before.name, before.term));
    }
    if let Some(last) = &snapshot.last_slot {
        row("last slot", format!("{}{}", when(last.slot, snapshot.asked_at), again(last.attempt)));
    }
    if let Some(finished) = &snapshot.finished {
        let outcome = outcome_name(finished.outcome);
        row("finished", format!("{}, {outcome}", when(finished.slot, snapshot.asked_at)));
    }
    if let Some(Started { value, slot, attempt, outcome }) = &snapshot.started {
        let attempt = again(*attempt);
        let outcome = outcome.map_or("not over", outcome_name);
        let slot = when(*slot, snapshot.asked_at);
        row("started", format!("for {value} at {slot}{attempt}, {outcome}"));
    }
    if let Some(Started { value: id, slot, attempt, outcome }) = &snapshot.triggered {
        let (attempt, asked) = (again(*attempt), when(*slot, snapshot.asked_at));
        let outcome = outcome.map_or("not over", outcome_name);
        row("triggered", format!("{id}, asked for at {asked}{attempt}, {outcome}"));
    }
    if let Some(next) = snapshot.next_turn {
        let wait = ahead(next, snapshot.asked_at).unwrap_or_else(|| "now".to_owned());
        row("next turn", format!("{} ({wait})", rfc3339(next)));
    }
    text
}

fn again(attempt: u32) -> String {
    match attempt {
        1 => String::new(),
        again => format!(", attempt {again}"),
    }
}

/// An instant, and how long ago it was or will be in whole seconds.
fn when(then: u64, now: u64) -> String {
    let distance = ahead(then, now).unwrap_or_else(|| {
        let ago = Duration::from_secs(now.saturating_sub(then) / 1_000_000_000);
        format!("{} ago", format_duration(ago))
    });
    format!("{} ({distance})", rfc3339(then))
}

/// How long it is until an instant; none when that is past.
fn ahead(then: u64, now: u64) -> Option<String> {
    let wait = Duration::from_secs(then.saturating_sub(now).div_ceil(1_000_000_000));
    (!wait.is_zero()).then(|| format!("in {}", format_duration(wait)))
}

pub(super) fn lease_name(state: LeaseState) -> &'static str {
    match state {
        LeaseState::Absent => "absent",
        LeaseState::Available => "available",
        LeaseState::Leased => "leased",
        LeaseState::Expired => "expired",
        LeaseState::Breaking => "breaking",
        LeaseState::Broken => "broken",
    }
}

pub(super) fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded => "succeeded",
        Outcome::Failed => "failed",
        Outcome::Trapped => "trapped",
        Outcome::TimedOut => "timed-out",
        Outcome::CutOff => "cut-off",
        Outcome::Abandoned => "abandoned",
        Outcome::NotStarted => "not-started",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn snapshot(lease: LeaseState) -> Snapshot {
        Snapshot {
            lease,
            incumbent: Some(Incumbent {
                name: "a".to_owned(),
                term: 7,
                since: 5 * SECOND,
                address: None,
            }),
            last_slot: Some(LastSlot { slot: 60 * SECOND, attempt: 1 }),
            finished: Some(Finished { slot: 55 * SECOND, outcome: Outcome::Failed }),
            started: None,
            next_turn: Some(70 * SECOND),
            ahead: None,
            schedule: None,
            history: Vec::new(),
            changes: 0,
            successor: None,
            promise: None,
            asked_at: 65 * SECOND,
        }
    }

    #[test]
    fn a_leader_is_one_who_holds_the_lease() {
        for (state, leads) in [
            (LeaseState::Leased, true),
            (LeaseState::Breaking, true),
            (LeaseState::Broken, false),
            (LeaseState::Expired, false),
            (LeaseState::Available, false),
        ] {
            assert_eq!(leader(&snapshot(state)).is_some(), leads, "{state:?}");
        }
    }

    #[test]
    fn text_for_people() {
        assert_eq!(
            as_text("c/b", &snapshot(LeaseState::Leased), None),
            "election   c/b\n\
             lease      leased\n\
             leader     a\n\
             term       7\n\
             since      1970-01-01T00:00:05Z (1m ago)\n\
             last slot  1970-01-01T00:01:00Z (5s ago)\n\
             finished   1970-01-01T00:00:55Z (10s ago), failed\n\
             next turn  1970-01-01T00:01:10Z (in 5s)\n"
        );
        let ben = Incumbent { name: "ben".to_owned(), term: 6, since: 0, address: None };
        let second = Snapshot { history: vec![ben], changes: 2, ..snapshot(LeaseState::Leased) };
        let second = as_text("c/b", &second, None);
        assert!(
            second.contains("before     ben, term 6 (2 changes: tenure history)\n"),
            "{second}"
        );
        let nobody = as_text("c/b", &snapshot(LeaseState::Expired), None);
        assert!(nobody.contains("nobody; the last one was a, term 7\n"), "{nobody}");
    }

    #[test]
    fn how_soon_the_leader_is_replaced_is_told_while_there_is_one() {
        let by_settings = FailOver {
            promise: Some(Duration::from_millis(700)),
            lease: Duration::from_secs(20),
            poll: Duration::from_secs(4),
            supervised: false,
            watched: true,
        };
        let told =
            |snapshot: &Snapshot| fail_over(snapshot, by_settings).map(|told| told.to_string());
        let mut snapshot = snapshot(LeaseState::Leased);
        let by_lease = told(&snapshot).unwrap();
        assert!(
            by_lease.contains(
                "when its lease has run out, within about 26s (--failover 3s shortens that)"
            ),
            "{by_lease}"
        );
        assert!(
            by_lease.ends_with("a process that dies under its supervisor, within 4s"),
            "{by_lease}"
        );
        snapshot.promise = Some(2_100_000_000);
        snapshot.incumbent.as_mut().unwrap().address = Some("http://a".to_owned());
        let promised = told(&snapshot).unwrap();
        assert_eq!(
            promised,
            "a machine that dies is replaced within about 3s; a process that dies under its supervisor, at once"
        );
        snapshot.lease = LeaseState::Expired;
        assert_eq!(told(&snapshot), None);
    }

    #[test]
    fn what_lies_in_the_future_is_not_past() {
        let slot = LastSlot { slot: 265 * SECOND, attempt: 2 };
        let ahead = Snapshot { last_slot: Some(slot), ..snapshot(LeaseState::Leased) };
        let told = as_text("c/b", &ahead, None);
        let row = "last slot  1970-01-01T00:04:25Z (in 3m 20s), attempt 2\n";
        assert!(told.contains(row), "{told}");
    }

    #[test]
    fn json_for_programs() {
        let value = as_json("c/b", &snapshot(LeaseState::Expired));
        assert_eq!(value["leader"], Value::Null);
        assert_eq!(value["last_leader"]["term"], 7);
        assert_eq!(value["last_slot"]["slot"], "1970-01-01T00:01:00Z");
        assert_eq!(value["lease"], "expired");
        assert_eq!((&value["history"], &value["changes"]), (&json!([]), &json!(0)));
    }
}
