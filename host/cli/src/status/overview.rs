//! All elections of a file, the failures first.

use super::{View, history};
use crate::complaint::printable;
use crate::output::times::{ago, whole_seconds};
use crate::output::{align_columns, eprint};
use tenure::status::{ElectionHealth, TurnSummary};
use tenure_core::Snapshot;

fn election_health(view: &View) -> ElectionHealth {
    view.snapshot.as_ref().map_or(ElectionHealth::NotSeen, |snapshot| {
        outlook(snapshot).health(snapshot.leader().is_some())
    })
}

fn outlook(snapshot: &Snapshot) -> TurnSummary {
    TurnSummary::new(snapshot.answered_at, &snapshot.turns)
}

/// Sorts the elections for display.
fn sorted(views: &[View]) -> Vec<&View> {
    let mut views: Vec<_> = views.iter().collect();
    views.sort_by_key(|view| election_health(view));
    views
}

/// Returns a row for each election.
pub(super) fn table(views: &[View]) -> String {
    let title = ["election", "leader", "since", "last turn", "next turn"].map(str::to_owned);
    align_columns([title].into_iter().chain(sorted(views).into_iter().map(row)))
}

/// Returns a section with the leaders of each election that could be read.
pub(super) fn histories(views: &[View]) -> String {
    let section = |view: &View| {
        let table = history::table(view.snapshot.as_ref().ok()?);
        Some(format!("{}\n{table}", printable(&view.election)))
    };
    sorted(views).into_iter().filter_map(section).collect::<Vec<_>>().join("\n")
}

fn row(view: &View) -> [String; 5] {
    let none = || "-".to_owned();
    let election = printable(&view.election);
    let snapshot = match &view.snapshot {
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
        (None, None) => "nobody".to_owned(),
    };
    let TurnSummary { last_turn, next_turn, .. } = outlook(snapshot);
    let last = last_turn.map_or_else(none, |last| match last.ago_ms {
        Some(span) => format!("{}, {} ago", last.outcome, whole_seconds(span)),
        None => last.outcome.to_owned(),
    });
    let next = next_turn.map_or_else(none, |next| match next.in_ms {
        0 => "now".to_owned(),
        wait => format!("in {}", whole_seconds(wait)),
    });
    [election, leader, since, last, next]
}

/// Prints to standard error why elections could not be read.
pub(super) fn problems(views: &[View]) {
    for View { election, snapshot, .. } in views {
        let (Ok(Snapshot { problem: Some(problem), .. }) | Err(problem)) = snapshot else {
            continue;
        };
        let (class, detail) = (problem.class.name(), printable(&problem.detail));
        if snapshot.is_err() {
            let meaning = super::this_machine::meaning(problem.class);
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
