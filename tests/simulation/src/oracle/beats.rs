//! I9 (protocol.md §12): nobody leads under a lease before a write under it is on record, and no lease is broken
//! whose holder still works, nor ended by a last will.
//!
//! Beats end a leadership before its lease does. So it is judged where that can go wrong: when the store breaks a
//! lease for a follower, and when a step tells its host that it leads. And who lost a race waits for a whole promise before it
//! breaks another lease, and so does everybody after the answer that showed a beat first: the winner has to have the time for its first write. No two tries of a leader that beats
//! have the same number: a late one would be taken for another one.

use std::collections::BTreeSet;

use super::super::fault::Step;
use super::super::history::{Answer, Entry, History, HistoryEvent};
use super::super::world::Millis;
use super::{Violation, violation};

/// Nobody beats, promises or breaks a lease on an account that keeps every version of a blob (protocol.md §13).
pub fn check_versions(history: &History) -> Vec<Violation> {
    if !history.versioned {
        return Vec::new();
    }
    let entries = history.entries.iter();
    entries
        .filter_map(|Entry { at, event }| {
            let HistoryEvent::Sent(number) = *event else { return None };
            let request = &history.requests[number];
            let promises = request.write.as_ref().is_some_and(|write| write.promise > 0);
            let is_failover = promises || matches!(request.step, Step::Beat | Step::Break);
            let message =
                format!("c{} takes part in failover, though the account keeps versions", request.candidate);
            is_failover.then(|| violation("versions", *at, message))
        })
        .collect()
}

/// Judges the beginnings of work, and the breaks.
pub fn check_i9(history: &History) -> Vec<Violation> {
    let lives = history.lives.len();
    // The newest lease of each candidate, and whether the store took a write under it.
    let mut lease: Vec<Option<u128>> = vec![None; lives];
    let mut has_written = vec![false; lives];
    // The lease by which the newest term was raised, and who works.
    let mut holder = None;
    let mut working_terms: Vec<Option<u64>> = vec![None; lives];
    // The newest promise on record; when each candidate lost a race, and the shortest promise since then.
    let mut promise = 0;
    let mut lost_race: Vec<Option<(Millis, Millis)>> = vec![None; lives];
    let mut beat_numbers = BTreeSet::new();
    // The writes that the store took; for each look, how many there were and the promise; and of each candidate, how many the
    // newest answer showed, since when, and that promise.
    let (mut write_count, mut polls) = (0, vec![None; history.requests.len()]);
    let mut last_poll: Vec<(u64, Millis, Millis)> = vec![(0, 0, 0); lives];
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        match *event {
            HistoryEvent::Handled(number, _) => {
                // The answer is that to the first copy of it.
                polls[number].get_or_insert((write_count, promise));
                let Some(request) = history.accepted_request(*event) else { continue };
                let candidate = request.candidate;
                if let Some(write) = &request.write {
                    promise = write.promise;
                    write_count += 1;
                    lost_race.iter_mut().flatten().for_each(|lost_race| lost_race.1 = lost_race.1.min(promise));
                }
                match (request.step, &request.write) {
                    (Step::Acquire, _) if lease[candidate] != request.lease => {
                        (lease[candidate], has_written[candidate]) = (request.lease, false);
                        // The lease of whoever wrote before has ended: that is judged where it ended.
                        holder = None;
                    }
                    (_, Some(_)) if request.lease == lease[candidate] => {
                        (has_written[candidate], holder) = (true, Some(candidate));
                    }
                    (Step::Break | Step::Will, _) => {
                        let working = holder.take().filter(|leader| working_terms[*leader].is_some());
                        if let Some(leader) = working {
                            let message = format!("c{candidate} ends the lease of c{leader}, which works");
                            violations.push(violation("I9", *at, message));
                        }
                    }
                    _ => {}
                }
            }
            HistoryEvent::Answered(number, Answer { status: 200, .. })
                if history.requests[number].step == Step::Poll =>
            {
                let request = &history.requests[number];
                let last_poll = &mut last_poll[request.candidate];
                // Some answers are not the store's: they tell no time of the service.
                if let Some((write_count, promise)) = polls[number]
                    && request.reported_time.is_some()
                    && last_poll.0 != write_count
                {
                    *last_poll = (write_count, *at, promise);
                }
            }
            HistoryEvent::Answered(number, Answer { status: 409 | 412, .. })
                if matches!(history.requests[number].step, Step::Acquire | Step::Break) =>
            {
                lost_race[history.requests[number].candidate] = Some((*at, promise));
            }
            // It was certainly not applied, and is sent again as it was, with another token.
            HistoryEvent::Answered(number, Answer { status: 401, .. }) => {
                let request = &history.requests[number];
                let promised_write = request.write.as_ref().filter(|write| write.promise > 0);
                if let Some((write, lease)) = promised_write.zip(request.lease) {
                    beat_numbers.remove(&(lease, write.beat));
                }
            }
            HistoryEvent::Sent(number) if history.requests[number].step == Step::Break => {
                let candidate = history.requests[number].candidate;
                // On a clock that is 1 % fast.
                let is_too_early = |(lost_race, promise)| *at < lost_race + promise - promise / 50;
                let (_, since, promise) = last_poll[candidate];
                if is_too_early((since, promise)) {
                    let message = format!("c{candidate} breaks a lease before the promise has ended");
                    violations.push(violation("I9", *at, message));
                }
                if lost_race[candidate].is_some_and(is_too_early) {
                    let message = format!("c{candidate} breaks a lease soon after it lost a race");
                    violations.push(violation("I9", *at, message));
                }
            }
            HistoryEvent::Sent(number) => {
                let request = &history.requests[number];
                let promised_write = request.write.as_ref().filter(|write| write.promise > 0);
                if let Some((write, lease)) = promised_write.zip(request.lease)
                    && !beat_numbers.insert((lease, write.beat))
                {
                    let message = format!("c{} beats twice with the number {}", request.candidate, write.beat);
                    violations.push(violation("I9", *at, message));
                }
            }
            HistoryEvent::BecameLeader(candidate) if !has_written[candidate] => {
                let message = format!("c{candidate} leads under a lease that it wrote nothing under");
                violations.push(violation("I9", *at, message));
            }
            HistoryEvent::FaultInjected(fault, ..) if fault.loses_record() => {
                // What the record promises now nobody wrote: it binds nobody until somebody writes again.
                promise = 0;
                write_count += 1;
                lost_race.iter_mut().flatten().for_each(|lost_race| lost_race.1 = 0);
            }
            HistoryEvent::WorkStarted(candidate, term) => working_terms[candidate] = Some(term),
            HistoryEvent::WorkStopped(candidate, _) => working_terms[candidate] = None,
            _ => {}
        }
    }
    violations
}
