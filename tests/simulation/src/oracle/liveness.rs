//! I6 (protocol.md §12): a new leader soon after a loss.
//!
//! Checked if no fault disturbs the other candidates from ten seconds before the loss until a
//! leader is due, and another candidate lives all that time.
//!
//! - Crash: `L + 2 s + Z + poll + 4 round trips`. Z is the delay of a late request that the leader
//!   had sent before.
//! - Crash of a leader that beats, if another candidate can take over before a lease ends: the
//!   recorded promise and a sixteenth of it, two polls, Z as above, and six round trips.
//! - Release, also by a last will (§7.3): `poll + 4 round trips` from when the store accepted it. Z
//!   is 0, because a late request finds the record changed.
//! - Change to a successor: the same. The successor is present, and asks for its lease twice a
//!   second. With long round trips: seven of them and two such pauses. The successor may have asked
//!   just before. It announces itself again (three requests), asks again, acquires and raises the
//!   term.
//! - Release, or change to a successor that lives, if a candidate that may take over gets a hint
//!   (§4.5): a second and eight round trips from then. It may be in the middle of a step.
//! - After the calm a candidate leads, and in the finale each living candidate gets its turn.

use super::super::fault::{Fault, Step};
use super::super::history::{CandidateId, Entry, History, HistoryEvent, SentRequest, Win, Written};
use super::super::plan::MAX_COOL_DOWN;
use super::super::world::Millis;
use super::fault_periods::on_slow_clock;
use super::terms::record_lost_between;
use super::{Violation, violation};

/// Time after a fault in which its effects may last. Pauses between attempts last at most a poll,
/// and lost requests at most their timeout.
const AFTERMATH: Millis = 10_000;

/// Timeout that this assumes.
const ASSUMED_TIMEOUT: Millis = 3_000;

/// Time from a hint to a leader, without the latency.
const HINT_DELAY: Millis = 1_000;

/// Period that limits polls brought forward by hints, on a clock that is 1 % slow.
const MINUTE: Millis = 61_000;

/// Maximum delay of the service in ending a lease (A1).
const MAX_LATE_EXPIRY: Millis = 2_000;

/// Checks each loss of a leader, and the calm.
pub fn check_i6(history: &History) -> Vec<Violation> {
    let wins = history.wins();
    let mut violations = Vec::new();
    for (index, entry) in history.entries.iter().enumerate() {
        let losses = match entry.event {
            HistoryEvent::Killed(candidate) => {
                let crash = crash_loss(history, &wins, index, candidate);
                let failover =
                    crash.as_ref().and_then(|crash| failover_loss(history, &wins, index, crash));
                [crash, failover]
            }
            HistoryEvent::Handled(..) => [release_loss(history, &wins, index), None],
            _ => [None, None],
        };
        for loss in losses.into_iter().flatten() {
            let end = loss.at + loss.allowed;
            let has_winner = wins.iter().any(|win| win.entry > index && win.at <= end);
            if !has_winner && end_of_schedule(history) >= end && is_undisturbed(history, &loss, end)
            {
                let Loss { at, candidate, allowed, cause, .. } = loss;
                let message =
                    format!("no leader {allowed} ms after c{candidate} {cause} at {at} ms");
                violations.push(violation("I6", end, message));
            } else if !matches!(entry.event, HistoryEvent::Killed(_)) {
                violations.extend(check_hint(history, &wins, index, &loss));
            }
        }
    }
    violations.extend(check_leader_after_calm(history, &wins));
    violations
}

struct Loss {
    at: Millis,
    candidate: CandidateId,
    allowed: Millis,
    cause: &'static str,
    /// True if only a candidate that takes over before a lease ends can be fast enough.
    is_failover: bool,
}

/// Returns the candidate that raised the newest term before an entry.
fn leader_at(wins: &[Win], index: usize) -> Option<&Win> {
    wins.iter().take_while(|win| win.entry < index).last()
}

fn crash_loss(
    history: &History,
    wins: &[Win],
    index: usize,
    candidate: CandidateId,
) -> Option<Loss> {
    let at = history.entries[index].at;
    let win = leader_at(wins, index).filter(|win| win.candidate == candidate)?;
    if was_released(history, win, index) || record_lost_between(history, win.entry, index) {
        return None;
    }
    let late = history.entries[index..].iter().filter_map(|entry| match entry.event {
        HistoryEvent::Handled(number, _)
            if history.requests[number].candidate == candidate
                && !matches!(
                    history.requests[number].step,
                    Step::SideBlob | Step::List | Step::Will
                ) =>
        {
            Some(entry.at - at)
        }
        _ => None,
    });
    let late_by = late.max().unwrap_or(0);
    let lease = history.lives[candidate].periods.lease;
    let allowed = lease + MAX_LATE_EXPIRY + late_by + takeover_bound(history);
    Some(Loss { at, candidate, allowed, cause: "was killed", is_failover: false })
}

