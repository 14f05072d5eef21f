//! Turns reports into events: tells what changed, and only that.

use super::event::{Class, Event, Reason};
use crate::status::Outlook;
use std::time::Duration;
use tenure_core::{ExchangeResult, Incumbent, Report, RequestKind, Role, Timestamp, Turns};

/// Remembers what was told.
#[derive(Default)]
pub(super) struct Narrator {
    leading: Option<u64>,
    following: Option<(Option<String>, Option<u64>)>,
    /// It was told that this candidate is not on the list of candidates.
    unlisted: bool,
}

/// The requests about the list of candidates.
const OF_LIST: [RequestKind; 2] = [RequestKind::ReadCandidates, RequestKind::WriteCandidates];

/// What is told where they are not permitted.
const UNLISTED: &str = "this candidate is missing from the list of candidates, since its credential may not read and \
                        write beside the election's blob; nothing else needs that list";

impl Narrator {
    /// Tells of a report whose instant was `ago` before `now`, which is the service's time. `turns` is what is known
    /// of the election's.
    pub(super) fn tell(
        &mut self,
        report: &Report,
        turns: Option<&Turns>,
        now: Timestamp,
        ago: Duration,
        events: &dyn Fn(Event),
    ) {
        for problem in &report.problems {
            events(Event::Problem {
                class: Class::Election(problem.class),
                detail: problem.detail.clone(),
            });
        }
        let refused = report.exchanges.iter().any(|exchange| {
            exchange.result == ExchangeResult::Refused && OF_LIST.contains(&exchange.what)
        });
        if refused && !std::mem::replace(&mut self.unlisted, true) {
            events(Event::Note { detail: UNLISTED.to_owned() });
        }
        if let Some(ending) = &report.ending {
            self.leading = None;
            let reason = Reason::Election(ending.reason);
            events(Event::StoodDown { term: ending.term, reason });
        }
        match &report.role {
            Role::Leading(leadership) => {
                self.following = None;
                let (term, left) = (leadership.term, leadership.valid_for);
                let valid_for = left.saturating_sub(ago);
                if self.leading.replace(term) != Some(term) {
                    let next_turn = turns.and_then(|turns| Outlook::at(now, turns).next_turn);
                    events(Event::Elected { term, valid_for, next_turn });
                }
                if report.renewed {
                    events(Event::Renewed { term, valid_for });
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
            events(Event::StoodDown { term, reason: Reason::ComponentFailed });
        }
    }
}
