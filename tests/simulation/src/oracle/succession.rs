//! I4 (protocol.md §12): a release, or a change to a successor, is only sent once the handler has
//! stopped.
//!
//! No request follows under its lease. The same holds for the last will of a dead process.

use std::collections::BTreeSet;

use super::super::fault::Step;
use super::super::history::{Entry, History, HistoryEvent};
use super::{Violation, violation};

/// Checks each release, and the requests after it.
pub fn check_i4(history: &History) -> Vec<Violation> {
    let mut turn_terms = vec![None; history.lives.len()];
    let mut released = BTreeSet::new();
    let mut released_terms = BTreeSet::new();
    let mut last_win = vec![(None, 0); history.lives.len()];
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        match *event {
            HistoryEvent::TurnBegan { candidate, term, .. } => {
                turn_terms[candidate] = Some(term);
                if released_terms.contains(&(candidate, term)) {
                    let message =
                        format!("c{candidate} begins a turn of term {term} after its release");
                    violations.push(violation("I4", *at, message));
                }
            }
            HistoryEvent::TurnOver(candidate, _) => turn_terms[candidate] = None,
            HistoryEvent::Sent(number) => {
                let request = &history.requests[number];
                let (candidate, Some(lease)) = (request.candidate, request.lease) else { continue };
                if let (Step::Raise, Some(write)) = (request.step, &request.write) {
                    last_win[candidate] = (Some(lease), write.term);
                    // After a record loss, a term may repeat.
                    released_terms.remove(&(candidate, write.term));
                }
                if matches!(request.step, Step::Release | Step::HandOver | Step::Will) {
                    released.insert(lease);
                    if last_win[candidate].0 == Some(lease) {
                        released_terms.insert((candidate, last_win[candidate].1));
                    }
                    if let Some(term) = turn_terms[candidate] {
                        let step = request.step.name();
                        let message =
                            format!("c{candidate} ({step}) while its turn of term {term} runs");
                        violations.push(violation("I4", *at, message));
                    }
                } else if released.contains(&lease) {
                    let step = request.step.name();
                    let message =
                        format!("c{candidate} goes on ({step}) under a lease that it released");
                    violations.push(violation("I4", *at, message));
                }
            }
            _ => {}
        }
    }
    violations
}
