//! Which failures of a leader's work end its leadership, and how long it does not contend then.
//! protocol.md §7.1.

use core::time::Duration;

use super::limits;

/// A cool-down grows to so many times the first one.
const MOST_TIMES: u32 = 16;

/// Which failures of its work end a leadership, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailurePolicy {
    /// The longest that a turn may take. None: as long as the leadership lasts.
    pub turn_timeout: Option<Duration>,
    /// So many failed turns in a row end the leadership; 0: never. A turn that trapped or took
    /// too long ends it at once.
    pub max_failures: u32,
    /// How long a candidate waits before it contends again, the first time, at most; half of it at least.
    /// It is doubled each time until a turn succeeds, up to 16 times this or an hour.
    pub cool_down: Duration,
}

impl FailurePolicy {
    /// The longest cool-down after so many before it.
    pub(super) fn longest_cool_down(&self, previous: u32) -> Duration {
        let times = 1_u32.checked_shl(previous).unwrap_or(MOST_TIMES).min(MOST_TIMES);
        self.cool_down.saturating_mul(times).min(*limits::COOL_DOWN.end())
    }
}
