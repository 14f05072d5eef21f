//! Tables: the candidates of an election, its former leaders, and several elections.

use super::{View, describe_wait, this_machine};
use crate::complaint::printable;
use crate::output::times::{ago, described_zone, elapsed, whole_seconds};
use crate::output::{align_columns, eprint};
use std::fmt::Write as _;
use tenure::status::{ElectionHealth, TurnSummary, local_time};
use tenure_base::duration::format_duration;
use tenure_core::{Listed, Problem, Snapshot, Timestamp};

/// Returns a row for each candidate.
pub(super) fn candidates(listed: &[Listed], now: Timestamp) -> String {
    let title = ["candidate", "state", "failover", "seen", "address"].map(str::to_owned);
    let rows = listed.iter().map(|Listed { name, address, ready, failover, seen_at }| {
        let none = || "-".to_owned();
        let failover = failover.map(format_duration);
        [
            printable(name),
            if *ready { "contends" } else { "not ready" }.to_owned(),
            failover.unwrap_or_else(none),
            ago(*seen_at, now),
            address.as_deref().map_or_else(none, printable),
        ]
    });
    align_columns([title].into_iter().chain(rows))
}

/// Returns a table of the leaders on record, the newest first.
pub(super) fn leaders(snapshot: &Snapshot) -> String {
    if snapshot.incumbent.is_none() {
        return "No leader yet.\n".to_owned();
    }
    let mut rows = vec![["term", "since", "until the next", "leader"].map(str::to_owned)];
    let (mut next, zone) = (None, described_zone(snapshot.turns.schedule.as_deref()));
    for leader in snapshot.incumbent.iter().chain(&snapshot.history) {
        let until = match next {
            Some(next) => elapsed(leader.since, next),
            None if snapshot.leader().is_some() => {
                format!("leads, {}", elapsed(leader.since, snapshot.answered_at))
            }
            None => "no longer leads".to_owned(),
        };
        // Any client with write access to the blob chooses the names.
        let name = printable(&leader.name);
        rows.push([leader.term.to_string(), local_time(leader.since, zone), until, name]);
        next = Some(leader.since);
    }
    let shown = rows.len() as u64 - 1;
    let mut text = align_columns(rows);
    if let Some(more) = snapshot.changes.checked_sub(shown).filter(|more| *more > 0) {
        let _ = writeln!(text, "and {more} earlier ones, which the record no longer holds");
    }
    text
}

fn election_health(view: &View) -> ElectionHealth {
    view.snapshot.as_ref().map_or(ElectionHealth::Unknown, |snapshot| {
        turn_summary(snapshot).health(snapshot.leader().is_some())
    })
}

fn turn_summary(snapshot: &Snapshot) -> TurnSummary {
    TurnSummary::new(snapshot.answered_at, &snapshot.turns)
}

/// Returns the elections sorted by their health, the worst first.
fn sorted(views: &[View]) -> Vec<&View> {
    let mut views: Vec<_> = views.iter().collect();
    views.sort_by_key(|view| election_health(view));
    views
}

/// Returns a row for each election, the failures first.
pub(super) fn elections(views: &[View]) -> String {
    let title = ["election", "leader", "since", "last turn", "next turn"].map(str::to_owned);
    let rows = sorted(views).into_iter().map(|view| election_row(&view.election, &view.snapshot));
    align_columns([title].into_iter().chain(rows))
}

/// Returns a section with the leaders of each election that could be read.
pub(super) fn histories(views: &[View]) -> String {
    let section = |view: &View| {
        let table = leaders(view.snapshot.as_ref().ok()?);
        Some(format!("{}\n{table}", printable(&view.election)))
    };
    sorted(views).into_iter().filter_map(section).collect::<Vec<_>>().join("\n")
}

fn election_row(election: &str, snapshot: &Result<Snapshot, Problem>) -> [String; 5] {
    let none = || "-".to_owned();
    let election = printable(election);
    let snapshot = match snapshot {
        Ok(snapshot) => snapshot,
        Err(problem) => {
            return [election, problem.class.name().to_owned(), none(), none(), none()];
        }
    };
    let now = snapshot.answered_at;
    let leader = snapshot.leader();
    let since = leader.map_or_else(none, |leader| ago(leader.since, now));
    let leader = match (&snapshot.problem, leader) {
        (Some(problem), _) => problem.class.name().to_owned(),
        (None, Some(leader)) => printable(&leader.name),
        (None, None) => "none".to_owned(),
    };
    let TurnSummary { last_turn, next_turn, .. } = turn_summary(snapshot);
    let last = last_turn.map_or_else(none, |last| match last.ago_ms {
        Some(span) => format!("{}, {} ago", last.outcome, whole_seconds(span)),
        None => last.outcome.to_owned(),
    });
    let has_leader = snapshot.leader().is_some();
    let next = next_turn.map_or_else(none, |next| describe_wait(&next, has_leader));
    [election, leader, since, last, next]
}

