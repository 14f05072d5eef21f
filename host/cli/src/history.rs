//! `tenure history`: who led, as the record on the blob keeps it.

use super::complaint::printable;
use super::log::json_text;
use super::look::{Look, Looks, look};
use super::output::{UNUSABLE, print};
use super::settings::CommandLine;
use super::status::{problems, unseen};
use super::terminal::aligned;
use super::zones::zone_of;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;
use tenure::contract::{Incumbent, Snapshot, rfc3339};
use tenure::program::local;
use tenure_base::duration::format_duration;

/// Nobody has led yet.
const NOBODY: u8 = 1;

pub(super) async fn history(line: &CommandLine) -> ExitCode {
    let Looks { mut each, all_of_a_file, json } = match look(line).await {
        Ok(looks) => looks,
        Err(code) => return code,
    };
    if each.len() > 1 && !json {
        let fares = |seen: &Snapshot| (seen.leader().is_some(), seen.incumbent.is_some());
        each.sort_by_key(|look| look.seen.as_ref().map(fares).unwrap_or_default());
    }
    let object = |look: &Look| match &look.seen {
        Ok(snapshot) => as_json(&look.election, snapshot),
        Err(problem) => unseen(&look.election, problem),
    };
    let section = |look: &Look| {
        let text = as_text(look.seen.as_ref().ok()?);
        let several = each.len() > 1;
        Some(if several { format!("{}\n{text}", printable(&look.election)) } else { text })
    };
    let objects = each.iter().map(object);
    print(&match json {
        true if all_of_a_file => json_text(&json!({ "elections": objects.collect::<Vec<_>>() })),
        true => objects.map(|object| json_text(&object)).collect(),
        false => each.iter().filter_map(section).collect::<Vec<_>>().join("\n"),
    });
    problems(&each);
    let code = |look: &Look| match &look.seen {
        Err(_) => UNUSABLE,
        Ok(snapshot) if snapshot.incumbent.is_none() => NOBODY,
        Ok(_) => 0,
    };
    ExitCode::from(each.iter().map(code).max().unwrap_or(0))
}

/// The newest leader and those before it.
fn leaders(snapshot: &Snapshot) -> impl Iterator<Item = &Incumbent> {
    snapshot.incumbent.iter().chain(&snapshot.history)
}

fn as_json(election: &str, snapshot: &Snapshot) -> Value {
    let leaders = leaders(snapshot).map(|leader| {
        json!({ "name": leader.name, "term": leader.term, "since": rfc3339(leader.since) })
    });
    json!({
        "election": election,
        "leading": snapshot.leader().is_some(),
        "leaders": leaders.collect::<Vec<_>>(),
        "changes": snapshot.changes,
    })
}

fn as_text(snapshot: &Snapshot) -> String {
    if snapshot.incumbent.is_none() {
        return "Nobody has led yet.\n".to_owned();
    }
    let mut rows = vec![["term", "since", "until the next", "leader"].map(str::to_owned)];
    let (mut next, zone) = (None, zone_of(snapshot.turns.schedule.as_deref()));
    for leader in leaders(snapshot) {
        let until = match next {
            Some(next) => span(leader.since, next),
            None if snapshot.leader().is_some() => {
                format!("leads, {}", span(leader.since, snapshot.asked_at))
            }
            None => "no longer leads".to_owned(),
        };
        // Names are what somebody wrote on the blob.
        let name = printable(&leader.name);
        rows.push([leader.term.to_string(), local(leader.since, zone), until, name]);
        next = Some(leader.since);
    }
    let shown = rows.len() as u64 - 1;
    let mut text = aligned(rows);
    if let Some(more) = snapshot.changes.checked_sub(shown).filter(|more| *more > 0) {
        let _ = writeln!(text, "and {more} earlier ones, which the record no longer holds");
    }
    text
}

/// In whole seconds.
fn span(from: u64, to: u64) -> String {
    let seconds = to.saturating_sub(from) / 1_000_000_000;
    format_duration(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure::contract::{LeaseState, Turns};

    const SECOND: u64 = 1_000_000_000;

    fn leader(name: &str, term: u64, since: u64) -> Incumbent {
        Incumbent {
            name: name.to_owned(),
            term,
            since: since * SECOND,
            address: None,
            coordinates: false,
        }
    }

    fn snapshot(lease: LeaseState, leaders: &[Incumbent], changes: u64) -> Snapshot {
        Snapshot {
            lease,
            incumbent: leaders.first().cloned(),
            turns: Turns {
                schedule: None,
                last_slot: None,
                finished: None,
                triggered: None,
                last_success: None,
                last_failure: None,
                failure_detail: None,
                missed: None,
                next: None,
            },
            ahead: None,
            history: leaders.iter().skip(1).cloned().collect(),
            changes,
            successor: None,
            promise: None,
            problem: None,
            asked_at: 100 * SECOND,
        }
    }

    #[test]
    fn the_newest_is_first_and_each_has_its_time() {
        let leaders = [leader("ada", 9, 90), leader("ben\u{1b}", 7, 30)];
        let text = as_text(&snapshot(LeaseState::Leased, &leaders, 5));
        assert_eq!(
            text,
            "term  since                 until the next  leader\n\
             9     1970-01-01T00:01:30Z  leads, 10s      ada\n\
             7     1970-01-01T00:00:30Z  1m              ben\\u{1b}\n\
             and 3 earlier ones, which the record no longer holds\n"
        );
        let over = as_text(&snapshot(LeaseState::Expired, &leaders, 2));
        assert!(over.contains("no longer leads") && !over.contains("earlier ones"), "{over}");
    }

    #[test]
    fn programs_get_the_same() {
        let leaders = [leader("ada", 9, 90), leader("ben", 7, 30)];
        let told = as_json("c/b", &snapshot(LeaseState::Leased, &leaders, 5));
        assert_eq!((&told["leading"], &told["changes"]), (&true.into(), &5.into()));
        assert_eq!(told["leaders"][1]["name"], "ben");
        assert_eq!(as_text(&snapshot(LeaseState::Absent, &[], 0)), "Nobody has led yet.\n");
    }
}
