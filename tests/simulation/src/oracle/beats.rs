//! I9 (protocol.md §12): a candidate leads only after a write under its lease is recorded.
//!
//! A lease is neither broken nor ended by a last will while its holder still works.
//!
//! Beats end a leadership before its lease does. So the check runs where that can fail: when the
//! store breaks a lease for a follower, and when a step reports that its candidate leads.
//!
//! A candidate that lost a race waits for a whole promise before it breaks another lease. So does
//! every candidate after the response that first showed a beat. The winner needs that time for its
//! first write.
//!
//! Two attempts of a beating leader never have the same number: a late one would be mistaken for
//! another.

use std::collections::BTreeSet;

use super::super::fault::Step;
use super::super::history::{Answer, Entry, History, HistoryEvent};
use super::super::world::Millis;
use super::{Violation, violation};

/// Checks that no candidate beats, promises or breaks a lease on an account that keeps every
/// version of a blob (protocol.md §13).
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
            let message = format!(
                "c{} takes part in failover, though the account keeps versions",
                request.candidate
            );
            is_failover.then(|| violation("versions", *at, message))
        })
        .collect()
}

/// Checks the starts of work, and the broken leases.
pub fn check_i9(history: &History) -> Vec<Violation> {
    let lives = history.lives.len();
    // The newest lease of each candidate, and whether the store accepted a write under it.
    let mut lease: Vec<Option<u128>> = vec![None; lives];
    let mut has_written = vec![false; lives];
    // The lease under which the newest term was raised, and the candidates that work.
    let mut holder = None;
    let mut working_terms: Vec<Option<u64>> = vec![None; lives];
    // The newest recorded promise. For each candidate: when it lost a race, and the shortest
    // promise since then.
    let mut promise = 0;
    let mut lost_race: Vec<Option<(Millis, Millis)>> = vec![None; lives];
    let mut beat_numbers = BTreeSet::new();
    // The number of writes that the store accepted. For each poll: that number and the promise. For
    // each candidate: the number in its newest response, since when, and the promise.
    let (mut write_count, mut polls) = (0, vec![None; history.requests.len()]);
    let mut last_poll: Vec<(u64, Millis, Millis)> = vec![(0, 0, 0); lives];
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        match *event {
            HistoryEvent::Handled(number, _) => {
                // The response belongs to the first copy of the request.
                polls[number].get_or_insert((write_count, promise));
                let Some(request) = history.accepted_request(*event) else { continue };
                let candidate = request.candidate;
                if let Some(write) = &request.write {
                    promise = write.promise;
                    write_count += 1;
                    lost_race
                        .iter_mut()
                        .flatten()
                        .for_each(|lost_race| lost_race.1 = lost_race.1.min(promise));
                }
                match (request.step, &request.write) {
                    (Step::Acquire, _) if lease[candidate] != request.lease => {
                        (lease[candidate], has_written[candidate]) = (request.lease, false);
                        // The previous writer's lease has ended, which is checked where it ended.
                        holder = None;
                    }
                    (_, Some(_)) if request.lease == lease[candidate] => {
                        (has_written[candidate], holder) = (true, Some(candidate));
                    }
                    (Step::Break | Step::Will, _) => {
                        let working =
                            holder.take().filter(|leader| working_terms[*leader].is_some());
                        if let Some(leader) = working {
                            let message =
                                format!("c{candidate} ends the lease of c{leader}, which works");
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
                // Responses without the service's time are not from the store.
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
            // The write was certainly not applied. It is sent again unchanged with another token.
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
                    let message =
                        format!("c{candidate} breaks a lease before the promise has ended");
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
                    let message = format!(
                        "c{} beats twice with the number {}",
                        request.candidate, write.beat
                    );
                    violations.push(violation("I9", *at, message));
                }
            }
            HistoryEvent::BecameLeader(candidate) if !has_written[candidate] => {
                let message =
                    format!("c{candidate} leads under a lease that it wrote nothing under");
                violations.push(violation("I9", *at, message));
            }
            HistoryEvent::FaultInjected(fault, ..) if fault.loses_record() => {
                // No candidate wrote the promise that the record shows now. It binds no candidate
                // until the next write.
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
