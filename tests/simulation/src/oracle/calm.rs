//! When nothing keeps a leader from doing what is due.

use super::super::fault::{Fault, Step};
use super::super::history::{Answer, Entry, History, What, Who};
use super::super::world::Millis;

/// Effects of earlier faults are over by then.
pub const BEFORE: Millis = 10_000;

/// What befell whom: from when, until when; none: the service, or the network of all.
pub struct Calm(Vec<(Millis, Millis, Option<Who>)>);

impl Calm {
    /// The faults of a whole history.
    pub fn of(history: &History) -> Self {
        // No fault, though it is drawn like one.
        Self::but_for(history, &[Fault::HandOver])
    }

    /// The faults of a whole history, but for some.
    pub fn but_for(history: &History, faults: &[Fault]) -> Self {
        let struck = history.entries.iter().filter_map(|Entry { at, what }| match *what {
            What::Struck(fault, ..) if faults.contains(&fault) => None,
            What::Struck(_, who, until) => Some((*at, until, who)),
            _ => None,
        });
        Self(struck.collect())
    }

    /// Whether no fault touched one of these candidates, or the service, from a while before `from`
    /// until `to`.
    pub fn lasts(&self, whom: &[Who], from: Millis, to: Millis) -> bool {
        let from = from.saturating_sub(BEFORE);
        !self.0.iter().any(|(at, until, who)| {
            *at <= to && *until >= from && who.is_none_or(|who| whom.contains(&who))
        })
    }
}

/// A leadership, from when its leader knew of it until something came in between.
pub struct Leadership {
    pub who: Who,
    pub term: u64,
    pub lease: Option<u128>,
    pub from: Millis,
    pub to: Millis,
}

impl Leadership {
    /// All of them whose beginning was answered.
    pub fn all(history: &History) -> Vec<Self> {
        let wins = history.wins();
        let ends = wins.iter().skip(1).map(|win| win.entry).chain([history.entries.len()]);
        wins.iter()
            .zip(ends)
            .filter_map(|(win, end)| {
                let entries = &history.entries[win.entry..end];
                let began = entries.iter().position(|entry| match entry.what {
                    What::Answered(number, Answer { status: 200..=299, .. }) => {
                        let asked = &history.asked[number];
                        (asked.who, asked.step, asked.lease) == (win.who, Step::Raise, win.lease)
                    }
                    _ => false,
                })?;
                let entries = &entries[began..];
                let over = entries.iter().find(|entry| is_over(history, win.who, entry.what));
                let last = over.or(entries.last()).map(|entry| entry.at);
                let (from, to) = (entries[0].at, last?);
                Some(Self { who: win.who, term: win.term, lease: win.lease, from, to })
            })
            .collect()
    }
}

/// Whether a leader leads no more, or is about to leave.
pub fn is_over(history: &History, who: Who, what: What) -> bool {
    match what {
        What::Killed(gone) | What::ToldToLeave(gone) | What::Left(gone) | What::Forgot(gone) => {
            gone == who
        }
        What::Sent(number) => {
            let asked = &history.asked[number];
            let follows = matches!(
                asked.step,
                Step::Look | Step::CreateBlob | Step::Acquire | Step::Release | Step::HandOver
            );
            asked.who == who && follows
        }
        _ => false,
    }
}

/// What happened from `from` to `to`, both included.
pub fn between(history: &History, from: Millis, to: Millis) -> &[Entry] {
    let first = history.entries.partition_point(|entry| entry.at < from);
    let after = history.entries.partition_point(|entry| entry.at <= to);
    &history.entries[first..after.max(first)]
}

/// Four round trips.
pub fn four_round_trips(history: &History) -> Millis {
    8 * history.latency
}

/// A period on a clock that is 1 % slow.
pub fn slowly(period: Millis) -> Millis {
    period + period / 50
}
