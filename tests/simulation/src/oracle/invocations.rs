//! Checks that an invocation that reports success finished its turn before its lease expired.
//!
//! Only the invocation's own clock counts: no supervisor stops its turn.

use super::super::fault::Step;
use super::super::history::{History, HistoryEvent, RequestIndex};
use super::{Violation, violation};

/// Checks each result that an invocation reports.
pub fn check_invocations(history: &History) -> Vec<Violation> {
    let mut sent_at = vec![0; history.requests.len()];
    let mut acquired_at = vec![None; history.lives.len()];
    let mut ended_at = vec![0; history.lives.len()];
    let mut violations = Vec::new();
    for entry in &history.entries {
        match entry.event {
            HistoryEvent::Sent(number) => sent_at[number] = entry.at,
            HistoryEvent::Handled(number, _) => {
                let number: RequestIndex = number;
                if let Some(request) = history.accepted_request(entry.event)
                    && request.step == Step::Acquire
                {
                    acquired_at[request.candidate] = Some(sent_at[number]);
                }
            }
            HistoryEvent::TurnOver(candidate, _) => ended_at[candidate] = entry.at,
            HistoryEvent::InvocationReturned(candidate, true) => {
                let lease = history.lives[candidate].periods.lease;
                let until = acquired_at[candidate].map_or(0, |at| at + lease);
                if ended_at[candidate] > until {
                    let late_by = ended_at[candidate] - until;
                    let message = format!(
                        "c{candidate} answers that its turn succeeded, which ended {late_by} ms after its lease"
                    );
                    violations.push(violation("answer", entry.at, message));
                }
            }
            _ => {}
        }
    }
    violations
}
