//! Time during one call.

use core::cell::Cell;
use core::time::Duration;

use chrono::{DateTime, Utc};
use wasip2::clocks::{monotonic_clock, wall_clock};

use tenure_core::{ElapsedClock, Moment, StepStart};

/// Continues the host's `elapsed` during the call.
pub struct StepClock {
    elapsed: Moment,
    started_at: u64,
}

impl StepClock {
    /// Starts from the host's `elapsed`, which was read before this.
    pub fn start(elapsed: Moment) -> Self {
        Self { elapsed, started_at: monotonic_clock::now() }
    }

    pub fn started(&self) -> Moment {
        self.elapsed
    }

    pub fn now(&self) -> Moment {
        self.elapsed + Duration::from_nanos(monotonic_clock::now().saturating_sub(self.started_at))
    }
}

/// Elapsed time of an invocation without a host that measures it.
pub struct ElapsedClockCell(Cell<ElapsedClock>);

impl ElapsedClockCell {
    pub fn start() -> Self {
        Self(Cell::new(ElapsedClock::new(monotonic(), wall())))
    }

    pub fn now(&self) -> Moment {
        self.read().step_start().at
    }

    /// Returns the start of a step that begins now.
    pub fn step_start(&self) -> StepStart {
        self.read().step_start()
    }

    /// Returns the current time within a step that started at `start`.
    pub fn elapsed_in_step(&self, start: StepStart) -> Moment {
        self.read().elapsed_in_step(start)
    }

    fn read(&self) -> ElapsedClock {
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
