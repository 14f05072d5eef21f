//! The story as the page shows it.

use super::act::Act;
use super::lane::{Hindrance, Lane, State};
use super::note::Kind as NoteKind;
use super::story::{Leadership, Story, Turn};
use std::time::Duration;
use tenure::program::server::view::{
    Kind, Lane as Shown, LastTurn, Leader, NOTES, Note, Span, TURNS, TakeOver, Tick, Validity,
    View, WINDOW, millis, sentence, short,
};

/// What is not in the story.
pub(super) struct Beside<'a> {
    pub election: &'a str,
    pub overlapping: usize,
    /// Of each candidate.
    pub requests_per_minute: &'a [usize],
}

pub(super) fn view(story: &Story, now: Duration, beside: &Beside<'_>) -> View {
    let notes = |kind| {
        let notes = story.notes.iter().rev().filter(move |note| note.kind == kind);
        let notes = notes.map(|note| Note::new(now.saturating_sub(note.at), &note.text));
        notes.take(NOTES).collect()
    };
    View {
        election: beside.election.to_owned(),
        told_by: None,
        leader: leader(story, now),
        replacement: Some(sentence(&story.replacement)),
        take_over: take_over(story, now),
        vacancy: vacancy(story, now),
        window_ms: millis(WINDOW),
        lanes: (0..story.lanes.len())
            .filter_map(|who| shown(story, who, now, beside.requests_per_minute))
            .collect(),
        last_turn: story.turns.last().map(|turn| LastTurn {
            slot: short(&turn.slot),
            outcome: outcome(turn),
            candidate: Some(story.name(turn.who).to_owned()),
            took_ms: None,
        }),
        changes: notes(NoteKind::Headline),
        problems: notes(NoteKind::Problem),
        overlapping: Some(beside.overlapping),
        ..View::default()
    }
}

fn leader(story: &Story, now: Duration) -> Option<Leader> {
    let name = story.name(story.holder(now)?).to_owned();
    let last = story.leaderships.last()?;
    let left = last.valid_until(now).saturating_sub(now);
    Some(Leader {
        name,
        term: last.term,
        since: None,
        seen_ms: millis(now.saturating_sub(last.since)),
        validity: Some(Validity { left_ms: millis(left), whole_ms: millis(last.acts) }),
    })
}

/// How the present leader took over.
fn take_over(story: &Story, now: Duration) -> Option<TakeOver> {
    let last = story.leaderships.last().filter(|_| story.holder(now).is_some())?;
    let take_over = last.took_over?;
    Some(TakeOver { after_ms: millis(take_over.after), cause: take_over.cause.after() })
}

/// The last promise, when nobody acts by it any more and the lease was not given back.
fn vacancy(story: &Story, now: Duration) -> Option<Validity> {
    let last = story.leaderships.last().filter(|_| story.holder(now).is_none())?;
    let until = last.waits_until(story.promise())?;
    let left = until.checked_sub(now).filter(|left| !left.is_zero())?;
    Some(Validity { left_ms: millis(left), whole_ms: millis(story.promise()) })
}

fn shown(story: &Story, who: usize, now: Duration, requests: &[usize]) -> Option<Shown> {
    let lane = story.lanes.get(who)?;
    let turns = story.turns.iter().filter(|turn| turn.who == who);
    let mut turns: Vec<_> = turns.filter_map(|turn| tick(turn, now)).rev().take(TURNS).collect();
    turns.reverse();
    Some(Shown {
        name: lane.name.to_owned(),
        state: state(lane, story.holder(now) == Some(who)),
        hindered: [(lane.is_frozen(), "frozen"), (lane.is_cut_off(), "cut off")]
            .into_iter()
            .filter_map(|(is, word)| is.then_some(word))
            .collect(),
        requests_per_minute: requests.get(who).copied(),
        spans: spans(story, who, now),
        turns,
        actions: story.possible(who, now).into_iter().map(Act::word).collect(),
    })
}

