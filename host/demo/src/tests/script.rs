//! Short scripts for stories. Times are in milliseconds.

use crate::sink::Sink;
use crate::story::{Action, Event, State, Story};
use std::time::Duration;
use tenure::status::TakeoverTime;

pub(super) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Returns a story of three started candidates. anna leads from 0.2 s on with term 1000; the others
/// follow.
pub(super) fn started() -> Story {
    let takeover_time = TakeoverTime {
        promise: Some(ms(2_100)),
        lease: ms(60_000),
        poll: ms(4_000),
        is_supervised: true,
        is_watched: true,
    };
    let names = ["anna", "ben", "cleo"];
    let mut story = Story::new(&names, takeover_time, Sink::default());
    for index in 0..3 {
        story.apply(ms(0), index, Action::Start);
    }
    story.elect(200, 0, 1000);
    for index in 1..3 {
        story.log_event(300, index, Event::Following);
    }
    story
}

impl Story {
    pub(super) fn log_event(&mut self, at: u64, index: usize, event: Event) {
        self.apply_event(index, ms(at), event);
    }

    pub(super) fn elect(&mut self, at: u64, index: usize, term: u64) {
        self.log_event(at, index, Event::Elected { term, valid_for_ms: 1_700 });
    }

    pub(super) fn renew(&mut self, at: u64, index: usize, term: u64) {
        self.log_event(at, index, Event::Renewed { term });
    }

    pub(super) fn start_turn(&mut self, at: u64, index: usize, term: u64) {
        let slot = format!("2000-01-01T00:00:{:02}Z", at / 1000);
        self.log_event(at, index, Event::TurnStarted { term, slot });
    }

    /// Ends the turn that began at `began`.
    pub(super) fn end_turn(&mut self, at: u64, index: usize, term: u64, began: u64, outcome: &str) {
        let slot = format!("2000-01-01T00:00:{:02}Z", began / 1000);
        let outcome = outcome.to_owned();
        let event = Event::TurnEnded { term, slot, outcome, detail: None };
        self.log_event(at, index, event);
    }

    /// Runs a successful turn of 0.6 s.
    pub(super) fn run_turn(&mut self, at: u64, index: usize, term: u64) {
        self.start_turn(at, index, term);
        self.end_turn(at + 600, index, term, at, "succeeded");
    }

    pub(super) fn stand_down(&mut self, at: u64, index: usize, term: u64, reason: &str) {
        let reason = reason.to_owned();
        self.log_event(at, index, Event::StoodDown { term, reason });
    }

    pub(super) fn die(&mut self, at: u64, index: usize) {
        self.process_ended(index, ms(at), "exit status: 1");
    }

    pub(super) fn takeovers(&self) -> Vec<(Action, Duration)> {
        (0..self.terms.len()).filter_map(|term| self.takeover(term)).collect()
    }

    /// Returns the text of the last note.
    pub(super) fn last_note(&self) -> &str {
        self.notes.last().map_or("", |note| &note.text)
    }

    pub(super) fn problems(&self) -> usize {
        self.notes.iter().filter(|note| note.is_problem).count()
    }

    /// Returns the number of candidates that ended unexpectedly.
    pub(super) fn lost(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.state == State::Lost).count()
    }
}
