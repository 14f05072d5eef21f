//! The leadership under which work runs. protocol.md §11.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tenure_clock::ClockHandle;
#[cfg(feature = "mutants")]
use tenure_core::mutants::{Mutant, is_active};
use tenure_core::nanoseconds;
use tokio::sync::Notify;

/// The leadership under which work runs, as it is at the moment: a renewal prolongs it, and its end may come early. Clones
/// see the same.
#[derive(Clone, Debug)]
pub struct Lease {
    term: u64,
    clock: ClockHandle,
    /// Until when work may go on, in nanoseconds on the clock.
    valid_until: Arc<AtomicU64>,
    /// Those who wait for that instant to be moved.
    changed: Arc<Notify>,
}

impl Lease {
    /// Creates the lease of a leader of `term`, which may act until the instant `until` of `clock`. For tests of a handler,
    /// and for programs that call one themselves.
    pub fn new(term: u64, clock: ClockHandle, valid_until: Duration) -> Self {
        let valid_until = Arc::new(AtomicU64::new(nanoseconds(valid_until)));
        Self { term, clock, valid_until, changed: Arc::default() }
    }

    /// Returns the fencing token: send it to whatever the work writes to, which refuses a smaller one than it has seen.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Returns how long this process may still act, unless a renewal adds to it. Zero once the leadership is over.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.valid_until().saturating_sub(self.clock.now())
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
            return self.valid_until().is_zero();
        }
        self.remaining().is_zero()
    }

    /// Waits until this process must not act any more, at most 100 ms longer. A handler awaits it for what it has started
    /// and cannot drop. Nothing is lost when the future is dropped.
    pub async fn lost(&self) {
        loop {
            let remaining = self.remaining();
            if remaining.is_zero() {
                return;
            }
            // It can end early, and timers stand still while a machine sleeps.
            tokio::time::sleep(remaining.min(Duration::from_millis(100))).await;
        }
    }

    /// Returns how long ago the work must have ended.
    pub(crate) fn overdue(&self) -> Duration {
        self.clock.now().saturating_sub(self.valid_until())
    }

    /// Returns true if this is a clone of `other`.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.valid_until, &other.valid_until)
    }

    pub(crate) fn valid_until(&self) -> Duration {
        Duration::from_nanos(self.valid_until.load(Ordering::SeqCst))
    }

    pub(crate) fn set_valid_until(&self, valid_until: Duration) {
        self.valid_until.store(nanoseconds(valid_until), Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Ends it at once.
    pub(crate) fn end(&self) {
        self.set_valid_until(Duration::ZERO);
    }

    /// Completes as soon as it ends at another instant than `known`.
    #[cfg(unix)]
    pub(crate) async fn changed_from(&self, known: Duration) {
        loop {
            let mut notified = std::pin::pin!(self.changed.notified());
            // From here on no move is missed.
            notified.as_mut().enable();
            if self.valid_until() != known {
                return;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_clock::{BootClock, Clock as _};

    #[tokio::test]
    async fn lost_completes_when_the_deadline_moves_earlier() {
        let clock = BootClock::new();
        let lease = Lease::new(1, clock.handle(), Duration::MAX);
        let mut lost = std::pin::pin!(lease.lost());
        let at_once = tokio::time::timeout(Duration::ZERO, &mut lost).await;
        assert!(at_once.is_err(), "it is held");
        lease.set_valid_until(clock.now() + Duration::from_millis(1));
        lost.await;
        assert!(lease.is_lost());
    }
}
