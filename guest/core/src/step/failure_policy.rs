//! The failures of a leader's work that end its leadership, and the cool-down that follows.
//! protocol.md §7.1.

use core::time::Duration;

use super::limits;

/// Maximum factor by which a cool-down grows.
const MOST_TIMES: u32 = 16;

/// The failures of the work that end a leadership, and the length of the cool-down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailurePolicy {
    /// Time limit of a turn. None: as long as the leadership lasts.
    pub turn_timeout: Option<Duration>,
    /// Number of failed turns in a row that end the leadership; 0: never. A turn that trapped or
    /// timed out ends it at once.
    pub max_failures: u32,
    /// Maximum of the first cool-down, in which a candidate does not contend; the minimum is half
    /// of it. It doubles each time until a turn succeeds, up to 16 times this or an hour.
    pub cool_down: Duration,
}

impl FailurePolicy {
    /// Returns the maximum cool-down after this number of previous ones.
    pub(crate) fn longest_cool_down(&self, previous: u32) -> Duration {
        let times = 1_u32.checked_shl(previous).unwrap_or(MOST_TIMES).min(MOST_TIMES);
        self.cool_down.saturating_mul(times).min(*limits::COOL_DOWN.end())
    }
}