/// Returns the failover bound after a beating leader was killed, from its recorded promise.
fn failover_loss(history: &History, wins: &[Win], index: usize, crash: &Loss) -> Option<Loss> {
    let candidate = crash.candidate;
    let writes: Vec<_> = history.writes().take_while(|(entry, ..)| *entry < index).collect();
    let poll_interval = history.lives.iter().filter_map(|life| life.periods.failover).max()? / 6;
    let failover_bound =
        |promise| on_slow_clock(promise * 17 / 16 + 2 * poll_interval) + 12 * history.latency;
    // Without earlier beats, or after a gap in which a lease would have been lost, candidates poll
    // rarely until they have seen a beat.
    let is_silent_gap = |pair: &&[(usize, Entry, &SentRequest, &Written)]| {
        matches!(pair, [(_, before, _, written), (_, then, ..)]
            if written.promise == 0 || before.at + failover_bound(written.promise) < then.at)
    };
    let first_beat =
        writes.windows(2).rfind(is_silent_gap).and_then(|pair| pair.last()).or(writes.first());
    let seen_at = first_beat.map_or(0, |(_, entry, ..)| entry.at + takeover_bound(history));
    let seen_at = seen_at.saturating_sub(crash.at);
    let late = crash.allowed
        - history.lives[candidate].periods.lease
        - MAX_LATE_EXPIRY
        - takeover_bound(history);
    let written = writes.last()?;
    let promise = Some(written.3.promise)
        .filter(|promise| *promise > 0 && written.2.candidate == candidate)?;
    // A leader that lost its lease before beats no more, and a broken lease runs out.
    let is_broken_lease =
        |entry: &Entry| matches!(entry.event, HistoryEvent::FaultInjected(Fault::BreakRest, ..));
    let win = leader_at(wins, index)?;
    let is_acquire = |entry: &Entry| {
        let request = history.accepted_request(entry.event);
        request.is_some_and(|request| request.step == Step::Acquire && request.lease == win.lease)
    };
    let since = history.entries[..win.entry].iter().rposition(is_acquire).unwrap_or(win.entry);
    if written.1.at + promise < crash.at
        || history.entries[since..index].iter().any(is_broken_lease)
    {
        return None;
    }
    let allowed = seen_at + failover_bound(promise) + late;
    Some(Loss { allowed, cause: "was killed that beat", is_failover: true, ..*crash })
}

/// Returns the time until the next leader after a lease was released or changed.
fn takeover_bound_after(history: &History, request: &SentRequest, at: Millis) -> Millis {
    let by_successor = on_slow_clock(1_000) + 14 * history.latency;
    match request.step {
        Step::HandOver if !remembers_announcement(history, request.successor_lease, at) => {
            history.lives[request.candidate].periods.lease
                + MAX_LATE_EXPIRY
                + takeover_bound(history)
        }
        Step::HandOver => takeover_bound(history).max(by_successor),
        _ => takeover_bound(history),
    }
}

/// Returns a violation if a lease was given up, a candidate that may take over got a hint, and no
/// leader follows soon.
fn check_hint(history: &History, wins: &[Win], index: usize, loss: &Loss) -> Option<Violation> {
    let HistoryEvent::Handled(number, _) = history.entries[index].event else { return None };
    let request = &history.requests[number];
    let is_change = request.step == Step::HandOver;
    let successor = announcement_of(history, request.successor_lease)
        .map(|number| history.requests[number].candidate);
    if is_change && !remembers_announcement(history, request.successor_lease, loss.at) {
        return None;
    }
    let allowed = HINT_DELAY + 16 * history.latency;
    let next_entries =
        history.entries[index..].iter().take_while(|entry| entry.at <= loss.at + HINT_DELAY);
    let (hint_index, candidate, at) =
        (index..).zip(next_entries).find_map(|(hint_index, entry)| match entry.event {
            HistoryEvent::Hinted(candidate)
                if candidate != loss.candidate && (!is_change || successor == Some(candidate)) =>
            {
                Some((hint_index, candidate, entry.at))
            }
            _ => None,
        })?;
    let end = at + allowed;
    let earlier_hints = hint_times(history, candidate, hint_index)
        .filter(|hint_time| hint_time + MINUTE >= at)
        .count();
    // Each hint may have brought five polls forward; the limit is ten in a minute.
    let is_within_limit = earlier_hints <= 1;
    let is_able = is_alive(history, candidate, loss.at.saturating_sub(AFTERMATH), end)
        && !is_backing_off(history, candidate, loss.at, end);
    let has_winner = wins.iter().any(|win| win.entry > index && win.at <= end);
    let was_ignored = is_within_limit && is_able && !has_winner && end_of_schedule(history) >= end;
    (was_ignored && is_undisturbed(history, loss, end)).then(|| {
        let message = format!(
            "no leader {allowed} ms after c{candidate} heard that c{} {}",
            loss.candidate, loss.cause
        );
        violation("hint", end, message)
    })
}

