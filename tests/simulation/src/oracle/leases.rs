//! I8 (protocol.md §12): nobody acts on a lease id that is not its own, and nobody has an id that another had.

use std::collections::BTreeMap;

use super::super::fault::Step;
use super::super::history::{Entry, History, What};
use super::{Violation, violation};

/// Judges each request that names a lease.
pub fn i8(history: &History) -> Vec<Violation> {
    let mut owners = BTreeMap::new();
    let mut violations = Vec::new();
    for Entry { at, what } in &history.entries {
        let What::Sent(number) = *what else { continue };
        let asked = &history.asked[number];
        let Some(lease) = asked.lease else { continue };
        let owner = match asked.step {
            // A successor tells the id by which it will lead. It polls by it from when it is named, which may be
            // before it could tell.
            Step::Acquire | Step::SideBlob | Step::ReadBack => {
                Some(*owners.entry(lease).or_insert(asked.who))
            }
            _ => owners.get(&lease).copied(),
        };
        if owner != Some(asked.who) {
            let (who, step) = (asked.who, asked.step.name());
            let what = format!("c{who} uses ({step}) a lease id that is not its own");
            violations.push(violation("I8", *at, what));
        }
    }
    violations
}
