//! The clock of one process: true time, seen through a rate that is a little wrong.

use std::sync::Arc;
use std::time::Duration;

use tenure_clock::Clock;
use tokio::select;

use super::world::{Millis, World};

/// What a process's clock shows at a true time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// True time at which it showed nothing; may lie before the schedule.
    pub zero_at: i64,
    /// Nanoseconds that it counts in a true millisecond.
    pub nanos_per_ms: u64,
}

impl Rate {
    /// In nanoseconds.
    #[must_use]
    pub fn reading_at(self, at: Millis) -> u64 {
        let elapsed = i64::try_from(at).map_or(0, |at| at - self.zero_at);
        u64::try_from(elapsed).unwrap_or(0) * self.nanos_per_ms
    }

    /// The first true millisecond at which it shows `nanoseconds` or more.
    fn true_time_of(self, nanoseconds: u64) -> Millis {
        let offset = i64::try_from(nanoseconds.div_ceil(self.nanos_per_ms)).unwrap_or(i64::MAX);
        u64::try_from(offset.saturating_add(self.zero_at)).unwrap_or(0)
    }
}

/// The clock that a runner, its elector and its handler share.
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
            // A clock that counts the time in which its machine was suspended fires what is due when it wakes up.
            select! {
                () = self.world.wait_until(self.rate.true_time_of(at)) => {}
                () = jumped => {}
            }
        }
    }
}
