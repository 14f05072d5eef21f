//! The page's view of a board: its candidate, and the other leaders that the candidate saw.

use super::board::{Board, Readiness};
use super::format::describe_schedule;
use super::page::view::{
    Commands, LANES, Lane, LastTurn, Leader, NOTES, Note, Validity, View, limit_age, sentence,
    short, window,
};
use super::page::{Row, Source};
use super::recent::{RUNNING, UNKNOWN};
use super::role::{Leader as KnownLeader, Role};
use super::state::{Change, State};
use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;
use tenure::status::{ElectionHealth, TurnSummary};
use tenure_clock::ClockHandle;
use tenure_core::{Timestamp, milliseconds};

/// Minimum time for which a problem is shown. If the lanes show a longer time, that one applies.
const RECENT: Duration = Duration::from_secs(600);

/// Returns the source of a candidate's view and row.
pub(super) fn source(board: Arc<Board>, clock: ClockHandle) -> Source {
    let changes = board.changes();
    let (row_board, row_clock, election) = (board.clone(), clock.clone(), board.election.clone());
    let view = move || view(&board, clock.now());
    Source::new(election, view, changes).with_row(move || row(&row_board, row_clock.now()))
}

fn view(board: &Board, now: Duration) -> View {
    let stall = board.stall(now);
    let (role, unready) = (known_role(board, now), board.readiness(now) != Readiness::Ready);
    let state = board.state();
    let ago = |at: Duration| now.saturating_sub(at);
    let stalled = stall.map(|stall| Note::new(Duration::ZERO, &sentence(&stall)));
    let changes = state.history.iter().rev();
    let changes = changes.map(|change| {
        Note::new(ago(change.observed_at), &describe_change(change, &board.candidate))
    });
    let outlook = state.outlook();
    let last_turn = last_turn(&state, &outlook);
    let mut turns = state.recent.last_turns(state.service_time.now(), state.turns.as_ref());
    let oldest = turns.first().map_or(Duration::ZERO, |turn| Duration::from_millis(turn.age_ms));
    let window = window(oldest);
    // The election may not have existed before the first known turn, so earlier slots are hidden.
    let first_known = turns.iter().position(|turn| turn.outcome != UNKNOWN);
    turns.drain(..first_known.unwrap_or(turns.len()));
    let recent = state.problems.iter().rev().filter(|(at, _)| ago(*at) < RECENT.max(window));
    let problems = recent.map(|(at, text)| Note::new(ago(*at), text));
    View {
        election: board.election.clone(),
        reported_by: Some(short(&board.candidate)),
        leader: leader(board, &role, &state, now),
        unseen: is_leader_unknown(&role, unready),
        replacement: board.replacement(&state).map(|takeover| sentence(&takeover)),
        take_over: None,
        vacancy: None,
        window_ms: milliseconds(window),
        began_ms: Some(milliseconds(ago(state.started_at.max(state.timeline.complete_since())))),
        lanes: lanes(board, &role, &state, (now, window)),
        schedule: schedule(&state),
        turns,
        last_turn,
        outlook,
        changes: changes.take(NOTES).collect(),
        problems: stalled.into_iter().chain(problems).take(NOTES).collect(),
        overlapping: None,
        commands: Some(Commands {
            successors: successors(board, &state, now),
            triggers: state.application.is_none(),
        }),
    }
}

/// Returns the candidates that a transfer may name: all known ones except the leader.
fn successors(board: &Board, state: &State, now: Duration) -> Vec<String> {
    let leader = state.role.leader(&board.candidate).map(|leader| leader.name);
    let others = state.known_candidates(&board.candidate, now);
    let all = std::iter::once(board.candidate.clone()).chain(others);
    all.filter(|name| Some(name) != leader.as_ref()).map(|name| short(&name)).collect()
}

/// Returns the role as far as it is known. A follower that cannot reach its storage account does
/// not know the present leader.
fn known_role(board: &Board, now: Duration) -> Role {
    match board.role(now) {
        Role::Following(_) if board.readiness(now) != Readiness::Ready => Role::Undecided,
        role => role,
    }
}

/// Returns true if it is not known who leads, or whether any candidate does.
fn is_leader_unknown(role: &Role, unready: bool) -> bool {
    *role == Role::Following(None) || (*role == Role::Undecided && unready)
}

/// Returns the candidate's row in the overview.
fn row(board: &Board, now: Duration) -> Row {
    let (role, readiness) = (known_role(board, now), board.readiness(now));
    let state = board.state();
    let outlook = state.outlook();
    let last_turn = last_turn(&state, &outlook);
    let problem = match readiness {
        Readiness::Ready => None,
        Readiness::NotReady(reason) => Some(short(&reason)),
    };
    let leader = role.leader(&board.candidate);
    let (leader, term) = leader.map(|leader| (short(&leader.name), leader.term)).unzip();
    let is_led = matches!(role, Role::Leading { .. } | Role::Following(_));
    let on_record = state.turns.as_ref();
    let ends = on_record.map(|turns| [&turns.last_success, &turns.last_failure]);
    let ended = ends.into_iter().flatten().flatten().map(|ended| ended.end.at.0 / 1_000_000).max();
    Row {
        election: board.election.clone(),
        health: if problem.is_some() { ElectionHealth::Unknown } else { outlook.health(is_led) },
        role: role_label(&role),
        unseen: is_leader_unknown(&role, problem.is_some()),
        leader,
        term,
        ended_at: ended.filter(|_| {
            let (shown_turn, recorded_turn) = (last_turn.as_ref(), outlook.last_turn.as_ref());
            shown_turn.zip(recorded_turn).is_some_and(|(shown, known)| shown.slot == known.slot)
        }),
        outcome: last_turn.as_ref().map(|turn| turn.outcome.clone()),
        took_ms: last_turn.and_then(|turn| turn.took_ms),
        next_at: on_record.and_then(|turns| Some(turns.next?.at.0 / 1_000_000)),
        next_local: outlook.next_turn.map(|next| next.local),
        schedule: schedule(&state),
        problem,
    }
}