fn state(lane: &Lane, holds: bool) -> &'static str {
    match lane.state() {
        None => "",
        Some(State::Follows | State::Leads) if holds => "leads",
        // It does not know yet, or was not heard of since.
        Some(State::Leads) => "its validity has ended",
        Some(state) => state.word(),
    }
}

/// What the candidate was, the background first.
fn spans(story: &Story, who: usize, now: Duration) -> Vec<Span> {
    let Some(lane) = story.lanes.get(who) else { return Vec::new() };
    let mut spans = Vec::new();
    for (state, from, to) in lane.states() {
        let kind = match state {
            State::Follows => Kind::Follows,
            State::Killed | State::Gone | State::Lost => Kind::Gone,
            State::Starting | State::Leads | State::Stopping => continue,
        };
        spans.extend(Span::seen(WINDOW, now, kind, None, from, to));
    }
    for (place, leadership) in story.leaderships.iter().enumerate().filter(|(_, t)| t.who == who) {
        let next = story.leaderships.get(place + 1).map(|next| next.since);
        spans.extend(spans_of(leadership, next, story.promise(), now));
    }
    for spell in &lane.spells {
        let kind = match spell.what {
            Hindrance::Frozen => Kind::Frozen,
            Hindrance::CutOff => Kind::CutOff,
        };
        spans.extend(Span::seen(WINDOW, now, kind, None, spell.from, spell.to));
    }
    spans
}

/// A term, and how long its promise kept the others out after that, unless the lease was given back.
fn spans_of(
    leadership: &Leadership,
    next: Option<Duration>,
    promise: Duration,
    now: Duration,
) -> Vec<Span> {
    let valid_until = leadership.valid_until(now);
    let ended = leadership.ended.as_ref().map_or(valid_until, |(at, _)| *at);
    let ended = ended.min(valid_until);
    let term = Some(leadership.term);
    let leads = Span::seen(WINDOW, now, Kind::Leads, term, leadership.since, Some(ended));
    let after_ms = leadership.took_over.map(|take_over| millis(take_over.after));
    let mut spans: Vec<_> = leads.into_iter().map(|leads| Span { after_ms, ..leads }).collect();
    if let Some(promised) = leadership.waits_until(promise) {
        let until = next.unwrap_or(promised).min(promised);
        if ended < now && ended < until {
            spans.extend(Span::seen(WINDOW, now, Kind::LeaseRuns, None, ended, Some(until)));
        }
    }
    spans
}

fn tick(turn: &Turn, now: Duration) -> Option<Tick> {
    let age = now.saturating_sub(turn.began);
    (age <= WINDOW).then(|| Tick { outcome: outcome(turn), age_ms: millis(age) })
}

