//! Coarse time.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tenure_store::Now;

/// Seconds since the beginning, on the clock of every candidate.
pub type Instant = u32;

/// 2026-11-18T11:06:40Z.
const BEGAN: i64 = 1_795_000_000;

/// As long as a candidate believes in a lease of 15 s, margin included.
pub const VALIDITY: Instant = 12;

/// As long as the service holds such a lease by the candidates' clocks: A1, 2 s early.
pub const HELD: Instant = 13;

const LEASE: u64 = 15;

pub fn moment(at: Instant) -> Duration {
    Duration::from_secs(at.into())
}

/// The first instant that is not before `moment`, when they are so many seconds apart.
pub fn instant(moment: Duration, tick: Instant) -> Instant {
    let seconds = moment.as_secs() + u64::from(moment.subsec_nanos() > 0);
    Instant::try_from(seconds).unwrap_or(Instant::MAX - tick).next_multiple_of(tick)
}

pub fn wall(at: Instant) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::seconds(BEGAN + i64::from(at))
}

/// The time at the service, whose leases run by a clock that is fast.
pub fn at_service(at: Instant) -> Now {
    let nanos = u64::from(at) * LEASE * 1_000_000_000 / u64::from(HELD);
    Now { elapsed: Duration::from_nanos(nanos), wall: wall(at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_two_seconds_early_whenever_it_began() {
        for began in 0..1_000 {
            let until = at_service(began).elapsed + Duration::from_secs(LEASE);
            assert!(at_service(began + HELD).elapsed >= until);
            assert!(at_service(began + HELD - 1).elapsed < until);
        }
    }
}
