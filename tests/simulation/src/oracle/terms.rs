//! I2 (protocol.md §12): terms are won in strictly rising order.
//!
//! The protocol's one exception: a record that is lost, and won again before the service's time has passed
//! the term before; ordinarily one second of its clock. What a candidate found there decides how near that may be.
//!
//! - Both found none: never. The first one kept the lease until its second was over.
//! - The first one found a record, and waited for nothing: its own second.
//! - The second one found what somebody had put back: the same, and one second more, by which the
//!   first one was ahead if it had found none.
//! - The first one's term was ahead of its time by more than that: until the service's time has passed it.

use super::super::fault::{Fault, Step};
use super::super::history::{Entry, History, What, Win};
use super::super::world::Millis;
use super::{Violation, dates, violation};

/// Judges each win by the one before.
pub fn i2(history: &History) -> Vec<Violation> {
    let wins = history.wins();
    let pairs = wins.windows(2).filter(|pair| pair[1].term <= pair[0].term);
    let broken = pairs.filter(|pair| !is_excused(history, &pair[0], &pair[1]));
    broken
        .map(|pair| {
            let (before, after) = (pair[0].term, pair[1].term);
            violation("I2", pair[1].at, format!("term {after} was won after term {before}"))
        })
        .collect()
}

fn is_excused(history: &History, before: &Win, after: &Win) -> bool {
    if !lost_between(history, before.entry, after.entry) {
        return false;
    }
    // What the protocol says beside that: the service's clock went back, and shows less than it did.
    let given = Acquired::of(history, after).given;
    if history.is_behind(given) {
        return true;
    }
    let stands = history.told_time(given) < history.service_time(given);
    let second = |at: Millis| history.told_time(at) / 1_000_000_000;
    let (earlier, win) = (before.term, after);
    let (before, after) = (Acquired::of(history, before), Acquired::of(history, after));
    // The one computed its term before it heard that the lease is its own, the other one not before
    // the store gave it out.
    let (computed, given) = (second(before.heard), second(after.given));
    // A date that differs by much counts when the next one agrees.
    let known = dates::told(history, win.who, win.at).map_or(given, |time| time / 1_000_000_000);
    let given = given.min(known);
    // It was higher than its time alone made it: each term is higher than the one on record, and the service's
    // clock went back at some time, or terms were won faster than one a second.
    if earlier > computed + 2 && given <= earlier {
        return true;
    }
    match (before.found, after.found) {
        // A date that stands still has no end of its second.
        (false, false) if stands => given <= computed + 1,
        (false, false) => false,
        (true, false) => given <= computed,
        (_, true) => given <= computed + 1,
    }
}

/// How the lease under which a term was won came to its holder.
struct Acquired {
    /// When the store gave it out.
    given: Millis,
    /// When its holder heard of it.
    heard: Millis,
    /// There was a record.
    found: bool,
}

impl Acquired {
    fn of(history: &History, win: &Win) -> Self {
        let before = &history.entries[..win.entry];
        let heard = before.iter().rposition(|entry| match entry.what {
            What::Answered(number, answer) => {
                let asked = &history.asked[number];
                let acquires = (asked.step, asked.lease) == (Step::Acquire, win.lease);
                acquires && matches!(answer.status, 200..=299)
            }
            _ => false,
        });
        let number = heard.map(|index| before[index].what);
        let given = before.iter().position(|entry| match (entry.what, number) {
            (What::Handled(one, _), Some(What::Answered(other, _))) => one == other,
            _ => false,
        });
        let at = |index: Option<usize>| index.map_or(win.at, |index| before[index].at);
        let found = found_record(history, given.unwrap_or(win.entry));
        Self { given: at(given), heard: at(heard), found }
    }
}

/// Whether there was a record at an entry.
fn found_record(history: &History, index: usize) -> bool {
    let newest = history.entries[..index].iter().rev().find_map(|entry| match entry.what {
        What::Struck(fault, ..) if fault.loses_record() => {
            Some(matches!(fault, Fault::RestoreRecord | Fault::HostileRecord))
        }
        what => history.carried_out(what)?.write.as_ref().map(|_| true),
    });
    newest.unwrap_or(history.begins_with_record)
}

/// Whether the record was lost between two entries.
pub fn lost_between(history: &History, from: usize, to: usize) -> bool {
    history.entries[from..to]
        .iter()
        .any(|Entry { what, .. }| matches!(what, What::Struck(fault, ..) if fault.loses_record()))
}
