//! I9 (protocol.md §12): nobody leads under a lease before a write under it is on record, and no lease is broken
//! whose holder still works, nor ended by a last will.
//!
//! Beats end a leadership before its lease does. So it is judged where that can go wrong: when the store breaks a
//! lease for a follower, and when a step tells its host that it leads. And who lost a race waits for a whole promise before it
//! breaks another lease, and so does everybody after the answer that showed a beat first: the winner has to have the time for its first write. No two tries of a leader that beats
//! have the same number: a late one would be taken for another one.

use std::collections::BTreeSet;

use super::super::fault::Step;
use super::super::history::{Answer, Entry, History, What};
use super::super::world::Millis;
use super::{Violation, violation};

/// Nobody beats, promises or breaks a lease on an account that keeps every version of a blob (protocol.md §13).
pub fn versions(history: &History) -> Vec<Violation> {
    if !history.versioned {
        return Vec::new();
    }
    let entries = history.entries.iter();
    entries
        .filter_map(|Entry { at, what }| {
            let What::Sent(number) = *what else { return None };
            let asked = &history.asked[number];
            let promises = asked.write.as_ref().is_some_and(|write| write.promise > 0);
            let beats = promises || matches!(asked.step, Step::Beat | Step::Break);
            let what =
                format!("c{} takes part in failover, though the account keeps versions", asked.who);
            beats.then(|| violation("versions", *at, what))
        })
        .collect()
}

/// Judges the beginnings of work, and the breaks.
pub fn i9(history: &History) -> Vec<Violation> {
    let lives = history.lives.len();
    // The newest lease of each candidate, and whether the store took a write under it.
    let mut lease: Vec<Option<u128>> = vec![None; lives];
    let mut wrote = vec![false; lives];
    // The lease by which the newest term was raised, and who works.
    let mut holder = None;
    let mut works: Vec<Option<u64>> = vec![None; lives];
    // The newest promise on record; when each candidate lost a race, and the shortest promise since then.
    let mut promise = 0;
    let mut lost: Vec<Option<(Millis, Millis)>> = vec![None; lives];
    let mut numbers = BTreeSet::new();
    // The writes that the store took; for each look, how many there were and the promise; and of each candidate, how many the
    // newest answer showed, since when, and that promise.
    let (mut writes, mut looks) = (0, vec![None; history.asked.len()]);
    let mut shown: Vec<(u64, Millis, Millis)> = vec![(0, 0, 0); lives];
    let mut violations = Vec::new();
    for Entry { at, what } in &history.entries {
        match *what {
            What::Handled(number, _) => {
                // The answer is that to the first copy of it.
                looks[number].get_or_insert((writes, promise));
                let Some(asked) = history.carried_out(*what) else { continue };
                let who = asked.who;
                if let Some(write) = &asked.write {
                    promise = write.promise;
                    writes += 1;
                    lost.iter_mut().flatten().for_each(|lost| lost.1 = lost.1.min(promise));
                }
                match (asked.step, &asked.write) {
                    (Step::Acquire, _) if lease[who] != asked.lease => {
                        (lease[who], wrote[who]) = (asked.lease, false);
                        // The lease of whoever wrote before has ended: that is judged where it ended.
                        holder = None;
                    }
                    (_, Some(_)) if asked.lease == lease[who] => {
                        (wrote[who], holder) = (true, Some(who));
                    }
                    (Step::Break | Step::Will, _) => {
                        let working = holder.take().filter(|leader| works[*leader].is_some());
                        if let Some(leader) = working {
                            let what = format!("c{who} ends the lease of c{leader}, which works");
                            violations.push(violation("I9", *at, what));
                        }
                    }
                    _ => {}
                }
            }
            What::Answered(number, Answer { status: 200, .. })
                if history.asked[number].step == Step::Look =>
            {
                let asked = &history.asked[number];
                let shown = &mut shown[asked.who];
                // Some answers are not the store's: they tell no time of the service.
                if let Some((writes, promise)) = looks[number]
                    && asked.told.is_some()
                    && shown.0 != writes
                {
                    *shown = (writes, *at, promise);
                }
            }
            What::Answered(number, Answer { status: 409 | 412, .. })
                if matches!(history.asked[number].step, Step::Acquire | Step::Break) =>
            {
                lost[history.asked[number].who] = Some((*at, promise));
            }
            // It was certainly not applied, and is sent again as it was, with another token.
            What::Answered(number, Answer { status: 401, .. }) => {
                let asked = &history.asked[number];
                let beats = asked.write.as_ref().filter(|write| write.promise > 0);
                if let Some((write, lease)) = beats.zip(asked.lease) {
                    numbers.remove(&(lease, write.beat));
                }
            }
            What::Sent(number) if history.asked[number].step == Step::Break => {
                let who = history.asked[number].who;
                // On a clock that is 1 % fast.
                let soon = |(lost, promise)| *at < lost + promise - promise / 50;
                let (_, since, promise) = shown[who];
                if soon((since, promise)) {
                    let what = format!("c{who} breaks a lease before the promise has ended");
                    violations.push(violation("I9", *at, what));
                }
                if lost[who].is_some_and(soon) {
                    let what = format!("c{who} breaks a lease soon after it lost a race");
                    violations.push(violation("I9", *at, what));
                }
            }
            What::Sent(number) => {
                let asked = &history.asked[number];
                let beats = asked.write.as_ref().filter(|write| write.promise > 0);
                if let Some((write, lease)) = beats.zip(asked.lease)
                    && !numbers.insert((lease, write.beat))
                {
                    let what = format!("c{} beats twice with the number {}", asked.who, write.beat);
                    violations.push(violation("I9", *at, what));
                }
            }
            What::Leads(who) if !wrote[who] => {
                let what = format!("c{who} leads under a lease that it wrote nothing under");
                violations.push(violation("I9", *at, what));
            }
            What::Struck(fault, ..) if fault.loses_record() => {
                // What the record promises now nobody wrote: it binds nobody until somebody writes again.
                promise = 0;
                writes += 1;
                lost.iter_mut().flatten().for_each(|lost| lost.1 = 0);
            }
            What::Works(who, term) => works[who] = Some(term),
            What::Rests(who, _) => works[who] = None,
            _ => {}
        }
    }
    violations
}