/// Returns when a candidate could act on each hint before an entry.
///
/// A suspended candidate receives it once it resumes, and polls repeatedly until a poll is
/// answered.
fn hint_times(
    history: &History,
    candidate: CandidateId,
    before: usize,
) -> impl Iterator<Item = Millis> {
    let entries = &history.entries[..before];
    (0..before).filter(move |index| entries[*index].event == HistoryEvent::Hinted(candidate)).map(
        move |index| {
            let was_paused = entries[..index].iter().rev().find_map(|entry| match entry.event {
                HistoryEvent::Paused(paused) if paused == candidate => Some(true),
                HistoryEvent::Resumed(resumed) if resumed == candidate => Some(false),
                _ => None,
            });
            let resumed_entry = entries[index..]
                .iter()
                .find(|entry| entry.event == HistoryEvent::Resumed(candidate));
            let delayed = resumed_entry.filter(|_| was_paused == Some(true));
            let at = delayed.map_or(entries[index].at, |delayed| delayed.at);
            let answered = entries[index..].iter().find(|entry| match entry.event {
                HistoryEvent::Answered(number, _) => {
                    entry.at >= at && history.requests[number].candidate == candidate
                }
                _ => false,
            });
            answered.map_or(at, |answered| answered.at)
        },
    )
}

/// Returns the announcement of a successor with this lease id.
fn announcement_of(history: &History, until: Option<u128>) -> Option<usize> {
    history.requests.iter().position(|request| request.is_announcement && request.lease == until)
}

/// Returns true if the successor that announced this id lives and remembers it.
///
/// A successor that was killed just before, or lost its state, lets the lease that it receives
/// expire.
fn remembers_announcement(history: &History, until: Option<u128>, at: Millis) -> bool {
    let Some(number) = announcement_of(history, until) else { return false };
    let successor = history.requests[number].candidate;
    let since =
        history.entries.iter().skip_while(|entry| entry.event != HistoryEvent::Sent(number));
    !since.take_while(|entry| entry.at <= at).any(|entry| match entry.event {
        HistoryEvent::Killed(ended)
        | HistoryEvent::Left(ended)
        | HistoryEvent::StepFailed(ended) => ended == successor,
        _ => false,
    })
}

/// Returns true if the lease of a win was released or changed before an entry.
fn was_released(history: &History, win: &Win, index: usize) -> bool {
    history.entries[win.entry..index].iter().any(|entry| {
        let request = history.accepted_request(entry.event);
        let gives_lease_up = |step| matches!(step, Step::Release | Step::HandOver | Step::Will);
        request.is_some_and(|request| gives_lease_up(request.step) && request.lease == win.lease)
    })
}

fn release_loss(history: &History, wins: &[Win], index: usize) -> Option<Loss> {
    let entry = history.entries[index];
    let request = history.accepted_request(entry.event)?;
    let cause = match request.step {
        Step::Release => "released",
        Step::HandOver => "handed over",
        Step::Will => "left a last will",
        _ => return None,
    };
    let win = leader_at(wins, index).filter(|win| win.lease == request.lease)?;
    // A duplicate takes no lease from any candidate.
    if record_lost_between(history, win.entry, index) || was_released(history, win, index) {
        return None;
    }
    let allowed = takeover_bound_after(history, request, entry.at);
    Some(Loss { at: entry.at, candidate: request.candidate, allowed, cause, is_failover: false })
}

/// Returns the time of a poll on a clock that is 1 % slow, and four round trips.
fn takeover_bound(history: &History) -> Millis {
    let poll = history.lives.iter().map(|life| life.periods.poll).max().unwrap_or(0);
    poll + poll / 50 + 8 * history.latency
}

