//! The leadership under which work runs. protocol.md §11.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tenure_clock::Reading;
#[cfg(feature = "mutants")]
use tenure_core::mutants::{Mutant, is_active};
use tenure_core::nanoseconds;
use tokio::sync::Notify;

/// The leadership under which work runs, as it is at the moment: a renewal prolongs it, and its end may come early. Clones
/// see the same.
#[derive(Clone, Debug)]
pub struct Lease {
    term: u64,
    clock: Reading,
    /// Until when work may go on, in nanoseconds on the clock.
    until: Arc<AtomicU64>,
    /// Those who wait for that instant to be moved.
    moved: Arc<Notify>,
}

impl Lease {
    /// Creates the lease of a leader of `term`, which may act until the instant `until` of `clock`. For tests of a handler,
    /// and for programs that call one themselves.
    pub fn new(term: u64, clock: Reading, until: Duration) -> Self {
        let until = Arc::new(AtomicU64::new(nanoseconds(until)));
        Self { term, clock, until, moved: Arc::default() }
    }

    /// Returns the fencing token: send it to whatever the work writes to, which refuses a smaller one than it has seen.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Returns how long this process may still act, unless a renewal adds to it. Zero once the leadership is over.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.until().saturating_sub(self.clock.now())
    }

    /// Returns until when this process may act, unless a renewal adds to it, by the time of day of this machine.
    #[must_use]
    pub fn deadline(&self) -> SystemTime {
        SystemTime::now() + self.remaining()
    }

    /// Returns true if this process must not act any more.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        #[cfg(feature = "mutants")]
        if is_active(Mutant::DeadlineIgnored) {
            return self.until().is_zero();
        }
        self.remaining().is_zero()
    }

    /// Waits until this process must not act any more, at most 100 ms longer. A handler awaits it for what it has started
    /// and cannot drop. Nothing is lost when the future is dropped.
    pub async fn lost(&self) {
        loop {
            let left = self.remaining();
            if left.is_zero() {
                return;
            }
            // It can end early, and timers stand still while a machine sleeps.
            tokio::time::sleep(left.min(Duration::from_millis(100))).await;
        }
    }

    /// Returns how long ago the work must have ended.
    pub(crate) fn overdue(&self) -> Duration {
        self.clock.now().saturating_sub(self.until())
    }

    /// Returns true if this is a clone of `other`.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.until, &other.until)
    }

    pub(crate) fn until(&self) -> Duration {
        Duration::from_nanos(self.until.load(Ordering::SeqCst))
    }

    pub(crate) fn set(&self, until: Duration) {
        self.until.store(nanoseconds(until), Ordering::SeqCst);
        self.moved.notify_waiters();
    }

    /// Ends it at once.
    pub(crate) fn end(&self) {
        self.set(Duration::ZERO);
    }

    /// Completes as soon as it ends at another instant than `known`.
    #[cfg(unix)]
    pub(crate) async fn moved_from(&self, known: Duration) {
        loop {
            let mut moved = std::pin::pin!(self.moved.notified());
            // From here on no move is missed.
            moved.as_mut().enable();
            if self.until() != known {
                return;
            }
            moved.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_clock::{BootClock, Clock as _};

    #[tokio::test]
    async fn a_process_that_waits_for_its_loss_notices_an_earlier_one() {
        let clock = BootClock::new();
        let lease = Lease::new(1, clock.reading(), Duration::MAX);
        let mut lost = std::pin::pin!(lease.lost());
        let at_once = tokio::time::timeout(Duration::ZERO, &mut lost).await;
        assert!(at_once.is_err(), "it is held");
        lease.set(clock.now() + Duration::from_millis(1));
        lost.await;
        assert!(lease.is_lost());
    }
}
