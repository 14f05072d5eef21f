//! Clock that all processes of a machine read alike.

use super::{BootClock, Clock as _};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// System clock with the same origin in all processes. On Linux and Android it counts while the
/// machine is suspended.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Returns the time since an instant that all processes share until the machine restarts.
pub fn now() -> Duration {
    let time = clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Waits until [`now`] is at least `at`. Returns at once if the machine resumes after `at`.
pub async fn sleep_until(at: Duration) {
    let clock = BootClock::new();
    loop {
        let remaining = at.saturating_sub(now());
        if remaining.is_zero() {
            return;
        }
        clock.sleep_until(clock.now().saturating_add(remaining)).await;
    }
}
