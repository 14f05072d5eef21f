//! The list of candidates (protocol.md §7.4): whoever writes it keeps the others on it.

use super::super::fault::Fault;
use super::super::history::{History, What};
use super::{Violation, violation};

/// Judges each list by the one that it replaced. None lasts long enough for a name to be left out for its age.
pub fn kept(history: &History) -> Vec<Violation> {
    let (mut there, mut hostile_until) = (0, 0);
    let mut violations = Vec::new();
    for entry in &history.entries {
        if let What::Struck(Fault::HostileSideBlobs, _, until) = entry.what {
            hostile_until = until;
        }
        let Some(asked) = history.carried_out(entry.what) else { continue };
        let Some(lists) = asked.lists else { continue };
        let replaces = !lists.is_first && entry.at > hostile_until;
        if replaces && there & !lists.machines != 0 {
            let what = format!("c{} forgets another candidate", asked.who);
            violations.push(violation("list", entry.at, what));
        }
        there = lists.machines;
    }
    violations
}
