//! For tests: stories told in a few words. Times are in milliseconds.

use super::heard::{Event, Heard, What};
use super::story::Story;
use chrono::DateTime;
use std::time::Duration;
use tenure::settings::Replacement;

pub(super) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Three candidates, none of them started.
pub(super) fn story() -> Story {
    let replacement = Replacement {
        promise: Some(ms(2_100)),
        lease: ms(60_000),
        poll: ms(4_000),
        supervised: true,
        watched: true,
    };
    Story::new(DateTime::UNIX_EPOCH, &["anna", "ben", "cleo"], replacement)
}

/// All started; anna leads from 0.2 s on with term 1000, the others follow.
pub(super) fn started() -> Story {
    let mut story = story();
    for who in 0..3 {
        story.start(ms(0), who);
    }
    story.elects(200, 0, 1000);
    for who in 1..3 {
        story.follows(300, who, "anna");
    }
    story
}

impl Story {
    pub(super) fn tells(&mut self, at: u64, who: usize, what: What) {
        let at = DateTime::UNIX_EPOCH + ms(at);
        self.hear(Heard { who, at, what });
    }

    pub(super) fn elects(&mut self, at: u64, who: usize, term: u64) {
        self.tells(at, who, What::Event(Event::Elected { term, valid_for_ms: 1_700 }));
    }

    pub(super) fn renews(&mut self, at: u64, who: usize, term: u64) {
        self.tells(at, who, What::Event(Event::Renewed { term }));
    }

    pub(super) fn follows(&mut self, at: u64, who: usize, leader: &str) {
        let leader = Some(leader.to_owned());
        self.tells(at, who, What::Event(Event::Following { leader }));
    }

    pub(super) fn begins(&mut self, at: u64, who: usize, term: u64) {
        let slot = format!("2000-01-01T00:00:{:02}Z", at / 1000);
        self.tells(at, who, What::Event(Event::TurnStarted { term, slot, past_due: false }));
    }

    /// The turn that began at `began`.
    pub(super) fn ends(&mut self, at: u64, who: usize, term: u64, began: u64, outcome: &str) {
        let slot = format!("2000-01-01T00:00:{:02}Z", began / 1000);
        let outcome = outcome.to_owned();
        let event = Event::TurnEnded { term, slot, outcome, detail: None };
        self.tells(at, who, What::Event(event));
    }

    /// A turn of 0.6 s that goes well.
    pub(super) fn runs(&mut self, at: u64, who: usize, term: u64) {
        self.begins(at, who, term);
        self.ends(at + 600, who, term, at, "succeeded");
    }

    pub(super) fn stands_down(&mut self, at: u64, who: usize, term: u64, reason: &str) {
        let reason = reason.to_owned();
        self.tells(at, who, What::Event(Event::StoodDown { term, reason }));
    }

    pub(super) fn dies(&mut self, at: u64, who: usize) {
        self.tells(at, who, What::Ended("exit status: 1".to_owned()));
    }

    /// The text of the last note.
    pub(super) fn said(&self) -> &str {
        self.notes.last().map_or("", |note| &note.text)
    }
}
