//! A board as the page shows it: one candidate, and whoever else it saw lead.

use super::board::{Board, Change, Leader as Other, Role, State};
use super::page::Source;
use super::page::view::{
    LANES, Lane, LastTurn, Leader, NOTES, Note, Validity, View, millis, sentence, short,
};
use crate::clock::Reading;
use crate::contract::Outlook;
use chrono::DateTime;
use std::sync::Arc;
use std::time::Duration;

/// A problem older than that is of no interest to somebody who looks now.
const RECENT: Duration = Duration::from_secs(600);

pub(super) fn source(board: Arc<Board>, clock: Reading) -> Source {
    let changes = board.changes();
    Source::new(move || view(&board, clock.now()), changes)
}

fn view(board: &Board, now: Duration) -> View {
    let (role, runs) = (board.role(now), board.runs(now));
    let state = board.state();
    let ago = |at: Duration| now.saturating_sub(at);
    let recent = state.problems.iter().rev().filter(|(at, _)| ago(*at) < RECENT);
    let still =
        (!runs).then(|| Note::new(Duration::ZERO, "The loop of this candidate stands still."));
    let problems = recent.map(|(at, text)| Note::new(ago(*at), text));
    let changes = state.history.iter().rev();
    let changes =
        changes.map(|change| Note::new(ago(change.seen), &told(change, &board.candidate)));
    let outlook = state.outlook();
    let last_turn = last_turn(board, &state, &outlook);
    View {
        election: board.election.clone(),
        told_by: Some(short(&board.candidate)),
        leader: leader(board, &role, &state, now),
        fail_over: board.fail_over(&state).map(|told| sentence(&told)),
        take_over: None,
        vacancy: None,
        lanes: lanes(board, &role, &state, now),
        last_turn,
        outlook,
        changes: changes.take(NOTES).collect(),
        problems: still.into_iter().chain(problems).take(NOTES).collect(),
        overlapping: None,
    }
}

/// That of this candidate, as long as the record tells of none that is newer.
fn last_turn(board: &Board, state: &State, outlook: &Outlook) -> Option<LastTurn> {
    let own = state.turn.as_ref().map(|turn| LastTurn {
        slot: turn.slot.clone(),
        outcome: turn.outcome.clone().unwrap_or_else(|| "running".to_owned()),
        candidate: Some(short(&board.candidate)),
        took_ms: turn.elapsed_ms,
    });
    let on_record = outlook.last_turn.as_ref().map(|turn| LastTurn {
        slot: turn.slot.clone(),
        outcome: turn.outcome.to_owned(),
        candidate: None,
        took_ms: turn.took_ms,
    });
    let instant = |turn: &LastTurn| DateTime::parse_from_rfc3339(&turn.slot).ok();
    let older = |own: &LastTurn| on_record.as_ref().is_some_and(|o| instant(own) < instant(o));
    own.filter(|own| !older(own)).or(on_record)
}

fn leader(board: &Board, role: &Role, state: &State, now: Duration) -> Option<Leader> {
    let seen =
        state.timeline.leads_since().map_or(Duration::ZERO, |since| now.saturating_sub(since));
    let seen_ms = millis(seen);
    match role {
        Role::Leading { term, until } => {
            let left = until.saturating_sub(now);
            let (left_ms, whole_ms) = (millis(left), millis(state.whole.max(left)));
            Some(Leader {
                name: short(&board.candidate),
                term: *term,
                since: None,
                seen_ms,
                validity: Some(Validity { left_ms, whole_ms }),
            })
        }
        Role::Following(Some(Other { name, term, since, .. })) => {
            let since = since.clone();
            Some(Leader { name: short(name), term: *term, since, seen_ms, validity: None })
        }
        _ => None,
    }
}