/// Returns true if no other fault occurred meanwhile, and a candidate was present to take over.
fn is_undisturbed(history: &History, loss: &Loss, end: Millis) -> bool {
    let timeout = history.lives.iter().map(|life| life.periods.timeout).max().unwrap_or(0);
    let from = loss.at.saturating_sub(AFTERMATH + timeout.saturating_sub(ASSUMED_TIMEOUT));
    // The old leader contends again. If slow round trips make it the first, the other candidates
    // wait for it.
    let quick_until = end.saturating_sub(4 * history.latency);
    let mut delayed =
        history.entries.iter().filter(|entry| entry.at > loss.at && entry.at <= quick_until);
    let is_first_again = delayed.find_map(|entry| {
        let acquired = history.accepted_request(entry.event)?;
        (acquired.step == Step::Acquire).then_some(acquired.candidate == loss.candidate)
    });
    let is_disturbed = history.entries.iter().any(|Entry { at, event }| match *event {
        // Earlier faults of the old leader do not prevent a takeover, except these slow round
        // trips. Its later faults may.
        HistoryEvent::FaultInjected(fault, candidate, until) => {
            let is_slow_network =
                fault == Fault::SlowTrips && until > loss.at && is_first_again == Some(true);
            let before = candidate == Some(loss.candidate) && *at <= loss.at && !is_slow_network;
            !before && *at <= end && until >= from
        }
        _ => false,
    });
    let can_take_over = |candidate: CandidateId| {
        let is_fast = history.lives[candidate].periods.failover.is_some();
        (is_fast || !loss.is_failover)
            && is_alive(history, candidate, from, end)
            && !is_backing_off(history, candidate, loss.at, end)
    };
    !is_disturbed
        && (0..history.lives.len())
            .any(|candidate| candidate != loss.candidate && can_take_over(candidate))
}

/// Returns true if a candidate gave up its own leadership so recently that it leaves this one to
/// other candidates.
///
/// A candidate whose lease was taken before it led also gives up.
fn is_backing_off(history: &History, candidate: CandidateId, at: Millis, until: Millis) -> bool {
    let backoff = on_slow_clock(2 * history.lives[candidate].periods.poll);
    let wins = history.wins();
    history.entries.iter().take_while(|entry| entry.at <= until).any(|entry| {
        let HistoryEvent::Sent(number) = entry.event else { return false };
        let request = &history.requests[number];
        // A candidate that could not raise its term backs off longer each time.
        let has_led = || wins.iter().any(|win| win.lease == request.lease);
        request.candidate == candidate
            && matches!(request.step, Step::Release | Step::HandOver)
            && entry.at + if has_led() { backoff } else { MAX_COOL_DOWN } >= at
    })
}

/// Returns true if a candidate lives all that time, and failed work does not keep it from
/// contending.
fn is_alive(history: &History, candidate: CandidateId, from: Millis, until: Millis) -> bool {
    let mut is_alive = false;
    for Entry { at, event } in &history.entries {
        match *event {
            HistoryEvent::Started(started) if started == candidate => {
                is_alive = *at <= from;
            }
            HistoryEvent::TurnFailed(failed)
                if failed == candidate
                    && *at <= until
                    && at + MAX_COOL_DOWN + takeover_bound(history) >= from =>
            {
                return false;
            }
            HistoryEvent::Killed(ended) | HistoryEvent::LeaveRequested(ended)
                if ended == candidate && *at <= until =>
            {
                return false;
            }
            _ => {}
        }
    }
    is_alive
}

fn end_of_schedule(history: &History) -> Millis {
    history.entries.last().map_or(0, |entry| entry.at)
}

/// Returns a violation if no candidate holds a lease once the calm has outlasted all late messages.
///
/// A lease that its holder gave back does not count.
fn check_leader_after_calm(history: &History, wins: &[Win]) -> Option<Violation> {
    let at = history.finale;
    let index = history.entries.iter().position(|entry| entry.at >= at)?;
    let no_leader = |message: &str| Some(violation("I6", at, message));
    let Some(win) = leader_at(wins, index) else { return no_leader("no candidate ever led") };
    // The end of its lease, and once it has given that up, the time by which another candidate must
    // lead.
    let (mut leads_until, mut replaced_by) = (None, None);
    for entry in &history.entries[..index] {
        match entry.event {
            HistoryEvent::Killed(candidate) | HistoryEvent::Left(candidate)
                if candidate == win.candidate =>
            {
                leads_until = None
            }
            _ => {}
        }
        let Some(request) = history.accepted_request(entry.event) else { continue };
        if request.lease == win.lease {
            match request.step {
                Step::Acquire | Step::Renew => {
                    leads_until = Some(entry.at + history.lives[win.candidate].periods.lease);
                }
                // Other checks cover the next leader in time, as after any release.
                Step::Release | Step::HandOver | Step::Will => {
                    leads_until = None;
                    replaced_by = Some(entry.at + takeover_bound_after(history, request, at));
                }
                _ => {}
            }
        }
    }
    match leads_until.max(replaced_by) {
        Some(until) if until >= at => None,
        _ => no_leader("no leader after the calm"),
    }
}
