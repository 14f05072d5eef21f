//! What a process takes for the time. All periods of a process are counted by its own clock.

/// A clock that is set wrong, and runs wrong by a hundredth at most.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    offset: u64,
    /// Milliseconds of its own in a thousand seconds of true time.
    rate: u64,
}

const MICROS_PER_SECOND: u64 = 1_000_000;

impl Clock {
    /// One that is ahead by so many milliseconds, and counts so many in a thousand seconds.
    #[must_use]
    pub fn new(offset: u64, rate: u64) -> Self {
        Self { offset, rate }
    }

    /// What it says at that true time, in milliseconds.
    #[must_use]
    pub fn now_at(&self, at: u64) -> u64 {
        self.offset + at * self.rate / MICROS_PER_SECOND
    }

    /// The first true millisecond at which it says that.
    #[must_use]
    pub fn true_time_of(&self, reading: u64) -> u64 {
        (reading.saturating_sub(self.offset) * MICROS_PER_SECOND).div_ceil(self.rate)
    }
}
