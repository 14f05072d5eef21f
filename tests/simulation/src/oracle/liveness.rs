//! I6 (protocol.md §12): a leader soon after the last one is gone.
//!
//! Judged wherever no fault disturbs the others: from ten seconds before the loss until a leader
//! must be there, and somebody else lives all that time.
//!
//! - Crash: `L + 2 s + Z + poll + 4 round trips`, where Z is how late a request was carried out
//!   that the leader had sent before.
//! - Crash of a leader that beats, where somebody lives who takes over before a lease ends: the promise on
//!   record and a sixteenth of it, two looks, Z as above, and six round trips.
//! - Release, also by a last will (§7.3): `poll + 4 round trips` from when the store took it. No Z: a request
//!   that comes late finds the record changed.
//! - Change to a successor: the same. The successor stands there, and asks for its lease twice a
//!   second. Where round trips are long: seven of them and two such pauses. It may have asked just
//!   before, announces itself again (three requests), asks again, acquires and raises the term.
//! - Release, or change to a successor that lives, and somebody who may take over hears of it by a hint
//!   (§4.5): a second and eight round trips from then. It may be in the middle of a step.
//! - After the calm somebody leads, and everybody who lives then has its turn in the finale.

use super::super::fault::{Fault, Step};
use super::super::history::{Asked, Entry, History, What, Who, Win, Written};
use super::super::plan::LONGEST_COOL_DOWN;
use super::super::world::Millis;
use super::calm::slowly;
use super::terms::lost_between;
use super::{Violation, violation};

/// Effects of earlier faults are over by then: pauses between tries are no longer than a poll, and
/// no request that was lost is waited for longer than its time-out.
const BEFORE: Millis = 10_000;

/// The time-out that this assumes.
const TIMEOUT: Millis = 3_000;

/// How soon a hint leads to a leader, beside the time on the way.
const HEEDED: Millis = 1_000;

/// In which hints bring few polls forward, on a clock that is 1 % slow.
const MINUTE: Millis = 61_000;

/// A1: how late the service may end a lease.
const LATE: Millis = 2_000;

/// Judges each loss of a leader, and the calm.
pub fn i6(history: &History) -> Vec<Violation> {
    let wins = history.wins();
    let mut violations = Vec::new();
    for (index, entry) in history.entries.iter().enumerate() {
        let losses = match entry.what {
            What::Killed(who) => {
                let crash = crash(history, &wins, index, who);
                let beats = crash.as_ref().and_then(|crash| beats(history, &wins, index, crash));
                [crash, beats]
            }
            What::Handled(..) => [release(history, &wins, index), None],
            _ => [None, None],
        };
        for loss in losses.into_iter().flatten() {
            let end = loss.at + loss.most;
            let won = wins.iter().any(|win| win.entry > index && win.at <= end);
            if !won && over(history) >= end && is_undisturbed(history, &loss, end) {
                let Loss { at, who, most, how, .. } = loss;
                let what = format!("nobody leads {most} ms after c{who} {how} at {at} ms");
                violations.push(violation("I6", end, what));
            } else if !matches!(entry.what, What::Killed(_)) {
                violations.extend(hint_ignored(history, &wins, index, &loss));
            }
        }
    }
    violations.extend(nobody_after_the_calm(history, &wins));
    violations
}

struct Loss {
    at: Millis,
    who: Who,
    most: Millis,
    how: &'static str,
    /// Only one can be so quick that takes over before a lease ends.
    by_promise: bool,
}

/// Who raised the newest term before an entry.
fn leader_at(wins: &[Win], index: usize) -> Option<&Win> {
    wins.iter().take_while(|win| win.entry < index).last()
}

fn crash(history: &History, wins: &[Win], index: usize, who: Who) -> Option<Loss> {
    let at = history.entries[index].at;
    let win = leader_at(wins, index).filter(|win| win.who == who)?;
    if is_given_up(history, win, index) || lost_between(history, win.entry, index) {
        return None;
    }
    let late = history.entries[index..].iter().filter_map(|entry| match entry.what {
        What::Handled(number, _)
            if history.asked[number].who == who
                && !matches!(
                    history.asked[number].step,
                    Step::SideBlob | Step::List | Step::Will
                ) =>
        {
            Some(entry.at - at)
        }
        _ => None,
    });
    let d = late.max().unwrap_or(0);
    let lease = history.lives[who].periods.lease;
    let most = lease + LATE + d + takes_over(history);
    Some(Loss { at, who, most, how: "was killed", by_promise: false })
}

