//! Record rules: fields of other versions are kept.

use super::super::fault::Kind;
use super::super::history::{History, What};
use super::{Violation, violation};

/// Judges each record by the one that it replaced.
pub fn kept(history: &History) -> Vec<Violation> {
    let mut there = false;
    let mut violations = Vec::new();
    for entry in &history.entries {
        if matches!(entry.what, What::Struck(fault, ..) if fault.kind() == Kind::Outsider) {
            there = false;
        }
        let Some(asked) = history.carried_out(entry.what) else { continue };
        let Some(write) = &asked.write else { continue };
        if there && !write.later {
            let what = format!("c{} loses a field that it does not know", asked.who);
            violations.push(violation("record", entry.at, what));
        }
        there = write.later;
    }
    violations
}
