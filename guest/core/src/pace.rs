//! When to ask again.

use core::time::Duration;

use super::Moment;
use super::chance::{Chance, jittered};
use serde::{Deserialize, Serialize};

/// The first wait after a failure that was already repeated once.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// The next attempt at something, and how many failed before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pace {
    pub next: Moment,
    pub failures: u32,
}

impl Pace {
    /// Due at `next`, nothing failed yet.
    pub fn at(next: Moment) -> Self {
        Self { next, failures: 0 }
    }

    /// Records a failure and schedules the retry. The first is repeated at once, because an idle
    /// pooled connection dies exactly when a request goes out on it; later ones
    /// wait, twice as long each time and never longer than `most`, with jitter.
    pub fn failed(&mut self, now: Moment, most: Duration, chance: &mut dyn Chance) {
        let wait = match self.failures {
            0 => Duration::ZERO,
            n => jittered(most.min(FIRST_WAIT.saturating_mul(1 << (n - 1).min(16))), chance),
        };
        self.failures = self.failures.saturating_add(1);
        self.next = now + wait;
    }
}