/// How soon somebody leads after a leader that beats was killed, by its promise on record.
fn beats(history: &History, wins: &[Win], index: usize, crash: &Loss) -> Option<Loss> {
    let who = crash.who;
    let writes: Vec<_> = history.writes().take_while(|(entry, ..)| *entry < index).collect();
    let look = history.lives.iter().filter_map(|life| life.periods.failover).max()? / 6;
    let taken_over = |promise| slowly(promise * 17 / 16 + 2 * look) + 12 * history.latency;
    // Where nobody beat before, or for so long that its lease was lost otherwise, the others look rarely until they have
    // seen one that does.
    let silent = |pair: &&[(usize, Entry, &Asked, &Written)]| {
        matches!(pair, [(_, before, _, written), (_, then, ..)]
            if written.promise == 0 || before.at + taken_over(written.promise) < then.at)
    };
    let beats = writes.windows(2).rfind(silent).and_then(|pair| pair.last()).or(writes.first());
    let seen = beats.map_or(0, |(_, entry, ..)| entry.at + takes_over(history));
    let seen = seen.saturating_sub(crash.at);
    let late = crash.most - history.lives[who].periods.lease - LATE - takes_over(history);
    let written = writes.last()?;
    let promise = Some(written.3.promise).filter(|promise| *promise > 0 && written.2.who == who)?;
    // One that lost its lease before beats no more, and a lease that somebody breaks runs out.
    let broken = |entry: &Entry| matches!(entry.what, What::Struck(Fault::BreakRest, ..));
    let win = leader_at(wins, index)?;
    let acquires = |entry: &Entry| {
        let asked = history.carried_out(entry.what);
        asked.is_some_and(|asked| asked.step == Step::Acquire && asked.lease == win.lease)
    };
    let since = history.entries[..win.entry].iter().rposition(acquires).unwrap_or(win.entry);
    if written.1.at + promise < crash.at || history.entries[since..index].iter().any(broken) {
        return None;
    }
    let most = seen + taken_over(promise) + late;
    Some(Loss { most, how: "was killed that beat", by_promise: true, ..*crash })
}

/// How soon somebody leads after a lease was released or changed.
fn next_leads_within(history: &History, asked: &Asked, at: Millis) -> Millis {
    let by_successor = slowly(1_000) + 14 * history.latency;
    match asked.step {
        Step::HandOver if !is_there(history, asked.to, at) => {
            history.lives[asked.who].periods.lease + LATE + takes_over(history)
        }
        Step::HandOver => takes_over(history).max(by_successor),
        _ => takes_over(history),
    }
}

/// A lease was given up, somebody who may take over heard of it, and there is no leader soon.
fn hint_ignored(history: &History, wins: &[Win], index: usize, loss: &Loss) -> Option<Violation> {
    let What::Handled(number, _) = history.entries[index].what else { return None };
    let asked = &history.asked[number];
    let given = asked.step == Step::HandOver;
    let successor = announced_by(history, asked.to).map(|number| history.asked[number].who);
    if given && !is_there(history, asked.to, loss.at) {
        return None;
    }
    let within = HEEDED + 16 * history.latency;
    let soon = history.entries[index..].iter().take_while(|entry| entry.at <= loss.at + HEEDED);
    let (place, who, at) = (index..).zip(soon).find_map(|(place, entry)| match entry.what {
        What::Hinted(who) if who != loss.who && (!given || successor == Some(who)) => {
            Some((place, who, entry.at))
        }
        _ => None,
    })?;
    let end = at + within;
    let earlier = heeded(history, who, place).filter(|heeded| heeded + MINUTE >= at).count();
    // Each hint may have brought five polls forward, and ten in a minute are all.
    let free = earlier <= 1;
    let able = lives(history, who, loss.at.saturating_sub(BEFORE), end)
        && !rests(history, who, loss.at, end);
    let won = wins.iter().any(|win| win.entry > index && win.at <= end);
    let ignored = free && able && !won && over(history) >= end;
    (ignored && is_undisturbed(history, loss, end)).then(|| {
        let what =
            format!("nobody leads {within} ms after c{who} heard that c{} {}", loss.who, loss.how);
        violation("hint", end, what)
    })
}

