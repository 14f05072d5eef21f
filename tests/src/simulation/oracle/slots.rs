//! I5: no slot has two turns (at-most-once), none runs that was not claimed, none is claimed
//! before its instant, and the record never goes back to an earlier slot.
//!
//! With the record its slots are lost: what was claimed before does not count any more then, also
//! when its turn begins later.

use std::collections::{BTreeMap, BTreeSet};

use super::super::fault::Step;
use super::super::history::{Entry, History, What};
use super::{Violation, violation};

/// Judges claims and turns.
pub fn i5(history: &History) -> Vec<Violation> {
    let (mut lost, mut ran) = (0, BTreeSet::new());
    let mut claimed = BTreeMap::new();
    let mut newest = 0;
    let mut violations = Vec::new();
    for (index, Entry { at, what }) in history.entries.iter().enumerate() {
        match *what {
            What::Struck(fault, ..) if fault.loses_record() => {
                (lost, ran, newest) = (index, BTreeSet::new(), 0);
            }
            What::Sent(number) => {
                let asked = &history.asked[number];
                if let (Step::Claim, Some(write)) = (asked.step, &asked.write)
                    && write.slot > history.epoch + at * 1_000_000
                {
                    let early = (write.slot - history.epoch) / 1_000_000 - at;
                    let what = format!("c{} claims a slot {early} ms before it", asked.who);
                    violations.push(violation("I5", *at, what));
                }
            }
            What::Handled(..) => {
                let Some(asked) = history.carried_out(*what) else { continue };
                let Some(write) = &asked.write else { continue };
                if asked.step == Step::Claim {
                    claimed.insert((asked.who, write.term, write.slot), index);
                }
                if write.slot < newest {
                    let back = (newest - write.slot) / 1_000_000;
                    let what = format!("the record goes back by {back} ms of slots");
                    violations.push(violation("I5", *at, what));
                }
                newest = write.slot;
            }
            What::TurnBegan { who, term, slot } => {
                let seconds = slot / 1_000_000_000;
                let problem = match claimed.get(&(who, term, slot)) {
                    None => "it did not claim",
                    Some(claim) if *claim >= lost && !ran.insert(slot) => "ran before",
                    Some(_) => continue,
                };
                let what = format!("c{who} runs slot {seconds}, which {problem}");
                violations.push(violation("I5", *at, what));
            }
            _ => {}
        }
    }
    violations
}
