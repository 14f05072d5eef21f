//! Transfers through the account (protocol.md §7.5): a leader obeys each at most once, only in its own term, and while
//! it is young; it reads it in time; and the record says what came to nothing.
//!
//! That a transfer comes about is judged with the other orders to hand over: the history has one as soon as the leader
//! reads it.

use std::collections::BTreeMap;

use super::super::fault::Fault;
use super::super::history::{History, Transfer, What, Who};
use super::super::world::Millis;
use super::calm::{Calm, Leadership, between, four_round_trips, is_over, slowly};
use super::{Violation, violation};

/// A transfer is obeyed up to this age.
const EXPIRES: Millis = 60_000;

/// The dates of the service have whole seconds, and its time is known to a second or two.
const UNCERTAIN: Millis = 3_000;

/// A leader that can read and write does so within this time.
const IN_TIME: Millis = 30_000;

pub fn transfers(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    violations.extend(obeyed(history));
    violations.extend(read(history));
    violations.extend(resigned(history));
    violations.extend(recorded(history));
    violations
}

/// Each time that a leader begins to name a successor, it has an order to do so: one of its host, or a transfer that it
/// has read.
fn obeyed(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    // The orders of each candidate that did not begin yet, by the successor.
    let mut orders: BTreeMap<(Who, usize), usize> = BTreeMap::new();
    // The term and the successor of the newest write of each candidate.
    let mut named: BTreeMap<Who, (u64, Option<usize>)> = BTreeMap::new();
    let mut read: Vec<(Who, usize, Millis)> = Vec::new();
    for entry in &history.entries {
        match entry.what {
            What::ReadTransfer(who, number) => {
                let Transfer { to, placed, .. } = history.transfers[number];
                let age = entry.at.saturating_sub(placed);
                if let Some(to) = to
                    && (age <= EXPIRES + UNCERTAIN || is_time_uncertain(history, entry.at))
                {
                    *orders.entry((who, to)).or_default() += 1;
                    read.push((who, to, entry.at));
                }
            }
            // The read of a transfer is an order in the same instant; it counts once.
            What::ToldToHandOver(who, to, _) if !read.contains(&(who, to, entry.at)) => {
                *orders.entry((who, to)).or_default() += 1;
            }
            _ => {}
        }
        let Some(asked) = history.carried_out(entry.what) else { continue };
        // An older version carries on what earlier leaders named.
        let Some(write) = asked.write.as_ref().filter(|_| !history.lives[asked.who].older) else {
            continue;
        };
        let before = named.insert(asked.who, (write.term, write.successor));
        let Some(to) = write.successor else { continue };
        if before == Some((write.term, Some(to))) {
            continue;
        }
        match orders.get_mut(&(asked.who, to)) {
            Some(left) if *left > 0 => *left -= 1,
            _ => {
                let what = format!("c{} names successor m{to} without an order", asked.who);
                violations.push(violation("transfer", entry.at, what));
            }
        }
    }
    violations
}

/// The age of a transfer is not known to a second.
fn is_time_uncertain(history: &History, at: Millis) -> bool {
    history.entries.iter().take_while(|entry| entry.at <= at).any(|entry| {
        matches!(
            entry.what,
            What::Struck(Fault::ClockSteps | Fault::DatesStand | Fault::DateOff, ..)
        )
    })
}

/// A leader of a transfer's term that lives, and whose requests get through, reads it in time.
fn read(history: &History) -> Vec<Violation> {
    let (calm, leaderships) = (Calm::of(history), Leadership::all(history));
    let mut violations = Vec::new();
    for entry in &history.entries {
        let What::Placed(number) = entry.what else { continue };
        let (at, end) = (entry.at, entry.at + slowly(IN_TIME));
        let Transfer { term, placed, .. } = history.transfers[number];
        let leads = |t: &&Leadership| t.term == term && t.from <= at && t.to >= end;
        let Some(leader) = leaderships.iter().find(leads) else { continue };
        if end > placed + EXPIRES - UNCERTAIN {
            continue;
        }
        let life = &history.lives[leader.who];
        // With slow round trips there is no time for it between renewals, and a newer order may be in its place.
        let has_time = 4 * four_round_trips(history) < life.periods.renew;
        let reads = |what| matches!(what, What::ReadTransfer(who, read) if who == leader.who && read == number);
        let replaced = between(history, at, end)
            .iter()
            .any(|entry| matches!(entry.what, What::Placed(other) if other != number));
        let hostile = between(history, 0, end)
            .iter()
            .any(|entry| matches!(entry.what, What::Struck(Fault::HostileSideBlobs, ..)));
        // After a refusal it reads again in a quarter of an hour.
        let refused = between(history, 0, end).iter().rev().find_map(|entry| match entry.what {
            What::Answered(number, answer) => {
                let asked = &history.asked[number];
                (asked.who == leader.who && asked.of_orders).then_some(is_refusal(answer.status))
            }
            _ => None,
        });
        let done = between(history, at, end).iter().any(|entry| reads(entry.what));
        if has_time
            && !replaced
            && !hostile
            && refused != Some(true)
            && !life.older
            && calm.lasts(&[leader.who], at, end)
            && !done
        {
            let what = format!("c{} does not read transfer {number}", leader.who);
            violations.push(violation("transfer", end, what));
        }
    }
    violations
}

