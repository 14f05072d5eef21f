//! Suspend-aware clock shared by the runner, the component and the handler.
//!
//! A leader's validity must also expire while the machine is suspended, so the clock counts
//! suspended time. If the machine resumes after the wake-up instant of a sleep, the sleep ends at
//! once.

#![deny(missing_docs)]

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock that never goes back and counts while the machine is suspended.
///
/// Instants are durations since an origin that the clock chooses. Clones share that origin.
pub trait Clock: Clone + Send + Sync + 'static {
    /// Returns the time since the origin.
    fn now(&self) -> Duration;

    /// Waits until [`now`](Clock::now) is at least `at`.
    fn sleep_until(&self, at: Duration) -> impl Future<Output = ()> + Send;

    /// Returns [`now`](Clock::now), and the clock's lead: the total time by which it may have run
    /// ahead of real time.
    ///
    /// Both come from one read of the clock, because a second read could differ.
    fn read(&self) -> (Duration, Duration) {
        (self.now(), Duration::ZERO)
    }

    /// Returns a read-only handle to this clock.
    fn handle(&self) -> ClockHandle {
        let clock = self.clone();
        ClockHandle(Arc::new(move || clock.read()))
    }
}

/// Read-only handle to a [`Clock`] of any type.
#[derive(Clone)]
pub struct ClockHandle(Arc<dyn Fn() -> (Duration, Duration) + Send + Sync>);

impl ClockHandle {
    /// Creates a handle that reads `now`, for tests.
    #[cfg(any(test, feature = "test-util"))]
    pub fn from_fn(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(move || (now(), Duration::ZERO)))
    }

    /// Returns the time since the origin of the clock.
    pub fn now(&self) -> Duration {
        self.read().0
    }

    /// Returns the same values as [`Clock::read`].
    pub fn read(&self) -> (Duration, Duration) {
        (self.0)()
    }

    /// Returns a handle to this clock whose next read takes the value of `first`, in nanoseconds,
    /// unless that is 0.
    ///
    /// The next reader thus gets the time of an earlier read. A freeze of the process between the
    /// two then counts as elapsed time.
    pub fn with_first_read(&self, first: &Arc<AtomicU64>) -> Self {
        let (clock, first) = (self.clone(), first.clone());
        Self(Arc::new(move || match first.swap(0, Ordering::Relaxed) {
            0 => clock.read(),
            first => (Duration::from_nanos(first), Duration::ZERO),
        }))
    }

    /// Returns a handle to this clock minus its lead, so that it never runs ahead of real time.
    ///
    /// Within a step only differences count, and every span of a leader counts from before its
    /// request. The handle is therefore correct for leaders and followers.
    pub fn without_lead(&self) -> Self {
        let clock = self.clone();
        Self(Arc::new(move || {
            let (now, clock_lead) = clock.read();
            (now.saturating_sub(clock_lead), Duration::ZERO)
        }))
    }
}

impl fmt::Debug for ClockHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClockHandle({:?})", self.now())
    }
}

/// Clock of the machine, counted from its first use in this process. All instances agree.
///
/// It reads `CLOCK_BOOTTIME` on Linux. On other systems it follows the monotonic clock or the wall
/// clock, whichever moved further since the last read. One of the two usually counts while the
/// machine is suspended. [`Clock::read`] also returns how far the slower one has fallen behind, for
/// events that must not come too early.
#[derive(Clone, Debug)]
pub struct BootClock(system::System);

impl BootClock {
    /// Creates a handle to the clock of this process.
    pub fn new() -> Self {
        Self(system::System::new())
    }
}

impl Default for BootClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for BootClock {
    fn now(&self) -> Duration {
        self.0.read().0
    }

    fn read(&self) -> (Duration, Duration) {
        self.0.read()
    }

    async fn sleep_until(&self, at: Duration) {
        // Any timer may fire early by its own measure; only `now` counts.
        while self.now() < at {
            self.0.sleep(at).await;
        }
    }
}

#[cfg(target_os = "linux")]
mod system {
    use super::shared::now as boottime;
    use super::timer::Timer;
    use std::fmt;
    use std::sync::{Arc, LazyLock};
    use std::time::Duration;

