//! Time during one call.

use core::cell::Cell;
use core::time::Duration;

use chrono::{DateTime, Utc};
use wasip2::clocks::{monotonic_clock, wall_clock};

use tenure_core::{Begins, Moment, OwnTime};

/// Carries the host's `elapsed` on while the call lasts.
pub struct StepClock {
    elapsed: Moment,
    began: u64,
}

impl StepClock {
    /// `elapsed` is what the host said; it was read before this.
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

/// Time of an invocation without a host that measures it.
pub struct OwnClock(Cell<OwnTime>);

impl OwnClock {
    pub fn start() -> Self {
        Self(Cell::new(OwnTime::begin(monotonic(), wall())))
    }

    pub fn now(&self) -> Moment {
        self.read().step().at
    }

    /// A step that begins now.
    pub fn step(&self) -> Begins {
        self.read().step()
    }

    /// Now, in the time of a step that `begins` then.
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

/// This machine's own idea of the time of day.
pub fn wall() -> DateTime<Utc> {
    let wall = wall_clock::now();
    let seconds = i64::try_from(wall.seconds).unwrap_or(i64::MAX);
    DateTime::from_timestamp(seconds, wall.nanoseconds).unwrap_or(DateTime::UNIX_EPOCH)
}
