//! The instant at which the work of a leader must have ended. protocol.md §11.

use crate::clock::Reading;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
#[cfg(feature = "mutants")]
use tenure_core::mutants::{Mutant, is_active};
use tenure_core::nanoseconds;
use tokio::sync::Notify;

/// How long a turn may go on, at the moment: renewals move it on, the end of the leadership
/// moves it into the past. Clones see the same instant.
#[derive(Clone, Debug)]
pub struct Deadline {
    clock: Reading,
    /// Nanoseconds on the clock.
    at: Arc<AtomicU64>,
    /// Those who wait for it to be moved.
    moved: Arc<Notify>,
}

impl Deadline {
    /// A deadline at the instant `at` of `clock`.
    pub fn new(clock: Reading, at: Duration) -> Self {
        let at = Arc::new(AtomicU64::new(nanoseconds(at)));
        Self { clock, at, moved: Arc::default() }
    }

    /// Whether the work must have ended by now.
    pub fn passed(&self) -> bool {
        #[cfg(feature = "mutants")]
        if is_active(Mutant::DeadlineIgnored) {
            return self.at().is_zero();
        }
        self.remaining().is_zero()
    }

    /// How long the work may still go on, unless a renewal adds to it. Zero once it is over.
    pub fn remaining(&self) -> Duration {
        self.at().saturating_sub(self.clock.now())
    }

    /// Completes when the work must have ended, at most 100 ms late: for what a handler has started and cannot drop. Cancel
    /// safe.
    pub async fn over(&self) {
        loop {
            let left = self.remaining();
            if left.is_zero() {
                return;
            }
            // It can be moved to an earlier instant, and timers stand still while a machine sleeps.
            tokio::time::sleep(left.min(Duration::from_millis(100))).await;
        }
    }

    /// How long ago the work must have ended.
    pub(crate) fn overdue(&self) -> Duration {
        self.clock.now().saturating_sub(self.at())
    }

    /// Whether this is a clone of `other`.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.at, &other.at)
    }

    pub(crate) fn at(&self) -> Duration {
        Duration::from_nanos(self.at.load(Ordering::SeqCst))
    }

    pub(crate) fn set(&self, at: Duration) {
        self.at.store(nanoseconds(at), Ordering::SeqCst);
        self.moved.notify_waiters();
    }

    /// Completes as soon as the deadline is another instant than `known`.
    #[cfg(unix)]
    pub(crate) async fn moved_from(&self, known: Duration) {
        loop {
            let mut moved = std::pin::pin!(self.moved.notified());
            // From here on no move is missed.
            moved.as_mut().enable();
            if self.at() != known {
                return;
            }
            moved.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{BootClock, Clock as _};

    #[tokio::test]
    async fn whoever_waits_for_its_end_hears_of_an_earlier_one() {
        let clock = BootClock::new();
        let deadline = Deadline::new(clock.reading(), Duration::MAX);
        let mut over = std::pin::pin!(deadline.over());
        let at_once = tokio::time::timeout(Duration::ZERO, &mut over).await;
        assert!(at_once.is_err(), "it is not over");
        deadline.set(clock.now() + Duration::from_millis(1));
        over.await;
        assert!(deadline.passed());
    }
}