fn schedule(state: &State) -> Option<String> {
    state.turns.as_ref()?.schedule.as_deref().map(describe_schedule)
}

/// Returns this candidate's last turn, unless the record has a newer one.
fn last_turn(state: &State, outlook: &TurnSummary) -> Option<LastTurn> {
    let on_record = outlook.last_turn.as_ref().map(|turn| LastTurn {
        slot: turn.slot.clone(),
        outcome: turn.outcome.to_owned(),
        candidate: None,
        took_ms: turn.took_ms,
    });
    let instant = |turn: &LastTurn| Timestamp::parse(&turn.slot);
    // Once this candidate no longer leads, another one may have run the same slot again.
    let leads = matches!(state.role, Role::Leading { .. });
    let is_newer = |own_turn: &LastTurn| {
        on_record.as_ref().is_none_or(|recorded| match instant(own_turn).cmp(&instant(recorded)) {
            Ordering::Less => false,
            Ordering::Equal => {
                leads || own_turn.outcome == RUNNING || own_turn.outcome == recorded.outcome
            }
            Ordering::Greater => true,
        })
    };
    state.turn.clone().filter(is_newer).or(on_record)
}

fn leader(board: &Board, role: &Role, state: &State, now: Duration) -> Option<Leader> {
    let observed =
        state.timeline.leads_since().map_or(Duration::ZERO, |since| now.saturating_sub(since));
    let seen_ms = milliseconds(observed);
    match role {
        Role::Leading { term, until } => {
            let left = until.saturating_sub(now);
            let (left_ms, whole_ms) =
                (milliseconds(left), milliseconds(state.full_validity.max(left)));
            Some(Leader {
                name: short(&board.candidate),
                term: *term,
                since: None,
                seen_ms,
                validity: Some(Validity { left_ms, whole_ms }),
            })
        }
        Role::Following(Some(KnownLeader { name, term, since, .. })) => {
            let since = since.clone();
            Some(Leader { name: short(name), term: *term, since, seen_ms, validity: None })
        }
        _ => None,
    }
}

fn role_label(role: &Role) -> &'static str {
    match role {
        Role::Leading { .. } => "leads",
        Role::Following(_) => "follows",
        Role::Undecided => "undecided",
        Role::Left => "left",
    }
}

fn lanes(
    board: &Board,
    role: &Role,
    state: &State,
    (now, window): (Duration, Duration),
) -> Vec<Lane> {
    let own_lane = Lane {
        name: short(&board.candidate),
        state: role_label(role),
        requests_per_minute: Some(state.timeline.requests.per_minute(now)),
        spans: state.timeline.own_spans(now, window),
        turns: state.timeline.ticks(now, window),
        ..Lane::default()
    };
    let leads = |name: &str| matches!(role, Role::Following(Some(other)) if other.name == name);
    let others = state.timeline.others(now, window).into_iter().map(|(name, mut spans)| {
        let present = spans.last_mut().filter(|span| leads(name) && span.to_ms.is_none());
        if let (Some(span), Some(age)) = (present, leading_for(role, state.service_time.now())) {
            // The record may show an earlier start than this candidate saw.
            span.from_ms = span.from_ms.max(milliseconds(limit_age(age, window)));
        }
        let state = if leads(name) { "leads" } else { "led" };
        Lane { name: short(name), state, spans, ..Lane::default() }
    });
    std::iter::once(own_lane).chain(others).take(LANES).collect()
}

/// Returns the time for which the followed leader has led, by the record.
fn leading_for(role: &Role, now: Timestamp) -> Option<Duration> {
    let Role::Following(Some(KnownLeader { since: Some(since), .. })) = role else { return None };
    Some(now.since(Timestamp::parse(since)?))
}

/// Describes a change as a sentence.
fn describe_change(change: &Change, own_name: &str) -> String {
    let name = change.leader.as_deref();
    let term_text = change.term.map(|term| format!(", with term {term}")).unwrap_or_default();
    match (change.event, name) {
        ("stood-down", _) => {
            let reason = match change.reason.unwrap_or_default() {
                "validity-ended" => "its validity ended before a renewal was answered",
                "lease-lost" => "the lease was lost",
                "left" => "it released the lease",
                "work-failed" => "its work failed",
                "resigned" => "it resigned",
                "handed-over" => "it handed over",
                other => other,
            };
            format!("{own_name} no longer leads: {reason}.")
        }
        (_, Some(name)) => format!("{name} leads{term_text}."),
        (_, None) => {
            "Another candidate holds the lease; the record names no leader yet.".to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
