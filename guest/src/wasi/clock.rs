//! Time during one call.

use core::cell::Cell;
use core::time::Duration;

use chrono::{DateTime, Utc};
use wasip2::clocks::{monotonic_clock, wall_clock};

use tenure_core::{Begins, Moment, OwnTime};

/// Continues the host's `elapsed` during the call.
pub struct StepClock {
    elapsed: Moment,
    began: u64,
}

impl StepClock {
    /// Starts from the host's `elapsed`, which was read before this.
    pub fn start(elapsed: Moment) -> Self {
        Self { elapsed, began: monotonic_clock::now() }
    }

    pub fn started(&self) -> Moment {
        self.elapsed
    }

    pub fn now(&self) -> Moment {
        self.elapsed + Duration::from_nanos(monotonic_clock::now().saturating_sub(self.began))
    }
}

/// Elapsed time of an invocation without a host that measures it.
pub struct OwnClock(Cell<OwnTime>);

impl OwnClock {
    pub fn start() -> Self {
        Self(Cell::new(OwnTime::begin(monotonic(), wall())))
    }

    pub fn now(&self) -> Moment {
        self.read().step().at
    }

    /// Returns the start of a step that begins now.
    pub fn step(&self) -> Begins {
        self.read().step()
    }

    /// Returns the current time within a step that started at `start`.
    pub fn within(&self, begins: Begins) -> Moment {
        self.read().within(begins)
    }

    fn read(&self) -> OwnTime {
        let mut time = self.0.get();
        time.read(monotonic(), wall());
        self.0.set(time);
        time
    }
}

fn monotonic() -> Duration {
    Duration::from_nanos(monotonic_clock::now())
}

/// Returns this machine's time of day.
pub fn wall() -> DateTime<Utc> {
    let wall = wall_clock::now();
    let seconds = i64::try_from(wall.seconds).unwrap_or(i64::MAX);
    DateTime::from_timestamp(seconds, wall.nanoseconds).unwrap_or(DateTime::UNIX_EPOCH)
}