fn outcome(turn: &Turn) -> String {
    match (&turn.outcome, turn.ended) {
        (Some(outcome), _) => short(outcome),
        (None, None) => "running".to_owned(),
        // Its process did not tell.
        (None, Some(_)) => "cut-off".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::script::{ms, started};
    use super::*;

    fn at(story: &Story, now: u64) -> View {
        let beside =
            Beside { election: "demo/report", overlapping: 0, requests_per_minute: &[17, 20, 19] };
        view(story, ms(now), &beside)
    }

    /// The spans of a lane, each with its ages in tenths of a second.
    fn told(view: &View, who: usize) -> Vec<(Kind, u64, Option<u64>)> {
        let spans = view.lanes[who].spans.iter();
        spans.map(|span| (span.kind, span.from_ms / 100, span.to_ms.map(|to| to / 100))).collect()
    }

    #[test]
    fn a_leader_at_work() {
        let mut story = started();
        story.runs(2_000, 0, 1000);
        story.begins(4_000, 0, 1000);
        let seen = at(&story, 5_200);
        let leader = seen.leader.as_ref().unwrap();
        assert_eq!((leader.name.as_str(), leader.term, leader.seen_ms), ("anna", 1000, 5_000));
        assert_eq!(leader.validity.unwrap(), Validity { left_ms: 1_700, whole_ms: 1_700 });
        assert!(
            seen.replacement
                .as_ref()
                .unwrap()
                .starts_with("A machine that dies is replaced within about 3s;")
        );
        assert_eq!(seen.take_over, None);
        assert_eq!((seen.lanes[0].state, seen.lanes[1].state), ("leads", "follows"));
        assert_eq!(seen.lanes[1].requests_per_minute, Some(20));
        assert_eq!(told(&seen, 0), [(Kind::Leads, 50, None)]);
        assert_eq!(told(&seen, 1), [(Kind::Follows, 49, None)]);
        let turns: Vec<_> =
            seen.lanes[0].turns.iter().map(|t| (t.outcome.as_str(), t.age_ms)).collect();
        assert_eq!(turns, [("succeeded", 3_200), ("running", 1_200)]);
        assert_eq!(seen.lanes[1].actions, ["kill-machine", "kill-process", "freeze", "partition"]);
        assert_eq!(seen.changes[0].text, "anna leads, with term 1000. Only anna runs the turns.");
        assert_eq!(seen.overlapping, Some(0));
    }

    #[test]
    fn the_promise_of_a_leader_that_was_killed_is_seen_until_another_one_takes_over() {
        let mut story = started();
        story.begins(2_000, 0, 1000);
        story.kill(ms(2_300), 0);
        story.dies(2_300, 0);
        let seen = at(&story, 3_300);
        assert_eq!(seen.leader, None);
        assert_eq!(seen.vacancy, Some(Validity { left_ms: 1_100, whole_ms: 2_100 }));
        assert_eq!(seen.lanes[0].state, "killed");
        let leads = (Kind::Leads, 31, Some(10));
        assert_eq!(told(&seen, 0), [(Kind::Gone, 10, None), leads, (Kind::LeaseRuns, 10, None)]);
        assert_eq!(seen.last_turn.as_ref().unwrap().outcome, "cut-off");
        story.elects(4_600, 1, 1015);
        let seen = at(&story, 4_600);
        assert_eq!(told(&seen, 0)[2], (Kind::LeaseRuns, 23, Some(2)));
        assert_eq!(seen.leader.unwrap().name, "ben");
        let after: Vec<_> = seen.lanes[1].spans.iter().map(|span| span.after_ms).collect();
        assert_eq!(after, [None, Some(2_300)]);
        let taken = TakeOver { after_ms: 2_300, cause: "after the leader's machine died" };
        assert_eq!(seen.take_over, Some(taken));
    }

    #[test]
    fn a_frozen_leader_leads_as_long_as_its_time_lasts() {
        let mut story = started();
        story.freeze(ms(2_200), 0);
        assert_eq!(at(&story, 3_800).leader.unwrap().name, "anna");
        let seen = at(&story, 5_200);
        assert_eq!(seen.leader, None);
        assert_eq!(
            (seen.lanes[0].state, &seen.lanes[0].hindered[..]),
            ("its validity has ended", &["frozen"][..])
        );
        assert_eq!(
            told(&seen, 0),
            [(Kind::Leads, 50, Some(13)), (Kind::LeaseRuns, 13, Some(9)), (Kind::Frozen, 30, None)]
        );
    }

    #[test]
    fn a_lease_that_was_given_back_keeps_nobody_out() {
        let mut story = started();
        story.kill_process(ms(2_000), 0);
        let seen = at(&story, 3_200);
        assert_eq!((&seen.leader, seen.vacancy), (&None, None));
        assert_eq!(told(&seen, 0), [(Kind::Gone, 12, None), (Kind::Leads, 30, Some(12))]);
        let mut story = started();
        story.resign(ms(2_000), 0);
        story.stands_down(2_200, 0, 1000, "left");
        let seen = at(&story, 3_200);
        assert_eq!((&seen.leader, seen.vacancy), (&None, None));
        assert_eq!(told(&seen, 0), [(Kind::Follows, 10, None), (Kind::Leads, 30, Some(10))]);
    }
}
