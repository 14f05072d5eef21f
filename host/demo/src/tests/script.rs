//! Stories told in a few words. Times are in milliseconds.

use crate::act::Act;
use crate::sink::Sink;
use crate::story::{Event, State, Story};
use std::time::Duration;
use tenure::status::Replacement;

pub(super) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Three candidates, all started; anna leads from 0.2 s on with term 1000, the others follow.
pub(super) fn started() -> Story {
    let replacement = Replacement {
        promise: Some(ms(2_100)),
        lease: ms(60_000),
        poll: ms(4_000),
        supervised: true,
        watched: true,
    };
    let names = ["anna", "ben", "cleo"];
    let mut story = Story::new(&names, replacement, Sink::default());
    for who in 0..3 {
        story.act(ms(0), who, Act::Start);
    }
    story.elects(200, 0, 1000);
    for who in 1..3 {
        story.tells(300, who, Event::Following);
    }
    story
}

impl Story {
    pub(super) fn tells(&mut self, at: u64, who: usize, event: Event) {
        self.event(who, ms(at), event);
    }

    pub(super) fn elects(&mut self, at: u64, who: usize, term: u64) {
        self.tells(at, who, Event::Elected { term, valid_for_ms: 1_700 });
    }

    pub(super) fn renews(&mut self, at: u64, who: usize, term: u64) {
        self.tells(at, who, Event::Renewed { term });
    }

    pub(super) fn begins(&mut self, at: u64, who: usize, term: u64) {
        let slot = format!("2000-01-01T00:00:{:02}Z", at / 1000);
        self.tells(at, who, Event::TurnStarted { term, slot });
    }

    /// The turn that began at `began`.
    pub(super) fn ends(&mut self, at: u64, who: usize, term: u64, began: u64, outcome: &str) {
        let slot = format!("2000-01-01T00:00:{:02}Z", began / 1000);
        let outcome = outcome.to_owned();
        let event = Event::TurnEnded { term, slot, outcome, detail: None };
        self.tells(at, who, event);
    }

    /// A turn of 0.6 s that goes well.
    pub(super) fn runs(&mut self, at: u64, who: usize, term: u64) {
        self.begins(at, who, term);
        self.ends(at + 600, who, term, at, "succeeded");
    }

    pub(super) fn stands_down(&mut self, at: u64, who: usize, term: u64, reason: &str) {
        let reason = reason.to_owned();
        self.tells(at, who, Event::StoodDown { term, reason });
    }

    pub(super) fn dies(&mut self, at: u64, who: usize) {
        self.process_ended(who, ms(at), "exit status: 1");
    }

    pub(super) fn takeovers(&self) -> Vec<(Act, Duration)> {
        (0..self.terms.len()).filter_map(|term| self.takeover(term)).collect()
    }

    /// The text of the last note.
    pub(super) fn said(&self) -> &str {
        self.notes.last().map_or("", |note| &note.text)
    }

    pub(super) fn problems(&self) -> usize {
        self.notes.iter().filter(|note| note.is_problem).count()
    }

    /// The candidates that ended unasked.
    pub(super) fn lost(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.state == State::Lost).count()
    }
}
