//! Transfers through the account (protocol.md §7.5).
//!
//! A leader reads a transfer in time and obeys it at most once, only in its own term, and before it
//! expires. The record shows failed transfers.
//!
//! `handovers` checks that a transfer succeeds: the history has an order as soon as the leader
//! reads it.

use std::collections::BTreeMap;

use super::super::fault::Fault;
use super::super::history::{CandidateId, History, HistoryEvent, Transfer};
use super::super::world::Millis;
use super::fault_periods::{
    FaultPeriods, Leadership, between, ends_leadership, four_round_trips, on_slow_clock,
};
use super::{Violation, violation};

/// Age up to which a transfer is obeyed.
const TRANSFER_LIFETIME: Millis = 60_000;

/// Uncertainty of the service's time: its dates have whole seconds, and its time is known to a
/// second or two.
const CLOCK_UNCERTAINTY: Millis = 3_000;

/// Time within which a leader that can read and write does so.
const OBEY_TIMEOUT: Millis = 30_000;

pub fn check_transfers(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    violations.extend(check_orders(history));
    violations.extend(check_reads(history));
    violations.extend(check_resignations(history));
    violations.extend(check_refusals(history));
    violations
}

/// Checks that each leader that names a successor has an order: from its host, or from a transfer
/// that it has read.
fn check_orders(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    // Orders of each candidate that have not begun yet, by successor.
    let mut orders: BTreeMap<(CandidateId, usize), usize> = BTreeMap::new();
    // Term and successor of the newest write of each candidate.
    let mut named_successors: BTreeMap<CandidateId, (u64, Option<usize>)> = BTreeMap::new();
    let mut reads: Vec<(CandidateId, usize, Millis)> = Vec::new();
    for entry in &history.entries {
        match entry.event {
            HistoryEvent::ReadTransfer(candidate, number) => {
                let Transfer { successor: to, decided_at: placed, .. } = history.transfers[number];
                let age = entry.at.saturating_sub(placed);
                if let Some(to) = to
                    && (age <= TRANSFER_LIFETIME + CLOCK_UNCERTAINTY
                        || is_time_uncertain(history, entry.at))
                {
                    *orders.entry((candidate, to)).or_default() += 1;
                    reads.push((candidate, to, entry.at));
                }
            }
            // The read of a transfer is an order in the same instant; it counts once.
            HistoryEvent::HandoverOrdered(candidate, to, _)
                if !reads.contains(&(candidate, to, entry.at)) =>
            {
                *orders.entry((candidate, to)).or_default() += 1;
            }
            _ => {}
        }
        let Some(request) = history.accepted_request(entry.event) else { continue };
        // An older version keeps the successors that earlier leaders named.
        let Some(write) =
            request.write.as_ref().filter(|_| !history.lives[request.candidate].is_older_version)
        else {
            continue;
        };
        let before = named_successors.insert(request.candidate, (write.term, write.successor));
        let Some(to) = write.successor else { continue };
        if before == Some((write.term, Some(to))) {
            continue;
        }
        match orders.get_mut(&(request.candidate, to)) {
            Some(remaining) if *remaining > 0 => *remaining -= 1,
            _ => {
                let message =
                    format!("c{} names successor m{to} without an order", request.candidate);
                violations.push(violation("transfer", entry.at, message));
            }
        }
    }
    violations
}

/// Returns true if the age of a transfer is uncertain by more than a second.
fn is_time_uncertain(history: &History, at: Millis) -> bool {
    history.entries.iter().take_while(|entry| entry.at <= at).any(|entry| {
        matches!(
            entry.event,
            HistoryEvent::FaultInjected(Fault::ClockSteps | Fault::DatesStand | Fault::DateOff, ..)
        )
    })
}

/// Checks that a living leader of a transfer's term, whose requests succeed, reads it in time.
fn check_reads(history: &History) -> Vec<Violation> {
    let (calm, leaderships) =
        (FaultPeriods::from_history(history), Leadership::from_history(history));
    let mut violations = Vec::new();
    for entry in &history.entries {
        let HistoryEvent::TransferPlaced(number) = entry.event else { continue };
        let (at, deadline) = (entry.at, entry.at + on_slow_clock(OBEY_TIMEOUT));
        let Transfer { term, decided_at: placed, .. } = history.transfers[number];
        let is_leading = |leadership: &&Leadership| {
            leadership.term == term && leadership.from <= at && leadership.to >= deadline
        };
        let Some(leader) = leaderships.iter().find(is_leading) else { continue };
        if deadline > placed + TRANSFER_LIFETIME - CLOCK_UNCERTAINTY {
            continue;
        }
        let life = &history.lives[leader.candidate];
        // Slow round trips leave no time for it between renewals, and a newer order may have
        // replaced it.
        let has_time = 4 * four_round_trips(history) < life.periods.renew;
        let is_read = |event| matches!(event, HistoryEvent::ReadTransfer(who, read) if who == leader.candidate && read == number);
        let is_replaced = between(history, at, deadline).iter().any(
            |entry| matches!(entry.event, HistoryEvent::TransferPlaced(other) if other != number),
        );
        let is_hostile = between(history, 0, deadline).iter().any(|entry| {
            matches!(entry.event, HistoryEvent::FaultInjected(Fault::HostileSideBlobs, ..))
        });
        // After a refusal the leader reads again in a quarter of an hour.
        let was_refused =
            between(history, 0, deadline).iter().rev().find_map(|entry| match entry.event {
                HistoryEvent::Answered(number, answer) => {
                    let request = &history.requests[number];
                    (request.candidate == leader.candidate && request.is_about_orders)
                        .then_some(is_refusal(answer.status))
                }
                _ => None,
            });
        let is_done = between(history, at, deadline).iter().any(|entry| is_read(entry.event));
        if has_time
            && !is_replaced
            && !is_hostile
            && was_refused != Some(true)
            && !life.is_older_version
            && calm.is_calm(&[leader.candidate], at, deadline)
            && !is_done
        {
            let message = format!("c{} does not read transfer {number}", leader.candidate);
            violations.push(violation("transfer", deadline, message));
        }
    }
    violations
}

