//! Checks that records keep the fields of other versions.

use super::super::fault::Kind;
use super::super::history::{History, HistoryEvent};
use super::{Violation, violation};

/// Checks each record against the one that it replaced.
pub fn check_foreign_fields(history: &History) -> Vec<Violation> {
    let mut had_field = false;
    let mut violations = Vec::new();
    for entry in &history.entries {
        if matches!(entry.event, HistoryEvent::FaultInjected(fault, ..) if fault.kind() == Kind::Outsider)
        {
            had_field = false;
        }
        let Some(request) = history.accepted_request(entry.event) else { continue };
        let Some(write) = &request.write else { continue };
        if had_field && !write.has_later_field {
            let message = format!("c{} loses a field that it does not know", request.candidate);
            violations.push(violation("record", entry.at, message));
        }
        had_field = write.has_later_field;
    }
    violations
}
