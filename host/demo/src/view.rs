//! The story as the page shows it.

use super::lane::{Hindrance, Lane, State};
use super::note::Kind as NoteKind;
use super::steer::Act;
use super::story::{Leadership, Story, Turn};
use std::time::Duration;
use tenure::program::server::view::{
    Kind, Lane as Shown, LastTurn, Leader, NOTES, Note, Span, TURNS, Tick, Validity, View, WINDOW,
    millis, short,
};

/// What is not in the story.
pub(super) struct Beside<'a> {
    pub election: &'a str,
    /// How long a leader may act right after a renewal.
    pub validity: Duration,
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
        leader: leader(story, now, beside.validity),
        vacancy: vacancy(story, now),
        lanes: (0..story.lanes.len())
            .filter_map(|who| shown(story, who, now, beside.requests_per_minute))
            .collect(),
        last_turn: story.turns.last().map(|turn| LastTurn {
            slot: short(&turn.slot),
            outcome: outcome(turn),
            candidate: story.name(turn.who).to_owned(),
            age_ms: millis(now.saturating_sub(turn.began)),
        }),
        changes: notes(NoteKind::Headline),
        problems: notes(NoteKind::Problem),
        overlapping: Some(beside.overlapping),
    }
}

fn leader(story: &Story, now: Duration, whole: Duration) -> Option<Leader> {
    let name = story.name(story.holder(now)?).to_owned();
    let last = story.leaderships.last()?;
    let left = last.valid_until.saturating_sub(now);
    Some(Leader {
        name,
        term: last.term,
        since: None,
        seen_ms: millis(now.saturating_sub(last.since)),
        validity: Some(Validity { left_ms: millis(left), whole_ms: millis(whole.max(left)) }),
    })
}

/// The last lease, when nobody acts by it any more and it was not given back.
fn vacancy(story: &Story, now: Duration) -> Option<Validity> {
    let last =
        story.leaderships.last().filter(|last| story.holder(now).is_none() && !given_back(last))?;
    let left = last.lease_until.checked_sub(now).filter(|left| !left.is_zero())?;
    Some(Validity { left_ms: millis(left), whole_ms: millis(story.lease) })
}

fn given_back(leadership: &Leadership) -> bool {
    let how = leadership.ended.as_ref().map_or("", |(_, how)| how);
    matches!(how, "stopped" | "left" | "resigned")
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
        Some(State::Leads) => "its time is over",
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
        spans.extend(Span::seen(now, kind, None, from, to));
    }
    for (place, leadership) in story.leaderships.iter().enumerate().filter(|(_, t)| t.who == who) {
        let next = story.leaderships.get(place + 1).map(|next| next.since);
        spans.extend(spans_of(leadership, next, now));
    }
    for spell in &lane.spells {
        let kind = match spell.what {
            Hindrance::Frozen => Kind::Frozen,
            Hindrance::CutOff => Kind::CutOff,
        };
        spans.extend(Span::seen(now, kind, None, spell.from, spell.to));
    }
    spans
}

/// A term, and how long its lease kept the others out after that, unless it was given back.
fn spans_of(leadership: &Leadership, next: Option<Duration>, now: Duration) -> Vec<Span> {
    let ended = leadership.ended.as_ref().map_or(leadership.valid_until, |(at, _)| *at);
    let ended = ended.min(leadership.valid_until);
    let term = Some(leadership.term);
    let mut spans: Vec<_> =
        Span::seen(now, Kind::Leads, term, leadership.since, Some(ended)).into_iter().collect();
    let until = next.unwrap_or(leadership.lease_until).min(leadership.lease_until);
    if ended < now && ended < until && !given_back(leadership) {
        spans.extend(Span::seen(now, Kind::LeaseRuns, None, ended, Some(until)));
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
        let beside = Beside {
            election: "demo/report",
            validity: ms(12_000),
            overlapping: 0,
            requests_per_minute: &[17, 20, 19],
        };
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
        story.renews(4_200, 0, 1000);
        let seen = at(&story, 5_200);
        let leader = seen.leader.as_ref().unwrap();
        assert_eq!((leader.name.as_str(), leader.term, leader.seen_ms), ("anna", 1000, 5_000));
        assert_eq!(leader.validity.unwrap(), Validity { left_ms: 11_000, whole_ms: 12_000 });
        assert_eq!((seen.lanes[0].state, seen.lanes[1].state), ("leads", "follows"));
        assert_eq!(seen.lanes[1].requests_per_minute, Some(20));
        assert_eq!(told(&seen, 0), [(Kind::Leads, 50, None)]);
        assert_eq!(told(&seen, 1), [(Kind::Follows, 49, None)]);
        let turns: Vec<_> =
            seen.lanes[0].turns.iter().map(|t| (t.outcome.as_str(), t.age_ms)).collect();
        assert_eq!(turns, [("succeeded", 3_200), ("running", 1_200)]);
        assert_eq!(seen.lanes[1].actions, ["kill", "freeze", "partition"]);
        assert_eq!(seen.changes[0].text, "anna leads, with term 1000. Only anna runs the turns.");
        assert_eq!(seen.overlapping, Some(0));
    }

    #[test]
    fn the_lease_of_a_leader_that_was_killed_is_seen_until_another_one_takes_over() {
        let mut story = started();
        story.begins(2_000, 0, 1000);
        story.kill(ms(2_300), 0);
        story.dies(2_300, 0);
        let seen = at(&story, 5_300);
        assert_eq!(seen.leader, None);
        assert_eq!(seen.vacancy, Some(Validity { left_ms: 9_900, whole_ms: 15_000 }));
        assert_eq!(seen.lanes[0].state, "killed");
        let leads = (Kind::Leads, 51, Some(30));
        assert_eq!(told(&seen, 0), [(Kind::Gone, 30, None), leads, (Kind::LeaseRuns, 30, None)]);
        assert_eq!(seen.last_turn.as_ref().unwrap().outcome, "cut-off");
        story.elects(15_300, 1, 1015);
        let seen = at(&story, 15_300);
        assert_eq!(told(&seen, 0)[2], (Kind::LeaseRuns, 130, Some(1)));
        assert_eq!(seen.leader.unwrap().name, "ben");
    }

    #[test]
    fn a_frozen_leader_leads_as_long_as_its_time_lasts() {
        let mut story = started();
        story.freeze(ms(2_200), 0);
        assert_eq!(at(&story, 12_100).leader.unwrap().name, "anna");
        let seen = at(&story, 13_200);
        assert_eq!(seen.leader, None);
        assert_eq!(
            (seen.lanes[0].state, &seen.lanes[0].hindered[..]),
            ("its time is over", &["frozen"][..])
        );
        assert_eq!(
            told(&seen, 0),
            [(Kind::Leads, 130, Some(10)), (Kind::LeaseRuns, 10, None), (Kind::Frozen, 110, None)]
        );
    }

    #[test]
    fn a_lease_that_was_given_back_keeps_nobody_out() {
        let mut story = started();
        story.resign(ms(2_000), 0);
        story.stands_down(2_200, 0, 1000, "left");
        let seen = at(&story, 3_200);
        assert_eq!((&seen.leader, seen.vacancy), (&None, None));
        assert_eq!(told(&seen, 0), [(Kind::Follows, 10, None), (Kind::Leads, 30, Some(10))]);
    }
}
