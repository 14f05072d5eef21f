//! The ranges and defaults of the settings, for validation, help and documentation. protocol.md §2.

use core::ops::RangeInclusive;
use core::time::Duration;

pub use crate::record::text::{MAX_ADDRESS, MAX_NAME};

const DAY: Duration = seconds(24 * 3600);

/// The lease, in whole seconds, as the service grants it.
pub const LEASE: RangeInclusive<Duration> = seconds(15)..=seconds(60);
/// The lease where none is set: the shortest one, so that a dead leader is replaced soonest.
pub const DEFAULT_LEASE: Duration = *LEASE.start();
/// The lease where none is set, with failover: the longest one, since beats replace the leader
/// sooner.
pub const DEFAULT_LEASE_WITH_FAILOVER: Duration = *LEASE.end();
/// The shortest margin: the service may end a lease 2 s early, and the host needs its slack.
pub const MIN_MARGIN: Duration = Duration::from_millis(2_500);
/// The shortest time from one renewal to the next.
pub const MIN_RENEW: Duration = seconds(1);
/// The longest wait of a follower between two polls.
pub const POLL: RangeInclusive<Duration> = Duration::from_millis(500)..=seconds(60);
/// The longest wait of a follower between two polls where none is set.
pub const DEFAULT_POLL: Duration = seconds(4);
/// The time-out of one request.
pub const REQUEST_TIMEOUT: RangeInclusive<Duration> = seconds(1)..=seconds(30);
/// The time-out of one request where none is set.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = seconds(3);
/// The time within which a leader that died is replaced.
pub const FAILOVER: RangeInclusive<Duration> = seconds(1)..=seconds(10);
/// The longest time after which a leader resigns; the shortest one is four leases.
pub const MAX_TENURE: Duration = seconds(366 * DAY.as_secs());

/// The interval between turns. The service tells its time in whole seconds.
pub const EVERY: RangeInclusive<Duration> = seconds(1)..=seconds(366 * DAY.as_secs());
/// The time over which the turns of all elections are spread.
pub const JITTER: RangeInclusive<Duration> = Duration::ZERO..=DAY;
/// The number of turns that a slot may have.
pub const MAX_ATTEMPTS: RangeInclusive<u32> = 1..=100;
/// The number of turns that a slot may have where none is set.
pub const DEFAULT_MAX_ATTEMPTS: u32 = 5;
/// The number of missed slots that are made up for.
pub const MISSED: RangeInclusive<u32> = 1..=1000;

/// The time-out of a turn.
pub const TURN_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=DAY;
/// The number of failed turns in a row that end a leadership; 0: never.
pub const MAX_FAILURES: RangeInclusive<u32> = 0..=1000;
/// The number of failed turns that end a leadership where none is set.
pub const DEFAULT_MAX_FAILURES: u32 = 3;
/// The number of failed turns that end a leadership where none is set, and the work lasts as long
/// as the leadership.
pub const DEFAULT_MAX_FAILURES_WHILE_LEADING: u32 = 1;
/// The time for which a candidate whose work failed does not contend. It doubles with each failure,
/// up to the maximum.
pub const COOL_DOWN: RangeInclusive<Duration> = seconds(1)..=seconds(3600);
/// The first cool-down where none is set.
pub const DEFAULT_COOL_DOWN: Duration = seconds(30);

/// The time between two reads of orders by a leader where the host sets none.
pub const DEFAULT_ORDERS: Duration = seconds(10);
/// The break period of a lease (Lease Blob, REST reference).
pub const BREAK_PERIOD: RangeInclusive<Duration> = Duration::ZERO..=seconds(60);

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
