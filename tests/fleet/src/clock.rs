//! Clock of a process. All periods of a process run on its own clock.

/// A clock with a wrong time, and a rate that is wrong by at most 1 %.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    offset: u64,
    /// Milliseconds that the clock counts in a thousand seconds of true time.
    rate: u64,
}

const MICROS_PER_SECOND: u64 = 1_000_000;

impl Clock {
    /// Creates a clock with this offset in milliseconds, and this many milliseconds per thousand
    /// seconds.
    #[must_use]
    pub fn new(offset: u64, rate: u64) -> Self {
        Self { offset, rate }
    }

    /// Returns the reading at a true time, in milliseconds.
    #[must_use]
    pub fn now_at(&self, at: u64) -> u64 {
        self.offset + at * self.rate / MICROS_PER_SECOND
    }

    /// Returns the first true millisecond with this reading.
    #[must_use]
    pub fn true_time_of(&self, reading: u64) -> u64 {
        (reading.saturating_sub(self.offset) * MICROS_PER_SECOND).div_ceil(self.rate)
    }
}
