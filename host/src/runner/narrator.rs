//! Turns reports into events: tells what changed, and only that.

use super::event::{Event, milliseconds};
use crate::contract::{Incumbent, Report, Role, class_name, reason_name};
use std::time::Duration;

/// Remembers what was told.
#[derive(Default)]
pub(super) struct Narrator {
    leading: Option<u64>,
    following: Option<(Option<String>, Option<u64>)>,
}

impl Narrator {
    /// Tells of a report whose instant was `ago` before now.
    pub(super) fn tell(&mut self, report: &Report, ago: Duration, events: &dyn Fn(Event)) {
        for problem in &report.problems {
            events(Event::Problem {
                class: class_name(problem.class),
                detail: problem.detail.clone(),
            });
        }
        if let Some(ending) = &report.ending {
            self.leading = None;
            events(Event::StoodDown { term: ending.term, reason: reason_name(ending.reason) });
        }
        match &report.role {
            Role::Leading(leadership) => {
                self.following = None;
                let (term, left) = (leadership.term, Duration::from_nanos(leadership.valid_for));
                let valid_for_ms = milliseconds(left.saturating_sub(ago));
                if self.leading.replace(term) != Some(term) {
                    events(Event::Elected { term, valid_for_ms });
                }
                if report.renewed {
                    events(Event::Renewed { term, valid_for_ms });
                }
            }
            Role::Following(incumbent) => self.follow(incumbent.as_ref(), events),
            Role::Undecided | Role::Left => {}
        }
    }

    fn follow(&mut self, incumbent: Option<&Incumbent>, events: &dyn Fn(Event)) {
        let leader = incumbent.map(|incumbent| incumbent.name.clone());
        let term = incumbent.map(|incumbent| incumbent.term);
        let now = (leader.clone(), term);
        if self.following.as_ref() != Some(&now) {
            self.following = Some(now);
            events(Event::Following { leader, term });
        }
    }

    /// The candidate lost its state, and its leadership with it.
    pub(super) fn forget(&mut self, events: &dyn Fn(Event)) {
        self.following = None;
        if let Some(term) = self.leading.take() {
            events(Event::StoodDown { term, reason: "component-failed" });
        }
    }
}
