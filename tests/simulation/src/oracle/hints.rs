//! Limit of polls that hints (protocol.md §4.5) bring forward: ten in a minute.
//!
//! All other rules ignore hints, so hints excuse nothing there. `liveness` checks that they are
//! useful.
//!
//! A candidate is checked while it only polls, each poll is answered, and no fault affects any
//! candidate.

use std::collections::VecDeque;

use super::super::fault::Step;
use super::super::history::{Answer, CandidateId, Entry, History, HistoryEvent};
use super::super::world::Millis;
use super::{Violation, violation};

/// A minute on a clock that is 1 % fast.
const MINUTE: Millis = 59_000;

/// Maximum number of polls that hints may bring forward in that time.
const MAX_EXTRA_POLLS: u64 = 10;

/// Time after an announcement in which a successor polls often, or in which effects of a fault may
/// last.
const SETTLE_TIME: Millis = 61_000;

#[derive(Clone, Default)]
struct Polls {
    /// Start of the period that counts.
    counts_from: Millis,
    recent: VecDeque<Millis>,
}

impl Polls {
    fn reset(&mut self, from: Millis) {
        self.counts_from = self.counts_from.max(from);
        self.recent.clear();
    }
}

/// Checks the number of polls.
pub fn check_hints(history: &History) -> Vec<Violation> {
    let mut polls_by_candidate = vec![Polls::default(); history.lives.len()];
    let mut violations = Vec::new();
    for Entry { at, event } in &history.entries {
        match *event {
            HistoryEvent::FaultInjected(_, _, until) => {
                polls_by_candidate
                    .iter_mut()
                    .for_each(|polls| polls.reset(until.max(*at) + SETTLE_TIME));
            }
            HistoryEvent::Started(candidate) | HistoryEvent::StepFailed(candidate) => {
                polls_by_candidate[candidate].reset(*at)
            }
            HistoryEvent::Answered(count, Answer { status: 200, .. })
                if is_poll(history, count) => {}
            HistoryEvent::Answered(count, _) | HistoryEvent::RequestFailed(count) => {
                polls_by_candidate[history.requests[count].candidate].reset(*at);
            }
            HistoryEvent::Sent(count) if is_poll(history, count) => {
                let candidate = history.requests[count].candidate;
                violations.extend(on_poll(
                    &mut polls_by_candidate[candidate],
                    candidate,
                    *at,
                    history,
                ));
            }
            HistoryEvent::Sent(count) => {
                polls_by_candidate[history.requests[count].candidate].reset(*at + SETTLE_TIME)
            }
            _ => {}
        }
    }
    violations
}

fn is_poll(history: &History, count: usize) -> bool {
    history.requests[count].step == Step::Poll
}

fn on_poll(
    polls: &mut Polls,
    candidate: CandidateId,
    at: Millis,
    history: &History,
) -> Option<Violation> {
    if at < polls.counts_from {
        return None;
    }
    polls.recent.push_back(at);
    while polls.recent.front().is_some_and(|first| first + MINUTE <= at) {
        polls.recent.pop_front();
    }
    // Each candidate waits at least half of the poll interval, or polls as often as leaders beat.
    let periods = history.lives[candidate].periods;
    let poll_interval = periods.failover.map_or(periods.poll / 2, |failover| failover / 6);
    let shortest = poll_interval.min(periods.poll / 2).max(1) * 98 / 100;
    let most = MINUTE.div_ceil(shortest) + 1 + MAX_EXTRA_POLLS;
    let count = polls.recent.len() as u64;
    (count > most).then(|| {
        polls.recent.clear();
        violation("hints", at, format!("c{candidate} polls {count} times in a minute"))
    })
}
