//! The recent past of a candidate: the leaders, its own turns, its requests.

use super::page::view::{Kind, Rate, Span, TURNS, Tick, short};
use super::role::Role;
use std::collections::VecDeque;
use std::time::Duration;
use tenure_core::milliseconds;

/// Maximum number of spans of each track.
const SPANS: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Timeline {
    /// The spans of this candidate.
    own_track: Track,
    /// The spans of other leaders.
    others: Track,
    turns: VecDeque<Turn>,
    pub(super) requests: Rate,
}

/// A sequence of spans.
#[derive(Debug, Default)]
struct Track(VecDeque<Stretch>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stretch {
    name: String,
    kind: Kind,
    term: Option<u64>,
    from: Duration,
    /// The end. While this candidate leads, the end of its validity. `None` while any other stretch
    /// continues.
    to: Option<Duration>,
    /// True while the stretch continues.
    open: bool,
}

/// A turn of this candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub slot: String,
    pub began: Duration,
    /// `None` while it runs.
    pub outcome: Option<String>,
}

impl Timeline {
    /// Records the role of the candidate `name` at `now`.
    pub(super) fn on_role(&mut self, now: Duration, name: &str, role: &Role) {
        let own_span = match role {
            Role::Leading { term, until } => Some((Kind::Leads, Some(*term), Some(*until))),
            Role::Following(_) => Some((Kind::Follows, None, None)),
            Role::Undecided | Role::Left => None,
        };
        self.own_track.enter(now, own_span.map(|(kind, term, to)| (name, kind, term, to)));
        let other = match role {
            Role::Following(Some(leader)) => {
                Some((leader.name.as_str(), Kind::Leads, Some(leader.term), None))
            }
            _ => None,
        };
        self.others.enter(now, other);
    }

    pub(super) fn turn_started(&mut self, now: Duration, slot: &str) {
        let turn = Turn { slot: short(slot), began: now, outcome: None };
        push(&mut self.turns, turn, TURNS);
    }

    pub(super) fn turn_ended(&mut self, slot: &str, outcome: &str) {
        let is_running_turn = |turn: &&mut Turn| turn.slot == short(slot) && turn.outcome.is_none();
        if let Some(turn) = self.turns.iter_mut().rev().find(is_running_turn) {
            turn.outcome = Some(outcome.to_owned());
        }
    }

    /// Returns the turns in the window, the oldest first.
    pub(super) fn ticks(&self, now: Duration, window: Duration) -> Vec<Tick> {
        let tick = |turn: &Turn| {
            let age = now.saturating_sub(turn.began);
            let outcome = turn.outcome.clone().unwrap_or_else(|| "running".to_owned());
            (age <= window).then(|| Tick { outcome, age_ms: milliseconds(age) })
        };
        self.turns.iter().filter_map(tick).collect()
    }

    /// Returns the spans of this candidate.
    pub(super) fn own_spans(&self, now: Duration, window: Duration) -> Vec<Span> {
        self.own_track.0.iter().filter_map(|stretch| stretch.visible(now, window)).collect()
    }

    /// Returns the spans of the other leaders, the most recent leader first.
    pub(super) fn others(&self, now: Duration, window: Duration) -> Vec<(&str, Vec<Span>)> {
        let mut lanes: Vec<(&str, Vec<Span>)> = Vec::new();
        for stretch in self.others.0.iter().rev() {
            let Some(span) = stretch.visible(now, window) else { continue };
            match lanes.iter_mut().find(|(name, _)| *name == stretch.name) {
                Some((_, spans)) => spans.insert(0, span),
                None => lanes.push((&stretch.name, vec![span])),
            }
        }
        lanes
    }

    /// Returns the instant since which the spans are complete. Older spans may have been dropped.
    pub(super) fn complete_since(&self) -> Duration {
        let oldest_start = |track: &Track| {
            track.0.front().filter(|_| track.0.len() == SPANS).map(|first| first.from)
        };
        oldest_start(&self.own_track).max(oldest_start(&self.others)).unwrap_or_default()
    }

    /// Returns the instant at which the present leader, this candidate or another, was first seen.
    pub(super) fn leads_since(&self) -> Option<Duration> {
        let open = |track: &Track| track.0.back().filter(|last| last.open).cloned();
        [open(&self.own_track), open(&self.others)]
            .into_iter()
            .flatten()
            .find(|stretch| stretch.kind == Kind::Leads)
            .map(|stretch| stretch.from)
    }
}

