//! An invocation that answers that its turn succeeded was done with it before its lease ran out. By its
//! own clocks only: nothing stops it.

use super::super::fault::Step;
use super::super::history::{History, Number, What};
use super::{Violation, violation};

/// Judges each answer of an invocation.
pub fn of_invocations(history: &History) -> Vec<Violation> {
    let mut sent = vec![0; history.asked.len()];
    let mut acquired = vec![None; history.lives.len()];
    let mut ended = vec![0; history.lives.len()];
    let mut violations = Vec::new();
    for entry in &history.entries {
        match entry.what {
            What::Sent(number) => sent[number] = entry.at,
            What::Handled(number, _) => {
                let number: Number = number;
                if let Some(asked) = history.carried_out(entry.what)
                    && asked.step == Step::Acquire
                {
                    acquired[asked.who] = Some(sent[number]);
                }
            }
            What::TurnOver(who, _) => ended[who] = entry.at,
            What::Returned(who, true) => {
                let lease = history.lives[who].periods.lease;
                let until = acquired[who].map_or(0, |at| at + lease);
                if ended[who] > until {
                    let late = ended[who] - until;
                    let what = format!(
                        "c{who} answers that its turn succeeded, which ended {late} ms after its lease"
                    );
                    violations.push(violation("answer", entry.at, what));
                }
            }
            _ => {}
        }
    }
    violations
}
