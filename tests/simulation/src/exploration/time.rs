//! Coarse time of an exploration.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tenure_store::Now;

/// Time since the start, in seconds, on the clock of every candidate.
pub type Instant = u32;

/// 2026-11-18T11:06:40Z.
const START_SECONDS: i64 = 1_795_000_000;

/// The service's clock shows 15 s when the candidates' clocks show 13 s: it ends a lease of 15 s 2
/// s early, the maximum of A1.
const NOMINAL_LEASE: Instant = 15;
const SHORTEST_LEASE: Instant = 13;

/// Returns the time that the service holds a lease of this length, on the candidates' clocks.
pub fn lease_duration(lease: Duration) -> Instant {
    let seconds = Instant::try_from(lease.as_secs()).unwrap_or(Instant::MAX / SHORTEST_LEASE);
    (seconds * SHORTEST_LEASE).div_ceil(NOMINAL_LEASE)
}

pub fn moment(at: Instant) -> Duration {
    Duration::from_secs(at.into())
}

/// Returns the first instant that is not before `moment`, for instants that are `tick` seconds
/// apart.
pub fn instant(moment: Duration, tick: Instant) -> Instant {
    let seconds = moment.as_secs() + u64::from(moment.subsec_nanos() > 0);
    Instant::try_from(seconds).unwrap_or(Instant::MAX - tick).next_multiple_of(tick)
}

pub fn wall_time(at: Instant) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::seconds(START_SECONDS + i64::from(at))
}

/// Returns the time at the service, whose lease clock is fast.
pub fn service_time(at: Instant) -> Now {
    let nanos =
        u64::from(at) * u64::from(NOMINAL_LEASE) * 1_000_000_000 / u64::from(SHORTEST_LEASE);
    Now { elapsed: Duration::from_nanos(nanos), wall: wall_time(at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_early_whenever_it_started() {
        for (lease, shortfall) in [(15, 2), (60, 8)] {
            let lease = Duration::from_secs(lease);
            let lasts = lease_duration(lease);
            assert_eq!(moment(lasts) + moment(shortfall), lease);
            for start in 0..1_000 {
                let until = service_time(start).elapsed + lease;
                assert!(service_time(start + lasts).elapsed >= until);
                assert!(service_time(start + lasts - 1).elapsed < until);
            }
        }
    }
}