/// When each hint that a candidate was given before an entry could be heeded: one that stands still hears of it
/// once it goes on, and polls again and again until one is answered.
fn heeded(history: &History, who: Who, before: usize) -> impl Iterator<Item = Millis> {
    let entries = &history.entries[..before];
    (0..before).filter(move |place| entries[*place].what == What::Hinted(who)).map(move |place| {
        let stands = entries[..place].iter().rev().find_map(|entry| match entry.what {
            What::Paused(paused) if paused == who => Some(true),
            What::Resumed(resumed) if resumed == who => Some(false),
            _ => None,
        });
        let goes_on = entries[place..].iter().find(|entry| entry.what == What::Resumed(who));
        let later = goes_on.filter(|_| stands == Some(true));
        let at = later.map_or(entries[place].at, |later| later.at);
        let answered = entries[place..].iter().find(|entry| match entry.what {
            What::Answered(number, _) => entry.at >= at && history.asked[number].who == who,
            _ => false,
        });
        answered.map_or(at, |answered| answered.at)
    })
}

/// The announcement of a successor with this lease id.
fn announced_by(history: &History, to: Option<u128>) -> Option<usize> {
    history.asked.iter().position(|asked| asked.announces && asked.lease == to)
}

/// Whether the successor that announced itself with this id lives and remembers it: one that was killed just
/// before, or lost its state, leaves the lease that it is given to run out.
fn is_there(history: &History, to: Option<u128>, at: Millis) -> bool {
    let Some(number) = announced_by(history, to) else { return false };
    let successor = history.asked[number].who;
    let since = history.entries.iter().skip_while(|entry| entry.what != What::Sent(number));
    !since.take_while(|entry| entry.at <= at).any(|entry| match entry.what {
        What::Killed(gone) | What::Left(gone) | What::Forgot(gone) => gone == successor,
        _ => false,
    })
}

/// Whether the lease of a win was released or changed before an entry.
fn is_given_up(history: &History, win: &Win, index: usize) -> bool {
    history.entries[win.entry..index].iter().any(|entry| {
        let asked = history.carried_out(entry.what);
        let gives = |step| matches!(step, Step::Release | Step::HandOver | Step::Will);
        asked.is_some_and(|asked| gives(asked.step) && asked.lease == win.lease)
    })
}

fn release(history: &History, wins: &[Win], index: usize) -> Option<Loss> {
    let entry = history.entries[index];
    let asked = history.carried_out(entry.what)?;
    let how = match asked.step {
        Step::Release => "released",
        Step::HandOver => "handed over",
        Step::Will => "left a last will",
        _ => return None,
    };
    let win = leader_at(wins, index).filter(|win| win.lease == asked.lease)?;
    // One that was duplicated takes nothing from anybody.
    if lost_between(history, win.entry, index) || is_given_up(history, win, index) {
        return None;
    }
    let most = next_leads_within(history, asked, entry.at);
    Some(Loss { at: entry.at, who: asked.who, most, how, by_promise: false })
}

/// A poll, on a clock that is 1 % slow, and four round trips.
fn takes_over(history: &History) -> Millis {
    let poll = history.lives.iter().map(|life| life.periods.poll).max().unwrap_or(0);
    poll + poll / 50 + 8 * history.latency
}

