//! Retry schedule.

use core::time::Duration;

use super::chance::{Chance, jitter};
use crate::Moment;
use serde::{Deserialize, Serialize};

/// The first wait after a failure that was already repeated once.
const FIRST_BACK_OFF: Duration = Duration::from_millis(100);

/// The next try of a request, and the number of failed tries before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RetrySchedule {
    pub next_at: Moment,
    pub failures: u32,
}

impl RetrySchedule {
    /// Creates a schedule that is due at `next_at`, without failures.
    pub fn due_at(next_at: Moment) -> Self {
        Self { next_at, failures: 0 }
    }

    /// Records a failure and schedules the retry. The first retry is immediate, because an idle
    /// pooled connection often fails on its next request. Later ones wait, doubling up to
    /// `longest_wait`, with jitter.
    pub fn on_failure(&mut self, now: Moment, longest_wait: Duration, chance: &mut dyn Chance) {
        let wait = match self.failures {
            0 => Duration::ZERO,
            n => jitter(
                longest_wait.min(FIRST_BACK_OFF.saturating_mul(1 << (n - 1).min(16))),
                chance,
            ),
        };
        self.failures = self.failures.saturating_add(1);
        self.next_at = now + wait;
    }
}
