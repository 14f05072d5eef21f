//! I8 (protocol.md §12): a candidate only uses lease ids that it generated, and each id belongs to
//! one candidate.

use std::collections::BTreeMap;

use super::super::fault::Step;
use super::super::history::{Entry, History, HistoryEvent};
use super::{Violation, violation};

/// Checks each request that names a lease.
pub fn check_i8(history: &History) -> Vec<Violation> {
    let mut owners = BTreeMap::new();
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        let HistoryEvent::Sent(number) = *event else { continue };
        let request = &history.requests[number];
        let Some(lease) = request.lease else { continue };
        let owner = match request.step {
            // A successor announces the id under which it will lead. It polls with that id once it
            // is named, perhaps before the announcement.
            Step::Acquire | Step::SideBlob | Step::ReadBack => {
                Some(*owners.entry(lease).or_insert(request.candidate))
            }
            _ => owners.get(&lease).copied(),
        };
        if owner != Some(request.candidate) {
            let (candidate, step) = (request.candidate, request.step.name());
            let message = format!("c{candidate} uses ({step}) a lease id that is not its own");
            violations.push(violation("I8", *at, message));
        }
    }
    violations
}