/// Returns true if the status means refusal (protocol.md §3).
fn is_refusal(status: u16) -> bool {
    matches!(status, 400..=499) && !matches!(status, 404 | 408 | 409 | 412 | 429)
}

/// Checks that a leader that read an order to resign gives up its leadership after the grace period
/// of its turn.
fn check_resignations(history: &History) -> Vec<Violation> {
    let calm = FaultPeriods::excluding(history, &[Fault::HandOver, Fault::Resign]);
    let leaderships = Leadership::from_history(history);
    let mut violations = Vec::new();
    for entry in &history.entries {
        let HistoryEvent::ReadTransfer(candidate, number) = entry.event else { continue };
        let Transfer { successor: to, decided_at: placed, .. } = history.transfers[number];
        let periods = &history.lives[candidate].periods;
        let deadline = entry.at
            + on_slow_clock(history.grace)
            + 4 * periods.timeout
            + four_round_trips(history);
        let is_leading = leaderships.iter().any(|leadership| {
            leadership.candidate == candidate
                && leadership.from <= entry.at
                && leadership.to > entry.at
        });
        if to.is_some() || !is_leading || entry.at > placed + TRANSFER_LIFETIME - CLOCK_UNCERTAINTY
        {
            continue;
        }
        let after = between(history, entry.at, deadline);
        let has_ended = after.iter().any(|entry| ends_leadership(history, candidate, entry.event));
        if !has_ended
            && calm.is_calm(&[candidate], entry.at, deadline)
            && !is_time_uncertain(history, deadline)
        {
            let message = format!("c{candidate} does not obey transfer {number}");
            violations.push(violation("transfer", deadline, message));
        }
    }
    violations
}

/// Checks that the record soon shows a transfer that its leader reported as failed.
fn check_refusals(history: &History) -> Vec<Violation> {
    let calm = FaultPeriods::from_history(history);
    let mut violations = Vec::new();
    // The transfers that each candidate read and has not reported as failed, and when it read them.
    let mut reads: BTreeMap<CandidateId, Vec<(usize, Millis)>> = BTreeMap::new();
    for (index, entry) in history.entries.iter().enumerate() {
        match entry.event {
            HistoryEvent::ReadTransfer(candidate, number)
                if history.transfers[number].successor.is_some() =>
            {
                let age = entry.at.saturating_sub(history.transfers[number].decided_at);
                if age + CLOCK_UNCERTAINTY < TRANSFER_LIFETIME {
                    reads.entry(candidate).or_default().push((number, entry.at));
                } else if age <= TRANSFER_LIFETIME + CLOCK_UNCERTAINTY {
                    // The leader may have obeyed it. It did not obey an expired one.
                    reads.remove(&candidate);
                }
            }
            // An order of its host replaced the transfer.
            HistoryEvent::HandoverOrdered(candidate, ..) => {
                let is_read = |event| matches!(event, HistoryEvent::ReadTransfer(reader, _) if reader == candidate);
                if index == 0 || !is_read(history.entries[index - 1].event) {
                    reads.remove(&candidate);
                }
            }
            HistoryEvent::HandoverFailed(candidate) => {
                let transfers = reads.remove(&candidate).unwrap_or_default();
                let Some(&(number, read_at)) = transfers.last() else { continue };
                let deadline = entry.at + on_slow_clock(OBEY_TIMEOUT);
                let after = between(history, entry.at, deadline);
                let has_ended =
                    after.iter().any(|entry| ends_leadership(history, candidate, entry.event));
                // A step reports when it ends, and may have written before.
                let is_recorded = |number, since| {
                    between(history, since, deadline).iter().any(|entry| {
                        let request = history
                            .accepted_request(entry.event)
                            .filter(|request| request.candidate == candidate);
                        let write = request.and_then(|request| request.write.as_ref());
                        write.is_some_and(|write| write.failed_transfer == Some(number))
                    })
                };
                // A step may end the order of one transfer and then read the next one.
                let was_read_in_step = entry.at <= read_at + history.lives[candidate].periods.lease;
                let previous = transfers
                    .iter()
                    .rev()
                    .nth(1)
                    .filter(|(number, since)| was_read_in_step && is_recorded(*number, *since));
                if previous.is_some() && !is_recorded(number, read_at) {
                    reads.insert(candidate, vec![(number, read_at)]);
                    continue;
                }
                let schedule_ended = history.entries.last().is_none_or(|last| last.at < deadline);
                if !has_ended
                    && !is_recorded(number, read_at)
                    && !schedule_ended
                    && calm.is_calm(&[candidate], entry.at, deadline)
                {
                    let message =
                        format!("the record of c{candidate} does not tell of transfer {number}");
                    violations.push(violation("transfer", deadline, message));
                }
            }
            _ => {}
        }
    }
    violations
}