/// protocol.md §3.
fn is_refusal(status: u16) -> bool {
    matches!(status, 400..=499) && !matches!(status, 404 | 408 | 409 | 412 | 429)
}

/// A leader that read an order to resign gives its leadership up once its turn has had the grace.
fn resigned(history: &History) -> Vec<Violation> {
    let calm = Calm::but_for(history, &[Fault::HandOver, Fault::Resign]);
    let leaderships = Leadership::all(history);
    let mut violations = Vec::new();
    for entry in &history.entries {
        let What::ReadTransfer(who, number) = entry.what else { continue };
        let Transfer { to, placed, .. } = history.transfers[number];
        let periods = &history.lives[who].periods;
        let end =
            entry.at + slowly(history.grace) + 4 * periods.timeout + four_round_trips(history);
        let leads =
            leaderships.iter().any(|t| t.who == who && t.from <= entry.at && t.to > entry.at);
        if to.is_some() || !leads || entry.at > placed + EXPIRES - UNCERTAIN {
            continue;
        }
        let after = between(history, entry.at, end);
        let over = after.iter().any(|entry| is_over(history, who, entry.what));
        if !over && calm.lasts(&[who], entry.at, end) && !is_time_uncertain(history, end) {
            let what = format!("c{who} does not obey transfer {number}");
            violations.push(violation("transfer", end, what));
        }
    }
    violations
}

/// When a leader says that a transfer came to nothing, its record says so soon.
fn recorded(history: &History) -> Vec<Violation> {
    let calm = Calm::of(history);
    let mut violations = Vec::new();
    // The newest transfer that each candidate read, and when.
    let mut newest: BTreeMap<Who, (usize, Millis)> = BTreeMap::new();
    for (index, entry) in history.entries.iter().enumerate() {
        match entry.what {
            What::ReadTransfer(who, number) if history.transfers[number].to.is_some() => {
                let age = entry.at.saturating_sub(history.transfers[number].placed);
                if age + UNCERTAIN < EXPIRES {
                    newest.insert(who, (number, entry.at));
                } else if age <= EXPIRES + UNCERTAIN {
                    // Nobody knows whether it was obeyed. One that is older was not.
                    newest.remove(&who);
                }
            }
            // An order of its host took the place of the transfer.
            What::ToldToHandOver(who, ..) => {
                let read = |what| matches!(what, What::ReadTransfer(reader, _) if reader == who);
                if index == 0 || !read(history.entries[index - 1].what) {
                    newest.remove(&who);
                }
            }
            What::NotHandedOver(who) => {
                let Some((number, read)) = newest.remove(&who) else { continue };
                let end = entry.at + slowly(IN_TIME);
                let after = between(history, entry.at, end);
                let over = after.iter().any(|entry| is_over(history, who, entry.what));
                // A step reports when it ends, and may have written before.
                let tells = between(history, read, end).iter().any(|entry| {
                    let asked = history.carried_out(entry.what).filter(|asked| asked.who == who);
                    let write = asked.and_then(|asked| asked.write.as_ref());
                    write.is_some_and(|write| write.refused == Some(number))
                });
                let ended = history.entries.last().is_none_or(|last| last.at < end);
                if !over && !tells && !ended && calm.lasts(&[who], entry.at, end) {
                    let what = format!("the record of c{who} does not tell of transfer {number}");
                    violations.push(violation("transfer", end, what));
                }
            }
            _ => {}
        }
    }
    violations
}
