//! What the dates of answers tell a candidate of the service's time. protocol.md §8.
//!
//! The judge keeps books of its own, from the dates that reached the candidate and from the candidate's
//! clock. Wrong dates, dates that stand still and a service's clock that was set are nothing special here.

use super::super::fault::Step;
use super::super::history::{SentRequest, History, HistoryEvent, CandidateId};
use super::super::world::Millis;
use super::calm::between;

const SECOND: u64 = 1_000_000_000;

/// Dates that differ by no more agree.
const MAX_DATE_DIFFERENCE: u64 = 10 * SECOND;

/// A date, or the sharper time that dates before it came to, and what the candidate's clock showed then.
#[derive(Clone, Copy)]
struct Reading {
    time: u64,
    clock_reading: u64,
}

impl Reading {
    /// The time later, when the clock shows `shown`: 99 % of what it counted are trusted.
    fn time_at(self, clock_reading: u64) -> u64 {
        let elapsed = clock_reading - self.clock_reading;
        self.time + (elapsed - elapsed / 100)
    }

    /// A date that agrees with this reading. It has whole seconds: within its second the time that was
    /// known before is the sharper one.
    fn reconcile(self, date: u64, clock_reading: u64) -> Option<Self> {
        let estimate = self.time_at(clock_reading);
        let time = estimate.clamp(date, date + SECOND);
        (estimate.abs_diff(date) <= MAX_DATE_DIFFERENCE).then_some(Self { time, clock_reading })
    }
}

/// The service's time at `at`, as the dates tell it that reached the candidate. None before two of them
/// agreed.
pub fn estimated_time(history: &History, candidate: CandidateId, at: Millis) -> Option<u64> {
    let clock = history.lives[candidate].rate;
    // The one that counts, and the newest that agreed with none before.
    let (mut estimate, mut unmatched) = (None::<Reading>, None::<Reading>);
    for entry in between(history, 0, at) {
        match entry.event {
            // What it forgets at that instant, it knew when it sent something then.
            HistoryEvent::StepFailed(failed) if failed == candidate && entry.at < at => (estimate, unmatched) = (None, None),
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

/// The date of an answer to this candidate, unless it is of a blob beside the election's: nothing is
/// learnt from those.
fn date(candidate: CandidateId, request: &SentRequest) -> Option<u64> {
    request.reported_time.filter(|_| request.candidate == candidate && !matches!(request.step, Step::SideBlob | Step::List))
}