    /// Shared by all clocks of the process, so that an elector and its runner agree.
    static ORIGIN: LazyLock<Duration> = LazyLock::new(boottime);

    #[derive(Clone)]
    pub(super) struct System {
        timer: Arc<Timer>,
    }

    impl System {
        pub(super) fn new() -> Self {
            let _ = *ORIGIN;
            Self { timer: Arc::default() }
        }

        pub(super) fn read(&self) -> (Duration, Duration) {
            (boottime().saturating_sub(*ORIGIN), Duration::ZERO)
        }

        pub(super) async fn sleep(&self, at: Duration) {
            if self.timer.sleep(ORIGIN.saturating_add(at)).await.is_err() {
                // Tokio's timers stop while the machine is suspended, so this fallback sleeps in
                // short steps.
                let remaining = at.saturating_sub(self.read().0);
                tokio::time::sleep(remaining.min(Duration::from_millis(10))).await;
            }
        }
    }

    impl fmt::Debug for System {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("System").field("origin", &*ORIGIN).finish_non_exhaustive()
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use chrono::Utc;
    use std::sync::{LazyLock, Mutex, PoisonError};
    use std::time::{Duration, Instant};
    use tenure_core::ElapsedClock;

    /// Shared by all clocks of the process, so that an elector and its runner agree.
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

    /// Time of all clocks of the process. It neither goes back nor stops if the wall clock is set
    /// back.
    static TIME: LazyLock<Mutex<ElapsedClock>> =
        LazyLock::new(|| Mutex::new(ElapsedClock::new(ORIGIN.elapsed(), Utc::now())));

    #[derive(Clone, Debug)]
    pub(super) struct System;

    impl System {
        pub(super) fn new() -> Self {
            let this = Self;
            let _ = this.read();
            this
        }

        pub(super) fn read(&self) -> (Duration, Duration) {
            let mut time = TIME.lock().unwrap_or_else(PoisonError::into_inner);
            (time.read(ORIGIN.elapsed(), Utc::now()), time.clock_lead())
        }

        pub(super) async fn sleep(&self, at: Duration) {
            // Sleeps in short steps, because the timer may stop while the machine is suspended.
            let remaining = at.saturating_sub(self.read().0);
            tokio::time::sleep(remaining.min(Duration::from_millis(100))).await;
        }
    }
}

#[cfg(unix)]
pub mod shared;
#[cfg(target_os = "linux")]
mod timer;
#[cfg(any(test, feature = "test-util"))]
#[allow(clippy::unwrap_used, clippy::expect_used, reason = "only tests use this module")]
pub mod virtual_time;

#[cfg(test)]
mod tests {
    use super::{BootClock, Clock, ClockHandle};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    #[test]
    fn a_preset_first_read_is_returned_once() {
        let (clock, first) =
            (ClockHandle::from_fn(|| Duration::from_secs(9)), Arc::new(AtomicU64::new(0)));
        let clock = clock.with_first_read(&first);
        assert_eq!(clock.now(), Duration::from_secs(9));
        // The process was frozen in between.
        first.store(4_000_000_000, Ordering::Relaxed);
        assert_eq!(clock.now(), Duration::from_secs(4));
        assert_eq!(clock.now(), Duration::from_secs(9));
    }

    #[test]
    fn a_handle_prints_its_time() {
        let clock = ClockHandle::from_fn(|| Duration::from_secs(9));
        assert_eq!(format!("{clock:?}"), "ClockHandle(9s)");
    }

    #[tokio::test]
    async fn sleep_until_wakes_at_the_instant_and_not_before() {
        let clock = BootClock::new();
        let at = clock.now() + Duration::from_millis(1);
        clock.sleep_until(at).await;
        assert!(clock.now() >= at);
        clock.sleep_until(Duration::ZERO).await;
    }

    #[test]
    fn all_clocks_of_a_process_agree() {
        let old = BootClock::new();
        std::thread::sleep(Duration::from_millis(2));
        let new = BootClock::new();
        let (first, second, third) = (old.now(), new.now(), old.now());
        assert!(first <= second && second <= third, "{first:?} {second:?} {third:?}");
    }
}