fn lanes(board: &Board, role: &Role, state: &State, now: Duration) -> Vec<Lane> {
    let word = match role {
        Role::Leading { .. } => "leads",
        Role::Following(_) => "follows",
        Role::Undecided => "looks",
        Role::Left => "left",
    };
    let own = Lane {
        name: short(&board.candidate),
        state: word,
        requests_per_minute: Some(state.timeline.requests.per_minute(now)),
        spans: state.timeline.own(now),
        turns: state.timeline.ticks(now),
        ..Lane::default()
    };
    let leads = |name: &str| matches!(role, Role::Following(Some(other)) if other.name == name);
    let others = state.timeline.others(now).into_iter().map(|(name, spans)| Lane {
        name: short(name),
        state: if leads(name) { "leads" } else { "led" },
        spans,
        ..Lane::default()
    });
    std::iter::once(own).chain(others).take(LANES).collect()
}

/// A change as a sentence.
fn told(change: &Change, own: &str) -> String {
    let name = change.leader.as_deref();
    let with = change.term.map(|term| format!(", with term {term}")).unwrap_or_default();
    match (change.event, name) {
        ("stood-down", _) => {
            let why = match change.reason.unwrap_or_default() {
                "validity-ended" => "its time ran out before a renewal was answered",
                "lease-lost" => "the lease was lost",
                "left" => "it gave the lease back",
                "work-failed" => "its work failed",
                "resigned" => "it resigned",
                "handed-over" => "it handed over",
                other => other,
            };
            format!("{own} leads no longer: {why}.")
        }
        (_, Some(name)) => format!("{name} leads{with}."),
        (_, None) => {
            "Another candidate holds the lease; the record names no leader yet.".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::page::view::{Kind, WINDOW};
    use super::super::tests::NOW;
    use super::super::tests::{board, following, leading, report, seconds, turn};
    use super::*;
    use crate::contract::ExchangeResult::{Declined, Done};
    use crate::contract::{EndingReason, Report, Role};
    use crate::handler::TurnEnd;
    use crate::runner::{Class, Event, Reason};
    use crate::settings::FailOver;

    #[test]
    fn a_leader_with_a_turn_that_failed() {
        let board = board();
        board.stepped(&report(leading(), &[Done, Done]), NOW, NOW);
        board.happened(&Event::Elected { term: 7, valid_for: seconds(12) }, NOW);
        let turn = turn();
        let started = Event::TurnStarted { turn: turn.clone() };
        board.happened(&started, NOW + seconds(1));
        assert_eq!(view(&board, NOW + seconds(1)).last_turn.unwrap().outcome, "running");
        let end = TurnEnd::Failed("no paper".to_owned());
        let before = Outlook::default();
        let ended = Event::TurnEnded { turn, end, elapsed: seconds(1), before };
        board.happened(&ended, NOW + seconds(2));

        let seen = view(&board, NOW + seconds(3));
        let leader = seen.leader.unwrap();
        assert_eq!((leader.name.as_str(), leader.term, leader.seen_ms), ("ada", 7, 3_000));
        assert_eq!(leader.validity.unwrap(), Validity { left_ms: 9_000, whole_ms: 12_000 });
        let last = seen.last_turn.unwrap();
        assert_eq!((last.outcome.as_str(), last.took_ms), ("failed", Some(1_000)));
        assert_eq!(seen.lanes[0].requests_per_minute, Some(2));
        assert_eq!(seen.lanes[0].turns[0].outcome, "failed");
        assert_eq!(seen.changes, [Note::new(seconds(3), "ada leads, with term 7.")]);
        let problem = "The turn of 2000-01-01T00:00:00Z failed: no paper";
        assert_eq!(seen.problems, [Note::new(seconds(1), problem)]);
        // A renewal makes the bar whole again, by the same measure.
        board.stepped(&report(leading(), &[Done]), NOW + seconds(4), NOW + seconds(4));
        let validity = view(&board, NOW + seconds(4)).leader.unwrap().validity.unwrap();
        assert_eq!((validity.left_ms, validity.whole_ms), (12_000, 12_000));
        // Without one, nobody leads.
        assert_eq!(view(&board, NOW + seconds(16)).leader, None);
        assert_eq!(view(&board, NOW + seconds(900)).problems.len(), 1, "the loop stands still");
    }

    #[test]
    fn a_follower_tells_of_the_leader_that_it_sees_and_of_those_before() {
        let board = board();
        board.stepped(&report(leading(), &[Done]), NOW, NOW);
        let reason = Reason::Election(EndingReason::LeaseLost);
        board.happened(&Event::StoodDown { term: 7, reason }, NOW + seconds(2));
        board.stepped(&report(following(None), &[Declined]), NOW + seconds(3), NOW + seconds(3));
        let seen = view(&board, NOW + seconds(5));
        let leader = seen.leader.unwrap();
        assert_eq!((leader.name.as_str(), leader.term, leader.seen_ms), ("<script>", 6, 2_000));
        assert_eq!(leader.validity, None, "only the leader knows");
        let lanes: Vec<_> =
            seen.lanes.iter().map(|lane| (lane.name.as_str(), lane.state)).collect();
        assert_eq!(lanes, [("ada", "follows"), ("<script>", "leads")]);
        let own: Vec<_> = seen.lanes[0].spans.iter().map(|span| (span.kind, span.to_ms)).collect();
        assert_eq!(own, [(Kind::Leads, Some(3_000)), (Kind::Follows, None)]);
        assert_eq!(seen.changes[0].text, "ada leads no longer: the lease was lost.");

        board.stepped(&report(Role::Undecided, &[]), NOW + seconds(6), NOW + seconds(6));
        let seen = view(&board, NOW + seconds(7));
        assert_eq!((seen.leader, seen.lanes[1].state), (None, "led"));
        assert!(view(&board, NOW + WINDOW + seconds(7)).lanes.len() == 1, "out of sight");
    }

    #[test]
    fn how_soon_a_leader_is_replaced_is_told_by_the_record_or_else_by_the_settings() {
        let by_settings = FailOver {
            promise: None,
            lease: seconds(15),
            poll: seconds(4),
            supervised: true,
            watched: true,
        };
        let board = board().with_fail_over(by_settings);
        let told = |at| view(&board, NOW + at).fail_over.unwrap();
        assert!(
            told(seconds(0))
                .starts_with("A machine that dies is replaced when its lease has run out")
        );
        let promises = |role| {
            let promise = Some(Duration::from_millis(2_100));
            board.stepped(&Report { promise, ..report(role, &[Declined]) }, NOW, NOW);
        };
        promises(leading());
        let at_once = "A machine that dies is replaced within about 3s; a process that dies under its supervisor, at once.";
        assert_eq!(told(seconds(1)), at_once);
        // It gave no address.
        promises(following(None));
        assert!(
            told(seconds(1)).ends_with("under its supervisor, within 500ms."),
            "{}",
            told(seconds(1))
        );
        promises(following(Some("http://10.0.0.4")));
        assert_eq!(told(seconds(1)), at_once);
        // A leader that promises nothing, whatever is set here.
        board.stepped(&report(leading(), &[Done]), NOW, NOW);
        assert!(told(seconds(1)).contains("within about 21s"), "{}", told(seconds(1)));
    }

    #[test]
    fn a_view_stays_small_whatever_happens() {
        let board = Board::new("jobs/report", &"n".repeat(10_000), NOW);
        for number in 0..1_000 {
            let now = NOW + Duration::from_millis(number);
            board.happened(&Event::TurnStarted { turn: turn() }, now);
            let detail = "d".repeat(10_000);
            board.happened(&Event::Problem { class: Class::Log, detail }, now);
            board.happened(&Event::Following { leader: Some("x".repeat(9_000)), term: None }, now);
        }
        let text = serde_json::to_string(&view(&board, NOW + seconds(1))).unwrap();
        assert!(text.len() < 30_000, "{}", text.len());
    }
}
