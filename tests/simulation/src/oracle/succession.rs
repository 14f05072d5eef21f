//! I4 (protocol.md §12): a release, or a change to a successor, is sent only after the handler was
//! seen stopped, and nothing is done under its lease after it. So is the last will of a process that died.

use std::collections::BTreeSet;

use super::super::fault::Step;
use super::super::history::{Entry, History, What};
use super::{Violation, violation};

/// Judges each release, and what follows it.
pub fn i4(history: &History) -> Vec<Violation> {
    let mut turns = vec![None; history.lives.len()];
    let mut released = BTreeSet::new();
    let mut terms = BTreeSet::new();
    let mut won = vec![(None, 0); history.lives.len()];
    let mut violations = Vec::new();
    for Entry { at, what } in &history.entries {
        match *what {
            What::TurnBegan { who, term, .. } => {
                turns[who] = Some(term);
                if terms.contains(&(who, term)) {
                    let what = format!("c{who} begins a turn of term {term} after its release");
                    violations.push(violation("I4", *at, what));
                }
            }
            What::TurnOver(who, _) => turns[who] = None,
            What::Sent(number) => {
                let asked = &history.asked[number];
                let (who, Some(lease)) = (asked.who, asked.lease) else { continue };
                if let (Step::Raise, Some(write)) = (asked.step, &asked.write) {
                    won[who] = (Some(lease), write.term);
                    // Where the record was lost, a term may come again.
                    terms.remove(&(who, write.term));
                }
                if matches!(asked.step, Step::Release | Step::HandOver | Step::Will) {
                    released.insert(lease);
                    if won[who].0 == Some(lease) {
                        terms.insert((who, won[who].1));
                    }
                    if let Some(term) = turns[who] {
                        let step = asked.step.name();
                        let what = format!("c{who} ({step}) while its turn of term {term} runs");
                        violations.push(violation("I4", *at, what));
                    }
                } else if released.contains(&lease) {
                    let step = asked.step.name();
                    let what = format!("c{who} goes on ({step}) under a lease that it released");
                    violations.push(violation("I4", *at, what));
                }
            }
            _ => {}
        }
    }
    violations
}
