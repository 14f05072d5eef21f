//! I2 (protocol.md §12): terms are won in strictly rising order.
//!
//! The protocol has one exception: a lost record that is won again before the service's time has
//! passed the term before. That is ordinarily one second of its clock. The records that the
//! candidates found decide the limit.
//!
//! - Both found none: never. The first one kept the lease until its second was over.
//! - The first one found a record, and waited for nothing: its own second.
//! - The second one found a restored record: the same, and one more second. The first one was ahead
//!   by that second if it had found none.
//! - The first one's term was ahead of its time by more than that: until the service's time has
//!   passed it.

use super::super::fault::{Fault, Step};
use super::super::history::{Entry, History, HistoryEvent, Win};
use super::super::world::Millis;
use super::{Violation, service_time, violation};

/// Checks each win against the one before.
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
    // Another exception of the protocol: the service's clock went back, and shows less than before.
    let granted_at = Acquired::from_win(history, win).granted_at;
    if history.is_clock_behind(granted_at) {
        return true;
    }
    let dates_stand = history.reported_time(granted_at) < history.service_time(granted_at);
    let second = |at: Millis| history.reported_time(at) / 1_000_000_000;
    let (earlier, win) = (before.term, win);
    let (before, after) = (Acquired::from_win(history, before), Acquired::from_win(history, win));
    // The first candidate computed its term before it learned that it has the lease. The second one
    // computed its term after the store granted it.
    let (computed_second, granted_second) = (second(before.learned_at), second(after.granted_at));
    // A date with a large difference counts when the next one agrees.
    let known_second = service_time::estimated_time(history, win.candidate, win.at)
        .map_or(granted_second, |time| time / 1_000_000_000);
    let granted_second = granted_second.min(known_second);
    // The term exceeded its time: each term exceeds the recorded one, and the service's clock went
    // back once, or terms were won faster than one a second.
    if earlier > computed_second + 2 && granted_second <= earlier {
        return true;
    }
    match (before.had_record, after.had_record) {
        // A frozen date has no end of its second.
        (false, false) if dates_stand => granted_second <= computed_second + 1,
        (false, false) => false,
        (true, false) => granted_second <= computed_second,
        (_, true) => granted_second <= computed_second + 1,
    }
}

/// Acquisition of the lease under which a term was won.
struct Acquired {
    /// When the store granted the lease.
    granted_at: Millis,
    /// When its holder learned of it.
    learned_at: Millis,
    /// True if a record existed.
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
            (HistoryEvent::Handled(handled, _), Some(HistoryEvent::Answered(answered, _))) => {
                handled == answered
            }
            _ => false,
        });
        let at = |index: Option<usize>| index.map_or(win.at, |index| before[index].at);
        let had_record = record_exists_before(history, grant_index.unwrap_or(win.entry));
        Self { granted_at: at(grant_index), learned_at: at(answer_index), had_record }
    }
}

/// Returns true if a record existed before an entry.
fn record_exists_before(history: &History, index: usize) -> bool {
    let newest = history.entries[..index].iter().rev().find_map(|entry| match entry.event {
        HistoryEvent::FaultInjected(fault, ..) if fault.loses_record() => {
            Some(matches!(fault, Fault::RestoreRecord | Fault::HostileRecord))
        }
        event => history.accepted_request(event)?.write.as_ref().map(|_| true),
    });
    newest.unwrap_or(history.has_initial_record)
}

/// Returns true if the record was lost between two entries.
pub fn record_lost_between(history: &History, from: usize, to: usize) -> bool {
    history.entries[from..to]
        .iter()
        .any(|Entry { event, .. }| matches!(event, HistoryEvent::FaultInjected(fault, ..) if fault.loses_record()))
}
