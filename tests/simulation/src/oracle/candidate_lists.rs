//! The list of candidates (protocol.md §7.4): each writer keeps the other candidates on it.

use super::super::fault::Fault;
use super::super::history::{History, HistoryEvent};
use super::{Violation, violation};

/// Checks each list against the one that it replaced. No schedule is long enough for a name to
/// expire.
pub fn check_candidate_lists(history: &History) -> Vec<Violation> {
    let (mut listed, mut hostile_until) = (0, None);
    let mut violations = Vec::new();
    for entry in &history.entries {
        if let HistoryEvent::FaultInjected(Fault::HostileSideBlobs, _, until) = entry.event {
            // Foreign writers keep no candidate on it.
            (listed, hostile_until) = (0, hostile_until.max(Some(until)));
        }
        let Some(request) = history.accepted_request(entry.event) else { continue };
        let Some(list) = request.candidate_list else { continue };
        if !list.is_first && listed & !list.machines != 0 {
            let message = format!("c{} forgets another candidate", request.candidate);
            violations.push(violation("list", entry.at, message));
        }
        let is_trusted = hostile_until.is_none_or(|until| entry.at > until);
        listed = if is_trusted { list.machines } else { 0 };
    }
    violations
}
