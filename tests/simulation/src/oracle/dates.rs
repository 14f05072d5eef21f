//! What the dates of answers tell a candidate of the service's time. protocol.md §8.
//!
//! The judge keeps books of its own, from the dates that reached the candidate and from the candidate's
//! clock. Wrong dates, dates that stand still and a service's clock that was set are nothing special here.

use super::super::fault::Step;
use super::super::history::{Asked, History, What, Who};
use super::super::world::Millis;
use super::calm::between;

const SECOND: u64 = 1_000_000_000;

/// Dates that differ by no more agree.
const FAR: u64 = 10 * SECOND;

/// A date, or the sharper time that dates before it came to, and what the candidate's clock showed then.
#[derive(Clone, Copy)]
struct Reading {
    time: u64,
    shown: u64,
}

impl Reading {
    /// The time later, when the clock shows `shown`: 99 % of what it counted are trusted.
    fn later(self, shown: u64) -> u64 {
        let passed = shown - self.shown;
        self.time + (passed - passed / 100)
    }

    /// A date that agrees with this reading. It has whole seconds: within its second the time that was
    /// known before is the sharper one.
    fn agreed(self, date: u64, shown: u64) -> Option<Self> {
        let known = self.later(shown);
        let time = known.clamp(date, date + SECOND);
        (known.abs_diff(date) <= FAR).then_some(Self { time, shown })
    }
}

/// The service's time at `at`, as the dates tell it that reached the candidate. None before two of them
/// agreed.
pub fn told(history: &History, who: Who, at: Millis) -> Option<u64> {
    let clock = history.lives[who].rate;
    // The one that counts, and the newest that agreed with none before.
    let (mut known, mut odd) = (None::<Reading>, None::<Reading>);
    for entry in between(history, 0, at) {
        match entry.what {
            // What it forgets at that instant, it knew when it sent something then.
            What::Forgot(one) if one == who && entry.at < at => (known, odd) = (None, None),
            What::Answered(number, _) => {
                let Some(date) = date(who, &history.asked[number]) else { continue };
                let shown = clock.shows(entry.at);
                let both = [known, odd].into_iter().flatten();
                match both.clone().find_map(|reading| reading.agreed(date, shown)) {
                    Some(agreed) => (known, odd) = (Some(agreed), None),
                    None => odd = Some(Reading { time: date, shown }),
                }
            }
            _ => {}
        }
    }
    Some(known?.later(clock.shows(at)))
}

/// The date of an answer to this candidate, unless it is of a blob beside the election's: nothing is
/// learnt from those.
fn date(who: Who, asked: &Asked) -> Option<u64> {
    asked.told.filter(|_| asked.who == who && !matches!(asked.step, Step::SideBlob | Step::List))
}
