//! A clock that jumps: its readers see a suspended machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_clock::{BootClock, Clock};

const STEP: Duration = Duration::from_millis(5);

#[derive(Clone, Debug)]
pub struct JumpingClock {
    machine: BootClock,
    /// Total of all jumps, in nanoseconds.
    jumped: Arc<AtomicU64>,
}

impl JumpingClock {
    pub fn new() -> Self {
        Self { machine: BootClock::new(), jumped: Arc::default() }
    }

    /// Advances only this clock.
    pub fn jump(&self, by: Duration) {
        self.jumped.fetch_add(u64::try_from(by.as_nanos()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for JumpingClock {
    fn now(&self) -> Duration {
        self.machine.now() + Duration::from_nanos(self.jumped.load(Ordering::SeqCst))
    }

    async fn sleep_until(&self, at: Duration) {
        while self.now() < at {
            tokio::time::sleep(STEP.min(at.saturating_sub(self.now()))).await;
        }
    }
}
