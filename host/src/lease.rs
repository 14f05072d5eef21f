//! Leadership under which work runs (protocol.md §11), and the trace span of a turn.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tenure_clock::ClockHandle;
#[cfg(feature = "mutants")]
use tenure_core::mutants::{Mutant, is_active};
use tenure_core::nanoseconds;
use tokio::sync::Notify;

/// Leadership of this process for one term, under which its work runs.
///
/// Renewals extend the lease. It can also end early, for example when the candidate leaves. Clones
/// share their state.
#[derive(Clone, Debug)]
pub struct Lease {
    term: u64,
    clock: ClockHandle,
    /// End of the time in which work may run, in nanoseconds on the clock.
    valid_until: Arc<AtomicU64>,
    /// Notifies waiters when `valid_until` changes.
    changed: Arc<Notify>,
}

impl Lease {
    /// Creates the lease of a leader of `term`, which may act until the instant `valid_until` of
    /// `clock`.
    ///
    /// This is for tests of a handler, and for programs that call handlers themselves.
    pub fn new(term: u64, clock: ClockHandle, valid_until: Duration) -> Self {
        let valid_until = Arc::new(AtomicU64::new(nanoseconds(valid_until)));
        Self { term, clock, valid_until, changed: Arc::default() }
    }

    /// Returns the fencing token. Send it with each write; the sink rejects terms smaller than the
    /// largest one it has seen.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Returns the time for which this process may still act, without further renewals. Returns
    /// zero once leadership has ended.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.valid_until().saturating_sub(self.clock.now())
    }

    /// Returns the time until which this process may act without further renewals, by the wall
    /// clock of this machine.
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

    /// Waits until this process must not act any more. Completes at most 100 ms after that.
    ///
    /// A handler awaits this to stop work that it started and cannot drop, such as spawned tasks.
    /// This method is cancel safe.
    pub async fn lost(&self) {
        loop {
            let remaining = self.remaining();
            if remaining.is_zero() {
                return;
            }
            // The lease can end early, and timers stop while the machine is suspended.
            tokio::time::sleep(remaining.min(Duration::from_millis(100))).await;
        }
    }

    /// Returns the time since the deadline. Returns zero before the deadline.
    pub(crate) fn overdue(&self) -> Duration {
        self.clock.now().saturating_sub(self.valid_until())
    }

    /// Returns true if `other` is a clone of this lease.
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

    /// Ends the lease at once.
    pub(crate) fn end(&self) {
        self.set_valid_until(Duration::ZERO);
    }

    /// Waits until the deadline changes from `known`.
    #[cfg(unix)]
    pub(crate) async fn changed_from(&self, known: Duration) {
        loop {
            let mut notified = std::pin::pin!(self.changed.notified());
            // From here on no change is missed.
            notified.as_mut().enable();
            if self.valid_until() != known {
                return;
            }
            notified.await;
        }
    }
}

tokio::task_local! {
    static CURRENT: TraceParent;
}

/// Span of a turn, as in the header `traceparent` of [W3C Trace Context].
///
/// A host that traces turns runs them in a [`scope`](Self::scope). The span is then passed on in
/// these places:
///
/// - `TRACEPARENT` in the environment of a command or a component
/// - the header of their requests, unless a request already has that header
/// - the header of the requests of a webhook
///
/// A handler in Rust reads the [`current`](Self::current) span.
///
/// [W3C Trace Context]: https://www.w3.org/TR/trace-context/#traceparent-header
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// Trace id, not zero.
    pub trace: u128,
    /// Span id, not zero.
    pub span: u64,
    /// True if the trace is recorded.
    pub sampled: bool,
}

impl TraceParent {
    /// Returns the span of the current turn. Returns `None` if it is not traced, or in a task that
    /// the turn has spawned.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(|current| *current).ok()
    }

    /// Runs a turn in this span.
    pub async fn scope<F: Future>(self, turn: F) -> F::Output {
        CURRENT.scope(self, turn).await
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace, span, sampled } = self;
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", u8::from(*sampled))
    }
}

#[cfg(test)]
mod trace_parent_tests {
    use super::*;

    #[tokio::test]
    async fn the_trace_parent_is_visible_in_its_scope_only() {
        let parent = TraceParent { trace: 0xabc, span: 7, sampled: true };
        assert_eq!(parent.to_string(), "00-00000000000000000000000000000abc-0000000000000007-01");
        assert_eq!(parent.scope(async { TraceParent::current() }).await, Some(parent));
        assert_eq!(TraceParent::current(), None);
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