impl Track {
    /// Continues the open stretch if `next` is the same state. Otherwise ends it and begins `next`.
    fn enter(&mut self, now: Duration, next: Option<(&str, Kind, Option<u64>, Option<Duration>)>) {
        if let Some(last) = self.0.back_mut().filter(|last| last.open) {
            let same = next.filter(|(name, kind, term, _)| {
                (last.name.as_str(), last.kind, last.term) == (*name, *kind, *term)
            });
            if let Some((_, _, _, to)) = same {
                last.to = to;
                return;
            }
            last.to = Some(last.to.map_or(now, |to| to.min(now)));
            last.open = false;
        }
        if let Some((name, kind, term, to)) = next {
            let stretch = Stretch { name: name.to_owned(), kind, term, from: now, to, open: true };
            push(&mut self.0, stretch, SPANS);
        }
    }
}

impl Stretch {
    fn visible(&self, now: Duration, window: Duration) -> Option<Span> {
        Span::visible(window, now, self.kind, self.term, self.from, self.to)
    }
}

/// Appends an item and drops the oldest beyond `capacity`.
fn push<T>(queue: &mut VecDeque<T>, item: T, capacity: usize) {
    if queue.len() == capacity {
        queue.pop_front();
    }
    queue.push_back(item);
}

#[cfg(test)]
mod tests {
    use super::super::page::view::WINDOW;
    use super::super::role::Leader;
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn leading(term: u64, until: u64) -> Role {
        Role::Leading { term, until: s(until) }
    }

    fn following(name: &str, term: u64) -> Role {
        Role::Following(Some(Leader { name: name.to_owned(), term, address: None, since: None }))
    }

    /// Returns start and end as ages in seconds.
    fn ages(spans: &[Span]) -> Vec<(Kind, u64, Option<u64>)> {
        let seconds = |ms: u64| ms / 1_000;
        spans
            .iter()
            .map(|span| (span.kind, seconds(span.from_ms), span.to_ms.map(seconds)))
            .collect()
    }

    #[test]
    fn leaders_follow_one_upon_the_other() {
        let mut line = Timeline::default();
        line.on_role(s(1_000), "ada", &following("ben", 6));
        line.on_role(s(1_003), "ada", &following("ben", 6));
        line.on_role(s(1_010), "ada", &following("cleo", 7));
        line.on_role(s(1_020), "ada", &Role::Undecided);
        line.on_role(s(1_021), "ada", &leading(8, 1_033));
        line.on_role(s(1_025), "ada", &leading(8, 1_037));
        let now = s(1_030);
        assert_eq!(
            ages(&line.own_spans(now, WINDOW)),
            [(Kind::Follows, 30, Some(10)), (Kind::Leads, 9, None)]
        );
        let others = line.others(now, WINDOW);
        let names: Vec<_> = others.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["cleo", "ben"]);
        assert_eq!(ages(&others[1].1), [(Kind::Leads, 30, Some(20))]);
        assert_eq!(line.leads_since(), Some(s(1_021)));
        // Leadership expires even without an event.
        assert_eq!(ages(&line.own_spans(s(1_040), WINDOW))[1], (Kind::Leads, 19, Some(3)));
        line.on_role(s(1_050), "ada", &following("ben", 9));
        assert_eq!(ages(&line.own_spans(s(1_050), WINDOW))[1], (Kind::Leads, 29, Some(13)));
        assert_eq!(line.others(s(1_050), WINDOW)[0].1.len(), 2, "ben has one lane");
        assert_eq!(line.leads_since(), Some(s(1_050)));
    }

    #[test]
    fn old_turns_leave_the_window() {
        let mut line = Timeline::default();
        line.turn_started(s(10), "a");
        line.turn_ended("a", "failed");
        line.turn_started(s(20), "b");
        let outcomes_and_ages = |now| {
            let ticks = line.ticks(s(now), WINDOW).into_iter();
            ticks.map(|tick| (tick.outcome, tick.age_ms / 1_000)).collect::<Vec<_>>()
        };
        assert_eq!(outcomes_and_ages(30), [("failed".to_owned(), 20), ("running".to_owned(), 10)]);
        assert_eq!(outcomes_and_ages(131).len(), 1);
    }

    #[test]
    fn old_entries_are_dropped() {
        let mut line = Timeline::default();
        for number in 0..1_000 {
            line.turn_started(s(number), "a");
            line.on_role(s(number), "ada", &following(&number.to_string(), number));
        }
        assert_eq!(line.turns.len(), TURNS);
        assert_eq!(line.others.0.len(), SPANS);
        assert_eq!(line.complete_since(), s(1_000 - SPANS as u64));
        assert_eq!(Timeline::default().complete_since(), Duration::ZERO);
    }
}
