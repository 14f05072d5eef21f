//! The list of candidates (protocol.md §7.4): whoever writes it keeps the others on it.

use super::super::fault::Fault;
use super::super::history::{History, What};
use super::{Violation, violation};

/// Judges each list by the one that it replaced. None lasts long enough for a name to be left out for its age.
pub fn kept(history: &History) -> Vec<Violation> {
    let (mut there, mut hostile_until) = (0, None);
    let mut violations = Vec::new();
    for entry in &history.entries {
        if let What::Struck(Fault::HostileSideBlobs, _, until) = entry.what {
            // Who writes there keeps nobody on it.
            (there, hostile_until) = (0, hostile_until.max(Some(until)));
        }
        let Some(asked) = history.carried_out(entry.what) else { continue };
        let Some(lists) = asked.lists else { continue };
        if !lists.is_first && there & !lists.machines != 0 {
            let what = format!("c{} forgets another candidate", asked.who);
            violations.push(violation("list", entry.at, what));
        }
        let is_known = hostile_until.is_none_or(|until| entry.at > until);
        there = if is_known { lists.machines } else { 0 };
    }
    violations
}
