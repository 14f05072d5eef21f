//! The story as the page and the terminal show it.

use super::story::{Action, ELECTION, Lane, State, Story};
use std::time::Duration;
use tenure_core::milliseconds;
use tenure_server::page::view::{
    Kind, Lane as LaneView, LastTurn, Leader, NOTES, Note, Span, TakeOver, Tick, Validity, View,
    WINDOW, sentence,
};

/// Returns the view of the story at `now`.
pub(super) fn view(story: &Story, now: Duration) -> View {
    let age_ms = |at: Duration| milliseconds(now.saturating_sub(at));
    let last = story.terms.last();
    let (current, vacated) = match story.valid_leader(now) {
        Some(_) => (last, None),
        None => (None, last),
    };
    let notes = |problems: bool| {
        let notes = story.notes.iter().rev().filter(move |note| note.is_problem == problems);
        notes.take(NOTES).map(|note| Note::new(now.saturating_sub(note.at), &note.text)).collect()
    };
    let validity = |until: Duration, whole: Duration| Validity {
        left_ms: milliseconds(until.saturating_sub(now)),
        whole_ms: milliseconds(whole),
    };
    let takeover = current.and_then(|_| story.takeover(story.terms.len() - 1));
    let vacancy = vacated.and_then(|last| last.blocks_until(story.promise()));
    View {
        election: ELECTION.to_owned(),
        leader: current.map(|last| Leader {
            name: story.lanes[last.candidate].name.to_owned(),
            term: last.term,
            since: None,
            seen_ms: age_ms(last.since),
            validity: Some(validity(last.valid_until(now), last.validity)),
        }),
        replacement: Some(sentence(&story.takeover_time)),
        take_over: takeover
            .map(|(cause, after)| TakeOver { after_ms: milliseconds(after), cause: cause.cause() }),
        vacancy: vacancy.filter(|until| *until > now).map(|until| validity(until, story.promise())),
        window_ms: milliseconds(WINDOW),
        lanes: (0..story.lanes.len()).map(|index| lane(story, index, now)).collect(),
        last_turn: story.turns.last().map(|turn| LastTurn {
            slot: turn.slot.clone(),
            outcome: turn.outcome.clone(),
            candidate: Some(story.lanes[turn.candidate].name.to_owned()),
            took_ms: None,
        }),
        changes: notes(false),
        problems: notes(true),
        overlapping: Some(story.sink.overlapping_turns()),
        ..View::default()
    }
}

fn lane(story: &Story, index: usize, now: Duration) -> LaneView {
    let lane = &story.lanes[index];
    let turns = story
        .turns
        .iter()
        .filter(|turn| turn.candidate == index && turn.started_at + WINDOW >= now);
    let turns = turns.map(|turn| Tick {
        outcome: turn.outcome.clone(),
        age_ms: milliseconds(now.saturating_sub(turn.started_at)),
    });
    let faults = [(Kind::Frozen, "frozen"), (Kind::CutOff, "cut off")].into_iter();
    let faults = faults.filter(|(kind, _)| lane.is_in(*kind));
    LaneView {
        name: lane.name.to_owned(),
        state: state(lane, story.valid_leader(now) == Some(index)),
        faults: faults.map(|(_, label)| label).collect(),
        requests_per_minute: Some(lane.requests.per_minute(now)),
        spans: spans(story, index, now),
        turns: turns.collect(),
        actions: story.possible_actions(index, now).into_iter().map(Action::name).collect(),
    }
}

fn state(lane: &Lane, is_valid_leader: bool) -> &'static str {
    match lane.state {
        State::Follows | State::Leads if is_valid_leader => "leads",
        // The candidate has not reported the end of its validity yet, or cannot.
        State::Leads => "expired",
        State::Starting => "starts",
        State::Follows => "follows",
        State::Killed => "killed",
        State::Stopped if !lane.ended => "stopping",
        State::Stopped => "stopped",
        State::Lost => "lost",
    }
}

/// Returns the spans of a candidate. Spans that cover others come last.
fn spans(story: &Story, index: usize, now: Duration) -> Vec<Span> {
    let visible = |kind, term, from, to| Span::visible(WINDOW, now, kind, term, from, to);
    let states = story.lanes[index].spans.iter();
    let mut spans: Vec<_> =
        states.filter_map(|(kind, from, to)| visible(*kind, None, *from, *to)).collect();
    for (position, term) in
        story.terms.iter().enumerate().filter(|(_, term)| term.candidate == index)
    {
        let valid_until = term.valid_until(now);
        let ended = term.ended.as_ref().map_or(valid_until, |(at, _)| *at).min(valid_until);
        let leads = visible(Kind::Leads, Some(term.term), term.since, Some(ended));
        let after_ms = story.takeover(position).map(|(_, after)| milliseconds(after));
        spans.extend(leads.map(|leads| Span { after_ms, ..leads }));
        // After the validity, the promise of a silent leader still blocks the other candidates.
        let next = story.terms.get(position + 1).map_or(Duration::MAX, |next| next.since);
        let blocked_until = term.blocks_until(story.promise()).map(|promised| promised.min(next));
        if let Some(until) = blocked_until.filter(|until| ended < now.min(*until)) {
            spans.extend(visible(Kind::LeaseRuns, None, ended, Some(until)));
        }
    }
    spans.sort_by_key(|span| matches!(span.kind, Kind::Frozen | Kind::CutOff));
    spans
}
