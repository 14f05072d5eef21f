//! Clock of one process: true time, at a slightly wrong rate.

use std::sync::Arc;
use std::time::Duration;

use tenure_clock::Clock;
use tokio::select;

use super::world::{Millis, World};

/// Mapping from true time to the reading of a process's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// True time at which the clock showed zero; may lie before the schedule.
    pub zero_at: i64,
    /// Nanoseconds that the clock counts in a true millisecond.
    pub nanos_per_ms: u64,
}

impl Rate {
    /// Returns the reading at a true time, in nanoseconds.
    #[must_use]
    pub fn reading_at(self, at: Millis) -> u64 {
        let elapsed = i64::try_from(at).map_or(0, |at| at - self.zero_at);
        u64::try_from(elapsed).unwrap_or(0) * self.nanos_per_ms
    }

    /// Returns the first true millisecond at which the clock shows at least `nanoseconds`.
    fn true_time_of(self, nanoseconds: u64) -> Millis {
        let offset = i64::try_from(nanoseconds.div_ceil(self.nanos_per_ms)).unwrap_or(i64::MAX);
        u64::try_from(offset.saturating_add(self.zero_at)).unwrap_or(0)
    }
}

/// Clock that a runner, its elector and its handler share.
#[derive(Clone)]
pub struct SimClock {
    pub(super) world: Arc<World>,
    pub(super) rate: Rate,
    pub(super) machine: usize,
}

impl Clock for SimClock {
    fn now(&self) -> Duration {
        self.read().0
    }

    fn read(&self) -> (Duration, Duration) {
        let ahead = Duration::from_millis(self.world.state().clock_ahead_ms[self.machine]);
        (Duration::from_nanos(self.rate.reading_at(self.world.now())) + ahead, ahead)
    }

    async fn sleep_until(&self, at: Duration) {
        loop {
            let jumped = self.world.clock_jumped.notified();
            if self.now() >= at {
                return;
            }
            let at = at.saturating_sub(self.read().1);
            let at = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
            // A clock that counts suspended time fires due timers when its machine resumes.
            select! {
                () = self.world.wait_until(self.rate.true_time_of(at)) => {}
                () = jumped => {}
            }
        }
    }
}
