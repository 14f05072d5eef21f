//! Periods without faults, in which a leader must do what is due.

use super::super::fault::{Fault, Step};
use super::super::history::{Answer, CandidateId, Entry, History, HistoryEvent};
use super::super::world::Millis;

/// Time after a fault in which its effects may last.
pub const AFTERMATH: Millis = 10_000;

/// Fault periods: start, end, and the affected candidate; `None` for the service or the whole
/// network.
pub struct FaultPeriods(Vec<(Millis, Millis, Option<CandidateId>)>);

impl FaultPeriods {
    /// Returns the fault periods of a whole history.
    pub fn from_history(history: &History) -> Self {
        // A handover is drawn like a fault but is none.
        Self::excluding(history, &[Fault::HandOver])
    }

    /// Returns the fault periods of a whole history, without the given faults.
    pub fn excluding(history: &History, faults: &[Fault]) -> Self {
        let injected = history.entries.iter().filter_map(|Entry { at, event }| match *event {
            HistoryEvent::FaultInjected(fault, ..) if faults.contains(&fault) => None,
            HistoryEvent::FaultInjected(_, candidate, until) => Some((*at, until, candidate)),
            _ => None,
        });
        Self(injected.collect())
    }

    /// Returns true if no fault affected one of these candidates, or the service, from
    /// [`AFTERMATH`] before `from` until `to`.
    pub fn is_calm(&self, candidates: &[CandidateId], from: Millis, to: Millis) -> bool {
        let from = from.saturating_sub(AFTERMATH);
        !self.0.iter().any(|(at, until, candidate)| {
            *at <= to
                && *until >= from
                && candidate.is_none_or(|candidate| candidates.contains(&candidate))
        })
    }
}

/// A leadership, from when its leader learned of it until it was disturbed.
pub struct Leadership {
    pub candidate: CandidateId,
    pub term: u64,
    pub lease: Option<u128>,
    pub from: Millis,
    pub to: Millis,
}

impl Leadership {
    /// Returns all leaderships whose first write was answered.
    pub fn from_history(history: &History) -> Vec<Self> {
        let wins = history.wins();
        let ends = wins.iter().skip(1).map(|win| win.entry).chain([history.entries.len()]);
        wins.iter()
            .zip(ends)
            .filter_map(|(win, end)| {
                let entries = &history.entries[win.entry..end];
                let start = entries.iter().position(|entry| match entry.event {
                    HistoryEvent::Answered(number, Answer { status: 200..=299, .. }) => {
                        let request = &history.requests[number];
                        (request.candidate, request.step, request.lease)
                            == (win.candidate, Step::Raise, win.lease)
                    }
                    _ => false,
                })?;
                let entries = &entries[start..];
                let end = entries
                    .iter()
                    .find(|entry| ends_leadership(history, win.candidate, entry.event));
                let last = end.or(entries.last()).map(|entry| entry.at);
                let (from, to) = (entries[0].at, last?);
                Some(Self { candidate: win.candidate, term: win.term, lease: win.lease, from, to })
            })
            .collect()
    }
}

/// Returns true if the event ends a leadership, or makes its leader leave.
pub fn ends_leadership(history: &History, candidate: CandidateId, event: HistoryEvent) -> bool {
    match event {
        HistoryEvent::Killed(ended)
        | HistoryEvent::LeaveRequested(ended)
        | HistoryEvent::Left(ended)
        | HistoryEvent::StepFailed(ended) => ended == candidate,
        HistoryEvent::Sent(number) => {
            let request = &history.requests[number];
            let is_follower_step = matches!(
                request.step,
                Step::Poll | Step::CreateBlob | Step::Acquire | Step::Release | Step::HandOver
            );
            request.candidate == candidate && is_follower_step
        }
        _ => false,
    }
}

/// Returns the entries from `from` to `to`, both included.
pub fn between(history: &History, from: Millis, to: Millis) -> &[Entry] {
    let first = history.entries.partition_point(|entry| entry.at < from);
    let end = history.entries.partition_point(|entry| entry.at <= to);
    &history.entries[first..end.max(first)]
}

/// Returns the time of four round trips.
pub fn four_round_trips(history: &History) -> Millis {
    8 * history.latency
}

/// Returns the length of a period on a clock that is 1 % slow.
pub fn on_slow_clock(period: Millis) -> Millis {
    period + period / 50
}
