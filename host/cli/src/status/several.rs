//! All elections of a file as one table, the failures first; and what kept from looking at some.

use crate::complaint::printable;
use crate::look::Look;
use crate::output::eprint;
use crate::spans::{ago, whole};
use crate::terminal::aligned;
use tenure::contract::{Fares, Outlook, Snapshot, class_name};

fn fares(look: &Look) -> Fares {
    look.seen
        .as_ref()
        .map_or(Fares::NotSeen, |snapshot| outlook(snapshot).fares(snapshot.leader().is_some()))
}

fn outlook(snapshot: &Snapshot) -> Outlook {
    Outlook::at(snapshot.asked_at, &snapshot.turns)
}

/// One row for each election.
pub(super) fn table(looks: &[Look]) -> String {
    let mut looks: Vec<_> = looks.iter().collect();
    looks.sort_by_key(|look| fares(look));
    let title = ["election", "leader", "since", "last turn", "next turn"].map(str::to_owned);
    aligned([title].into_iter().chain(looks.into_iter().map(row)))
}

fn row(look: &Look) -> [String; 5] {
    let none = || "-".to_owned();
    let election = printable(&look.election);
    let snapshot = match &look.seen {
        Ok(snapshot) => snapshot,
        Err(problem) => {
            return [election, class_name(problem.class).to_owned(), none(), none(), none()];
        }
    };
    let now = snapshot.asked_at;
    let leader = snapshot.leader();
    let since = leader.map_or_else(none, |leader| ago(leader.since, now));
    let leader = match (&snapshot.problem, leader) {
        (Some(problem), _) => class_name(problem.class).to_owned(),
        (None, Some(leader)) => printable(&leader.name),
        (None, None) => "nobody".to_owned(),
    };
    let Outlook { last_turn, next_turn, .. } = outlook(snapshot);
    let last = last_turn.map_or_else(none, |last| match last.ago_ms {
        Some(span) => format!("{}, {} ago", last.outcome, whole(span)),
        None => last.outcome.to_owned(),
    });
    let next = next_turn.map_or_else(none, |next| match next.in_ms {
        0 => "now".to_owned(),
        wait => format!("in {}", whole(wait)),
    });
    [election, leader, since, last, next]
}

/// Tells what kept from looking at some elections.
pub(crate) fn problems(looks: &[Look]) {
    for look in looks {
        let election = &look.election;
        let problem = match &look.seen {
            Err(problem) => problem,
            // One election alone shows it in its rows.
            Ok(Snapshot { problem: Some(problem), .. }) if looks.len() > 1 => {
                let (class, detail) = (class_name(problem.class), printable(&problem.detail));
                eprint(format_args!("tenure: {election} ({class}): {detail}\n"));
                continue;
            }
            Ok(_) => continue,
        };
        let (class, detail) = (class_name(problem.class), printable(&problem.detail));
        let meaning = super::here::meaning(problem.class);
        eprint(format_args!(
            "tenure: {election} could not be read ({class}): {detail}\n\
             here: {meaning}\n\
             To try each request, step by step: tenure doctor {election}\n"
        ));
    }
}
