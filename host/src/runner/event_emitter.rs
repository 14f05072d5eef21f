//! Converts reports into events, which report only changes.

use super::event::{Event, ProblemKind, StandDownReason};
use crate::status::TurnSummary;
use std::time::Duration;
use tenure_core::{ExchangeResult, Incumbent, Report, RequestKind, Role, Timestamp, Turns};

/// Emits events, and remembers the last ones.
#[derive(Default)]
pub(super) struct EventEmitter {
    leading: Option<u64>,
    following: Option<(Option<String>, Option<u64>)>,
    /// True if a missing entry in the list of candidates was reported.
    is_unlisted: bool,
}

/// Requests about the list of candidates.
const LIST_REQUESTS: [RequestKind; 2] = [RequestKind::ReadCandidates, RequestKind::WriteCandidates];

/// Note for a credential that may not access the list.
const UNLISTED_NOTE: &str = "this candidate is missing from the list of candidates, since its credential may not access blobs \
                        next to the election's blob; nothing else needs that list";

impl EventEmitter {
    /// Emits the events of a report that was taken `age` before `now`, the service's time. `turns`
    /// are the known turns of the election.
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

    /// Ends leadership of a candidate that has lost its state.
    pub(super) fn end_leadership(&mut self, events: &dyn Fn(Event)) {
        self.following = None;
        if let Some(term) = self.leading.take() {
            events(Event::StoodDown { term, reason: StandDownReason::ComponentFailed });
        }
    }
}