/// Prints to standard error why elections could not be read.
pub(super) fn print_problems(views: &[View]) {
    for View { election, snapshot, .. } in views {
        let (Ok(Snapshot { problem: Some(problem), .. }) | Err(problem)) = snapshot else {
            continue;
        };
        let (class, detail) = (problem.class.name(), printable(&problem.detail));
        if snapshot.is_err() {
            let meaning = this_machine::meaning(problem.class);
            eprint(format_args!(
                "tenure: {election} could not be read ({class}): {detail}\n\
                 here: {meaning}\n\
                 To try each request, step by step: tenure check {election}\n"
            ));
        } else if views.len() > 1 {
            // A single election shows the problem in its rows.
            eprint(format_args!("tenure: {election} ({class}): {detail}\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at, idle, incumbent};
    use super::*;
    use std::time::Duration;
    use tenure_core::{Incumbent, LeaseState, NextTurn};

    fn leader(name: &str, term: u64, since: u64) -> Incumbent {
        incumbent(name, term, since)
    }

    fn snapshot(lease: LeaseState, leaders: &[Incumbent], changes: u64) -> Snapshot {
        let (newest, earlier) = match leaders.split_first() {
            Some((newest, earlier)) => (Some(newest.clone()), earlier.to_vec()),
            None => (None, Vec::new()),
        };
        Snapshot { history: earlier, changes, answered_at: at(100), ..idle(lease, newest) }
    }

    #[test]
    fn the_newest_leader_is_first_and_each_has_its_time() {
        let both = [leader("ada", 9, 90), leader("ben\u{1b}", 7, 30)];
        let text = leaders(&snapshot(LeaseState::Leased, &both, 5));
        assert_eq!(
            text,
            "term  since                 until the next  leader\n\
             9     1970-01-01T00:01:30Z  leads, 10s      ada\n\
             7     1970-01-01T00:00:30Z  1m              ben\\u{1b}\n\
             and 3 earlier ones, which the record no longer holds\n"
        );
        let over = leaders(&snapshot(LeaseState::Expired, &both, 2));
        assert!(over.contains("no longer leads") && !over.contains("earlier ones"), "{over}");
        assert_eq!(leaders(&snapshot(LeaseState::Absent, &[], 0)), "No leader yet.\n");
    }

    #[test]
    fn next_turn_of_an_election_depends_on_its_leader() {
        let next_turn = |lease, wait_ms: u64| {
            let mut snapshot = snapshot(lease, &[leader("ada", 9, 90)], 0);
            let at = snapshot.answered_at.plus(Duration::from_millis(wait_ms));
            snapshot.turns.next = Some(NextTurn { slot: at, at });
            let [_, leader, .., next] = election_row("jobs/a", &Ok(snapshot));
            (leader, next)
        };
        let row = |leader: &str, next: &str| (leader.to_owned(), next.to_owned());
        assert_eq!(next_turn(LeaseState::Leased, 0), row("ada", "now"));
        assert_eq!(next_turn(LeaseState::Leased, 1), row("ada", "in 1s"));
        assert_eq!(next_turn(LeaseState::Leased, 1_000), row("ada", "in 1s"));
        assert_eq!(next_turn(LeaseState::Expired, 0), row("none", "as soon as there is a leader"));
    }

    #[test]
    fn each_candidate_has_a_row_and_nothing_that_a_terminal_obeys() {
        let ada = Listed {
            name: "ada\u{1b}".to_owned(),
            address: Some("http://10.0.0.4:8080".to_owned()),
            ready: true,
            failover: Some(Duration::from_secs(3)),
            seen_at: at(40),
        };
        let ben = Listed {
            name: "ben".to_owned(),
            address: None,
            ready: false,
            failover: None,
            ..ada.clone()
        };
        assert_eq!(
            candidates(&[ada, ben], at(100)),
            "candidate  state      failover  seen    address\n\
             ada\\u{1b}  contends   3s        1m ago  http://10.0.0.4:8080\n\
             ben        not ready  -         1m ago  -\n"
        );
    }
}
