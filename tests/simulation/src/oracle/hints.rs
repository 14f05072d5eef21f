//! Hints (protocol.md §4.5) bring few polls forward: ten in a minute. That they excuse nothing else is judged
//! by all other rules, which do not know them; that they are of use, by `liveness`.
//!
//! Judged of each candidate for as long as it does nothing but poll, each poll is answered, and nothing
//! befalls anybody.

use std::collections::VecDeque;

use super::super::fault::Step;
use super::super::history::{Answer, Entry, History, What, Who};
use super::super::world::Millis;
use super::{Violation, violation};

/// A minute on a clock that is 1 % fast.
const MINUTE: Millis = 59_000;

/// So many polls hints may bring forward in that time.
const MOST: u64 = 10;

/// A successor polls often for so long after its announcement; an effect of a fault may last for so long.
const AFTER: Millis = 61_000;

#[derive(Clone, Default)]
struct Polls {
    /// Nothing is judged before.
    from: Millis,
    at: VecDeque<Millis>,
}

impl Polls {
    fn begin_anew(&mut self, from: Millis) {
        self.from = self.from.max(from);
        self.at.clear();
    }
}

/// Judges the number of polls.
pub fn hints(history: &History) -> Vec<Violation> {
    let mut all = vec![Polls::default(); history.lives.len()];
    let mut violations = Vec::new();
    for Entry { at, what } in &history.entries {
        match *what {
            What::Struck(_, _, until) => {
                all.iter_mut().for_each(|polls| polls.begin_anew(until.max(*at) + AFTER));
            }
            What::Started(who) | What::Forgot(who) => all[who].begin_anew(*at),
            What::Answered(number, Answer { status: 200, .. }) if is_poll(history, number) => {}
            What::Answered(number, _) | What::Failed(number) => {
                all[history.asked[number].who].begin_anew(*at);
            }
            What::Sent(number) if is_poll(history, number) => {
                let who = history.asked[number].who;
                violations.extend(polled(&mut all[who], who, *at, history));
            }
            What::Sent(number) => all[history.asked[number].who].begin_anew(*at + AFTER),
            _ => {}
        }
    }
    violations
}

fn is_poll(history: &History, number: usize) -> bool {
    history.asked[number].step == Step::Look
}

fn polled(polls: &mut Polls, who: Who, at: Millis, history: &History) -> Option<Violation> {
    if at < polls.from {
        return None;
    }
    polls.at.push_back(at);
    while polls.at.front().is_some_and(|first| first + MINUTE <= at) {
        polls.at.pop_front();
    }
    // Each waits for half of the poll interval at least, or looks as often as leaders beat.
    let periods = history.lives[who].periods;
    let look = periods.failover.map_or(periods.poll / 2, |failover| failover / 6);
    let shortest = look.min(periods.poll / 2).max(1) * 98 / 100;
    let most = MINUTE.div_ceil(shortest) + 1 + MOST;
    let number = polls.at.len() as u64;
    (number > most).then(|| {
        polls.at.clear();
        violation("hints", at, format!("c{who} polls {number} times in a minute"))
    })
}
