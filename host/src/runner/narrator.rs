//! Turns reports into events: tells what changed, and only that.

use super::event::{ProblemKind, Event, StandDownReason};
use crate::status::TurnSummary;
use std::time::Duration;
use tenure_core::{ExchangeResult, Incumbent, Report, RequestKind, Role, Timestamp, Turns};

/// Remembers what was told.
#[derive(Default)]
pub(super) struct EventEmitter {
    leading: Option<u64>,
    following: Option<(Option<String>, Option<u64>)>,
    /// It was told that this candidate is not on the list of candidates.
    is_unlisted: bool,
}

/// The requests about the list of candidates.
const LIST_REQUESTS: [RequestKind; 2] = [RequestKind::ReadCandidates, RequestKind::WriteCandidates];

/// What is told where they are not permitted.
const UNLISTED_NOTE: &str = "this candidate is missing from the list of candidates, since its credential may not read and \
                        write beside the election's blob; nothing else needs that list";

impl EventEmitter {
    /// Tells of a report whose instant was `ago` before `now`, which is the service's time. `turns` is what is known
    /// of the election's.
    pub(super) fn emit(
        &mut self,
        report: &Report,
        turns: Option<&Turns>,
        now: Timestamp,
        age: Duration,
        events: &dyn Fn(Event),
    ) {
        for problem in &report.problems {
            events(Event::Problem {
                class: ProblemKind::Election(problem.class),
                detail: problem.detail.clone(),
            });
        }
        let is_list_refused = report.exchanges.iter().any(|exchange| {
            exchange.result == ExchangeResult::Refused && LIST_REQUESTS.contains(&exchange.what)
        });
        if is_list_refused && !std::mem::replace(&mut self.is_unlisted, true) {
            events(Event::Note { detail: UNLISTED_NOTE.to_owned() });
        }
        if let Some(ending) = &report.ending {
            self.leading = None;
            let reason = StandDownReason::Election(ending.reason);
            events(Event::StoodDown { term: ending.term, reason });
        }
        match &report.role {
            Role::Leading(leadership) => {
                self.following = None;
                let (term, lease_left) = (leadership.term, leadership.valid_for);
                let valid_for = lease_left.saturating_sub(age);
                if self.leading.replace(term) != Some(term) {
                    let next_turn = turns.and_then(|turns| TurnSummary::new(now, turns).next_turn);
                    events(Event::Elected { term, valid_for, next_turn });
                }
                if report.renewed {
                    events(Event::Renewed { term, valid_for });
                }
            }
            Role::Following(incumbent) => self.emit_following(incumbent.as_ref(), events),
            Role::Undecided | Role::Left => {}
        }
    }

    fn emit_following(&mut self, incumbent: Option<&Incumbent>, events: &dyn Fn(Event)) {
        let leader = incumbent.map(|incumbent| incumbent.name.clone());
        let term = incumbent.map(|incumbent| incumbent.term);
        let current = (leader.clone(), term);
        if self.following.as_ref() != Some(&current) {
            self.following = Some(current);
            events(Event::Following { leader, term });
        }
    }

    /// The candidate lost its state, and its leadership with it.
    pub(super) fn end_leadership(&mut self, events: &dyn Fn(Event)) {
        self.following = None;
        if let Some(term) = self.leading.take() {
            events(Event::StoodDown { term, reason: StandDownReason::ComponentFailed });
        }
    }
}
