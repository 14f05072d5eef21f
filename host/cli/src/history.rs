//! `tenure history`: who led, as the record on the blob keeps it.

use super::complaint::printable;
use super::log::json_text;
use super::look::{Look, look};
use super::print;
use super::settings::CommandLine;
use super::settings::table::JSON;
use super::status::leader;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;
use tenure::contract::{Incumbent, Snapshot, rfc3339};
use tenure_base::duration::format_duration;

/// Nobody ever led.
const NOBODY: u8 = 1;

pub(super) async fn history(line: &CommandLine) -> ExitCode {
    let Look { election, snapshot, configuration, .. } = match look(line).await {
        Ok(look) => look,
        Err(code) => return code,
    };
    print(&match configuration.given.is_on(&JSON) {
        true => json_text(&as_json(&election, &snapshot)),
        false => as_text(&snapshot),
    });
    ExitCode::from(if snapshot.incumbent.is_some() { 0 } else { NOBODY })
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
        "leading": leader(snapshot).is_some(),
        "leaders": leaders.collect::<Vec<_>>(),
        "changes": snapshot.changes,
    })
}

fn as_text(snapshot: &Snapshot) -> String {
    if snapshot.incumbent.is_none() {
        return "Nobody ever led.\n".to_owned();
    }
    let mut rows = vec![["term", "since", "until the next", "leader"].map(str::to_owned)];
    let mut next = None;
    for leader in leaders(snapshot) {
        let until = match next {
            Some(next) => span(leader.since, next),
            None if self::leader(snapshot).is_some() => {
                format!("leads, {}", span(leader.since, snapshot.asked_at))
            }
            None => "leads no longer".to_owned(),
        };
        // Names are what somebody wrote on the blob.
        let name = printable(&leader.name);
        rows.push([leader.term.to_string(), rfc3339(leader.since), until, name]);
        next = Some(leader.since);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (term, since, until) = (width(0), width(1), width(2));
    let mut text = String::new();
    for [first, second, third, name] in &rows {
        let _ = writeln!(text, "{first:<term$}  {second:<since$}  {third:<until$}  {name}");
    }
    let shown = rows.len() as u64 - 1;
    if let Some(more) = snapshot.changes.checked_sub(shown).filter(|more| *more > 0) {
        let _ = writeln!(text, "and {more} before, which the record does not keep");
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
        Incumbent { name: name.to_owned(), term, since: since * SECOND, address: None }
    }

    fn snapshot(lease: LeaseState, leaders: &[Incumbent], changes: u64) -> Snapshot {
        Snapshot {
            lease,
            incumbent: leaders.first().cloned(),
            turns: Turns {
                schedule: None,
                last_slot: None,
                finished: None,
                started: None,
                last_success: None,
                last_failure: None,
                next: None,
            },
            ahead: None,
            history: leaders.iter().skip(1).cloned().collect(),
            changes,
            successor: None,
            promise: None,
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
             and 3 before, which the record does not keep\n"
        );
        let over = as_text(&snapshot(LeaseState::Expired, &leaders, 2));
        assert!(over.contains("leads no longer") && !over.contains("before, which"), "{over}");
    }

    #[test]
    fn programs_get_the_same() {
        let leaders = [leader("ada", 9, 90), leader("ben", 7, 30)];
        let told = as_json("c/b", &snapshot(LeaseState::Leased, &leaders, 5));
        assert_eq!((&told["leading"], &told["changes"]), (&true.into(), &5.into()));
        assert_eq!(told["leaders"][1]["name"], "ben");
        assert_eq!(as_text(&snapshot(LeaseState::Absent, &[], 0)), "Nobody ever led.\n");
    }
}
