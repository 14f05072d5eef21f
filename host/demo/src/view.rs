//! The story as the page and the terminal show it.

use super::act::Act;
use super::story::{Lane, State, Story, Term};
use std::time::Duration;
use tenure_core::milliseconds;
use tenure_server::page::view::{
    Kind, Lane as Shown, LastTurn, Leader, NOTES, Note, Span, TURNS, TakeOver, Tick, Validity,
    View, WINDOW, sentence, short,
};

/// Shows the story at `now`, with counts that are not in it: turns that overlapped, and the requests per minute of each
/// candidate.
pub(super) fn view(story: &Story, now: Duration, overlapping: usize, requests: &[usize]) -> View {
    let holder = story.holder(now);
    let last = story.terms.last();
    let notes = |problems: bool| {
        let notes = story.notes.iter().rev().filter(move |note| note.is_problem == problems);
        let notes = notes.map(|note| Note::new(now.saturating_sub(note.at), &note.text));
        notes.take(NOTES).collect()
    };
    let leader = last.filter(|_| holder.is_some()).map(|last| Leader {
        name: story.name(last.who).to_owned(),
        term: last.term,
        since: None,
        seen_ms: milliseconds(now.saturating_sub(last.since)),
        validity: Some(Validity {
            left_ms: milliseconds(last.valid_until(now).saturating_sub(now)),
            whole_ms: milliseconds(last.acts),
        }),
    });
    let takeover = last.filter(|_| holder.is_some()).and_then(|last| last.takeover);
    let vacancy = last.filter(|_| holder.is_none()).and_then(|last| {
        let left = last.waits_until(story.promise())?.checked_sub(now)?;
        Some(Validity { left_ms: milliseconds(left), whole_ms: milliseconds(story.promise()) })
    });
    View {
        election: super::stage::ELECTION.to_owned(),
        leader,
        replacement: Some(sentence(&story.replacement)),
        take_over: takeover.map(|takeover| TakeOver {
            after_ms: milliseconds(takeover.after),
            cause: takeover.cause.cause(),
        }),
        vacancy: vacancy.filter(|vacancy| vacancy.left_ms > 0),
        window_ms: milliseconds(WINDOW),
        lanes: (0..story.lanes.len()).map(|who| lane(story, who, now, requests)).collect(),
        last_turn: story.turns.last().map(|turn| LastTurn {
            slot: short(&turn.slot),
            outcome: outcome(turn.outcome.as_deref()),
            candidate: Some(story.name(turn.who).to_owned()),
            took_ms: None,
        }),
        changes: notes(false),
        problems: notes(true),
        overlapping: Some(overlapping),
        ..View::default()
    }
}

fn lane(story: &Story, who: usize, now: Duration, requests: &[usize]) -> Shown {
    let lane = &story.lanes[who];
    let turns = story.turns.iter().filter(|turn| turn.who == who);
    let ticks = turns.map(|turn| Tick {
        outcome: outcome(turn.outcome.as_deref()),
        age_ms: milliseconds(now.saturating_sub(turn.began)),
    });
    let mut ticks: Vec<_> =
        ticks.filter(|tick| tick.age_ms <= milliseconds(WINDOW)).rev().take(TURNS).collect();
    ticks.reverse();
    let hindered = [(lane.frozen, "frozen"), (lane.cut_off, "cut off")];
    Shown {
        name: lane.name.to_owned(),
        state: state(lane, story.holder(now) == Some(who)),
        hindered: hindered.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect(),
        requests_per_minute: requests.get(who).copied(),
        spans: spans(story, who, now),
        turns: ticks,
        actions: story.possible(who, now).into_iter().map(Act::name).collect(),
    }
}

fn outcome(known: Option<&str>) -> String {
    known.map_or_else(|| "running".to_owned(), short)
}

fn state(lane: &Lane, holds: bool) -> &'static str {
    match lane.state {
        State::Follows | State::Leads if holds => "leads",
        // It does not know yet, or was not heard of since.
        State::Leads => "its validity has ended",
        State::Starting => "starts",
        State::Follows => "follows",
        State::Killed => "killed",
        State::Stopping => "stopping",
        State::Stopped => "stopped",
        State::Lost => "lost",
    }
}

/// Returns what the candidate was: what covers other spans comes last.
fn spans(story: &Story, who: usize, now: Duration) -> Vec<Span> {
    let lane = &story.lanes[who];
    let of_lane = |covers: bool| {
        let is_cover = move |kind| matches!(kind, Kind::Frozen | Kind::CutOff) == covers;
        let spans = lane.spans.iter().filter(move |(kind, ..)| is_cover(*kind));
        spans.filter_map(move |(kind, from, to)| Span::seen(WINDOW, now, *kind, None, *from, *to))
    };
    let terms = story.terms.iter().enumerate().filter(|(_, term)| term.who == who);
    let terms = terms.flat_map(|(place, term)| {
        let next = story.terms.get(place + 1).map(|next| next.since);
        spans_of(term, next, story.promise(), now)
    });
    of_lane(false).chain(terms).chain(of_lane(true)).collect()
}

/// A term, and how long its promise kept the others out after that.
fn spans_of(term: &Term, next: Option<Duration>, promise: Duration, now: Duration) -> Vec<Span> {
    let valid_until = term.valid_until(now);
    let ended = term.ended.as_ref().map_or(valid_until, |(at, _)| *at).min(valid_until);
    let leads = Span::seen(WINDOW, now, Kind::Leads, Some(term.term), term.since, Some(ended));
    let after_ms = term.takeover.map(|takeover| milliseconds(takeover.after));
    let leads = leads.map(|leads| Span { after_ms, ..leads });
    let waits = term.waits_until(promise).and_then(|promised| {
        let until = next.unwrap_or(promised).min(promised);
        let is_seen = ended < now && ended < until;
        Span::seen(WINDOW, now, Kind::LeaseRuns, None, ended, Some(until)).filter(|_| is_seen)
    });
    leads.into_iter().chain(waits).collect()
}