/// Whether nothing else was wrong meanwhile, and somebody was there to take over.
fn is_undisturbed(history: &History, loss: &Loss, end: Millis) -> bool {
    let timeout = history.lives.iter().map(|life| life.periods.timeout).max().unwrap_or(0);
    let from = loss.at.saturating_sub(BEFORE + timeout.saturating_sub(TIMEOUT));
    // The old leader contends again. Where it is the first one, by slow round trips, the others wait for it.
    let quick_until = end.saturating_sub(4 * history.latency);
    let mut later =
        history.entries.iter().filter(|entry| entry.at > loss.at && entry.at <= quick_until);
    let is_first_again = later.find_map(|entry| {
        let acquired = history.carried_out(entry.what)?;
        (acquired.step == Step::Acquire).then_some(acquired.who == loss.who)
    });
    let disturbed = history.entries.iter().any(|Entry { at, what }| match *what {
        // What befell the old leader before does not keep the others from taking over, but for these slow round trips; what
        // befalls it later may.
        What::Struck(fault, who, until) => {
            let slows =
                fault == Fault::SlowTrips && until > loss.at && is_first_again == Some(true);
            let before = who == Some(loss.who) && *at <= loss.at && !slows;
            !before && *at <= end && until >= from
        }
        _ => false,
    });
    let takes_over = |who: Who| {
        let quick = history.lives[who].periods.failover.is_some();
        (quick || !loss.by_promise)
            && lives(history, who, from, end)
            && !rests(history, who, loss.at, end)
    };
    !disturbed && (0..history.lives.len()).any(|who| who != loss.who && takes_over(who))
}

/// Whether a candidate gave its own leadership up so shortly before that it leaves this one to others. One whose lease
/// another one took before it led gives up too.
fn rests(history: &History, who: Who, at: Millis, to: Millis) -> bool {
    let rest = slowly(2 * history.lives[who].periods.poll);
    let wins = history.wins();
    history.entries.iter().take_while(|entry| entry.at <= to).any(|entry| {
        let What::Sent(number) = entry.what else { return false };
        let asked = &history.asked[number];
        // One that could not raise its term rests longer each time.
        let led = || wins.iter().any(|win| win.lease == asked.lease);
        asked.who == who
            && matches!(asked.step, Step::Release | Step::HandOver)
            && entry.at + if led() { rest } else { LONGEST_COOL_DOWN } >= at
    })
}

/// Whether a candidate lives all that time, and its work does not keep it from contending.
fn lives(history: &History, who: Who, from: Millis, to: Millis) -> bool {
    let mut alive = false;
    for Entry { at, what } in &history.entries {
        match *what {
            What::Started(started) if started == who => {
                alive = *at <= from;
            }
            What::Sick(sick)
                if sick == who
                    && *at <= to
                    && at + LONGEST_COOL_DOWN + takes_over(history) >= from =>
            {
                return false;
            }
            What::Killed(gone) | What::ToldToLeave(gone) if gone == who && *at <= to => {
                return false;
            }
            _ => {}
        }
    }
    alive
}

fn over(history: &History) -> Millis {
    history.entries.last().map_or(0, |entry| entry.at)
}

/// When the calm has lasted as long as anything late may take, somebody holds a lease, and did
/// not give it back.
fn nobody_after_the_calm(history: &History, wins: &[Win]) -> Option<Violation> {
    let at = history.finale;
    let index = history.entries.iter().position(|entry| entry.at >= at)?;
    let none = |what: &str| Some(violation("I6", at, what));
    let Some(win) = leader_at(wins, index) else { return none("nobody ever led") };
    // Until when it leads by its lease, and once it has given that up, until when another one must lead.
    let (mut leads, mut replaced) = (None, None);
    for entry in &history.entries[..index] {
        match entry.what {
            What::Killed(who) | What::Left(who) if who == win.who => leads = None,
            _ => {}
        }
        let Some(asked) = history.carried_out(entry.what) else { continue };
        if asked.lease == win.lease {
            match asked.step {
                Step::Acquire | Step::Renew => {
                    leads = Some(entry.at + history.lives[win.who].periods.lease);
                }
                // That another one leads in time is judged as after any release.
                Step::Release | Step::HandOver | Step::Will => {
                    leads = None;
                    replaced = Some(entry.at + next_leads_within(history, asked, at));
                }
                _ => {}
            }
        }
    }
    match leads.max(replaced) {
        Some(until) if until >= at => None,
        _ => none("nobody leads after the calm"),
    }
}
