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
use super::super::history::{Entry, History, HistoryEvent, Win};
use super::super::world::Millis;
use super::{Violation, dates, violation};

/// Judges each win by the one before.
pub fn check_i2(history: &History) -> Vec<Violation> {
    let wins = history.wins();
    let pairs = wins.windows(2).filter(|pair| pair[1].term <= pair[0].term);
    let violations = pairs.filter(|pair| !is_excused(history, &pair[0], &pair[1]));
    violations
        .map(|pair| {
            let (before, after) = (pair[0].term, pair[1].term);
            violation("I2", pair[1].at, format!("term {after} was won after term {before}"))
        })
        .collect()
}

fn is_excused(history: &History, before: &Win, win: &Win) -> bool {
    if !record_lost_between(history, before.entry, win.entry) {
        return false;
    }
    // What the protocol says beside that: the service's clock went back, and shows less than it did.
    let granted_at = Acquired::from_win(history, win).granted_at;
    if history.is_clock_behind(granted_at) {
        return true;
    }
    let dates_stand = history.reported_time(granted_at) < history.service_time(granted_at);
    let second = |at: Millis| history.reported_time(at) / 1_000_000_000;
    let (earlier, win) = (before.term, win);
    let (before, after) = (Acquired::from_win(history, before), Acquired::from_win(history, win));
    // The one computed its term before it heard that the lease is its own, the other one not before
    // the store gave it out.
    let (computed_second, granted_second) = (second(before.learned_at), second(after.granted_at));
    // A date that differs by much counts when the next one agrees.
    let known_second = dates::estimated_time(history, win.candidate, win.at).map_or(granted_second, |time| time / 1_000_000_000);
    let granted_second = granted_second.min(known_second);
    // It was higher than its time alone made it: each term is higher than the one on record, and the service's
    // clock went back at some time, or terms were won faster than one a second.
    if earlier > computed_second + 2 && granted_second <= earlier {
        return true;
    }
    match (before.had_record, after.had_record) {
        // A date that stands still has no end of its second.
        (false, false) if dates_stand => granted_second <= computed_second + 1,
        (false, false) => false,
        (true, false) => granted_second <= computed_second,
        (_, true) => granted_second <= computed_second + 1,
    }
}

/// How the lease under which a term was won came to its holder.
struct Acquired {
    /// When the store gave it out.
    granted_at: Millis,
    /// When its holder heard of it.
    learned_at: Millis,
    /// There was a record.
    had_record: bool,
}

impl Acquired {
    fn from_win(history: &History, win: &Win) -> Self {
        let before = &history.entries[..win.entry];
        let answer_index = before.iter().rposition(|entry| match entry.event {
            HistoryEvent::Answered(number, answer) => {
                let request = &history.requests[number];
                let is_acquire = (request.step, request.lease) == (Step::Acquire, win.lease);
                is_acquire && matches!(answer.status, 200..=299)
            }
            _ => false,
        });
        let number = answer_index.map(|index| before[index].event);
        let grant_index = before.iter().position(|entry| match (entry.event, number) {
            (HistoryEvent::Handled(handled, _), Some(HistoryEvent::Answered(answered, _))) => handled == answered,
            _ => false,
        });
        let at = |index: Option<usize>| index.map_or(win.at, |index| before[index].at);
        let had_record = record_exists_before(history, grant_index.unwrap_or(win.entry));
        Self { granted_at: at(grant_index), learned_at: at(answer_index), had_record }
    }
}

/// Whether there was a record at an entry.
fn record_exists_before(history: &History, index: usize) -> bool {
    let newest = history.entries[..index].iter().rev().find_map(|entry| match entry.event {
        HistoryEvent::FaultInjected(fault, ..) if fault.loses_record() => {
            Some(matches!(fault, Fault::RestoreRecord | Fault::HostileRecord))
        }
        event => history.accepted_request(event)?.write.as_ref().map(|_| true),
    });
    newest.unwrap_or(history.has_initial_record)
}

/// Whether the record was lost between two entries.
pub fn record_lost_between(history: &History, from: usize, to: usize) -> bool {
    history.entries[from..to]
        .iter()
        .any(|Entry { event, .. }| matches!(event, HistoryEvent::FaultInjected(fault, ..) if fault.loses_record()))
}
