//! A candidate's estimate of the service's time, from the dates of responses (protocol.md §8).
//!
//! The oracle computes the estimate itself, from the dates that reached the candidate and the
//! candidate's clock. Wrong dates, frozen dates and steps of the service's clock need no special
//! case.

use super::super::fault::Step;
use super::super::history::{CandidateId, History, HistoryEvent, SentRequest};
use super::super::world::Millis;
use super::fault_periods::between;

const SECOND: u64 = 1_000_000_000;

/// Largest difference between two dates that agree.
const MAX_DATE_DIFFERENCE: u64 = 10 * SECOND;

/// A date, or the sharper estimate from earlier dates, with the reading of the candidate's clock
/// then.
#[derive(Clone, Copy)]
struct Reading {
    time: u64,
    clock_reading: u64,
}

impl Reading {
    /// Returns the estimate at a later reading. It trusts 99 % of the elapsed time.
    fn time_at(self, clock_reading: u64) -> u64 {
        let elapsed = clock_reading - self.clock_reading;
        self.time + (elapsed - elapsed / 100)
    }

    /// Returns a new reading if the date agrees with this one.
    ///
    /// Dates have whole seconds, so the estimate is sharper than the date within the date's second.
    fn reconcile(self, date: u64, clock_reading: u64) -> Option<Self> {
        let estimate = self.time_at(clock_reading);
        let time = estimate.clamp(date, date + SECOND);
        (estimate.abs_diff(date) <= MAX_DATE_DIFFERENCE).then_some(Self { time, clock_reading })
    }
}

/// Returns the service's time at `at`, estimated from the dates that reached the candidate.
///
/// Returns `None` before two dates agreed.
pub fn estimated_time(history: &History, candidate: CandidateId, at: Millis) -> Option<u64> {
    let clock = history.lives[candidate].rate;
    // The reading in use, and the newest that no earlier date matched.
    let (mut estimate, mut unmatched) = (None::<Reading>, None::<Reading>);
    for entry in between(history, 0, at) {
        match entry.event {
            // A candidate that loses its state in this instant still knew it when it sent a
            // request.
            HistoryEvent::StepFailed(failed) if failed == candidate && entry.at < at => {
                (estimate, unmatched) = (None, None)
            }
            HistoryEvent::Answered(number, _) => {
                let Some(date) = date(candidate, &history.requests[number]) else { continue };
                let clock_reading = clock.reading_at(entry.at);
                let readings = [estimate, unmatched].into_iter().flatten();
                match readings.clone().find_map(|reading| reading.reconcile(date, clock_reading)) {
                    Some(agreed) => (estimate, unmatched) = (Some(agreed), None),
                    None => unmatched = Some(Reading { time: date, clock_reading }),
                }
            }
            _ => {}
        }
    }
    Some(estimate?.time_at(clock.reading_at(at)))
}

/// Returns the date of a response to this candidate.
///
/// Candidates ignore the dates of blobs other than the election's.
fn date(candidate: CandidateId, request: &SentRequest) -> Option<u64> {
    request.reported_time.filter(|_| {
        request.candidate == candidate && !matches!(request.step, Step::SideBlob | Step::List)
    })
}
