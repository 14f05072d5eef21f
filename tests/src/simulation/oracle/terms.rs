//! I2: terms are won in strictly rising order.
//!
//! The protocol's one exception: a record that is lost and won again within one second of the
//! service's clock, which counts where the lease is acquired: the term may be raised later. A
//! second is waited out under the lease, so that it takes up to three. Or the service's clock went
//! back, and shows less than it did.

use super::super::fault::Step;
use super::super::history::{Entry, History, What, Win};
use super::super::world::Millis;
use super::{Violation, violation};

const AGAIN: Millis = 3_000;

/// Judges each win by the one before.
pub fn i2(history: &History) -> Vec<Violation> {
    let wins = history.wins();
    let pairs = wins.windows(2).filter(|pair| pair[1].term <= pair[0].term);
    let broken = pairs.filter(|pair| {
        let lost = lost_between(history, pair[0].entry, pair[1].entry);
        let acquired = acquired(history, &pair[1]);
        !(lost && (acquired <= pair[0].at + AGAIN || history.is_behind(acquired)))
    });
    broken
        .map(|pair| {
            let (before, after) = (pair[0].term, pair[1].term);
            violation("I2", pair[1].at, format!("term {after} was won after term {before}"))
        })
        .collect()
}

/// When the store gave out the lease under which a term was won.
fn acquired(history: &History, win: &Win) -> Millis {
    let given = history.entries[..win.entry].iter().find(|entry| {
        let asked = history.carried_out(entry.what);
        asked.is_some_and(|asked| asked.step == Step::Acquire && asked.lease == win.lease)
    });
    given.map_or(win.at, |entry| entry.at)
}

/// Whether the record was lost between two entries.
pub fn lost_between(history: &History, from: usize, to: usize) -> bool {
    history.entries[from..to]
        .iter()
        .any(|Entry { what, .. }| matches!(what, What::Struck(fault, ..) if fault.loses_record()))
}
