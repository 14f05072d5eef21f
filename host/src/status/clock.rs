//! Difference between this machine's clock and the service's.

use super::wall_clock;
use std::fmt;
use std::time::Duration;
use tenure_core::{Report, Timestamp, format_duration};

const SECOND: Duration = Duration::from_secs(1);

/// Largest difference that is not reported. The service's own clock may be as far off.
const TOLERANCE: Duration = Duration::from_secs(2);

/// Reportable difference between this machine's clock and the service's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockDifference {
    amount: Duration,
    is_behind: bool,
}

impl ClockDifference {
    /// Compares the service's time, which may be up to a second early, with this machine's time
    /// just before and after it was received. Returns `None` if they differ by at most 2 s.
    #[must_use]
    pub fn new(service: Timestamp, before: Timestamp, after: Timestamp) -> Option<Self> {
        let behind = service.since(after);
        let ahead = before.since(service.plus(SECOND));
        let (amount, is_behind) = if behind > ahead { (behind, true) } else { (ahead, false) };
        (amount > TOLERANCE).then_some(Self { amount, is_behind })
    }

    /// Converts an instant of this machine's clock to the service's clock.
    #[must_use]
    pub fn corrected(&self, instant: Timestamp) -> Timestamp {
        match self.is_behind {
            true => instant.plus(self.amount),
            false => instant.minus(self.amount),
        }
    }
}

/// The service's wall clock, as far as reports show it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServiceTime {
    /// Reported difference of this machine's clock, if any.
    pub difference: Option<ClockDifference>,
}

impl ServiceTime {
    /// Takes the service's time from a report that was taken `age` ago. A report without it changes
    /// nothing.
    pub fn update(&mut self, report: &Report, age: Duration) {
        let Some(service) = report.service_time else { return };
        self.difference = ClockDifference::new(service.plus(age), wall_clock(), wall_clock());
    }

    /// Returns this machine's time, corrected by the difference.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.difference.map_or_else(wall_clock, |difference| difference.corrected(wall_clock()))
    }
}

impl fmt::Display for ClockDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded, because it is exact only to a second.
        let unit = if self.amount >= 120 * SECOND { 60 } else { 1 };
        let rounded = Duration::from_secs(
            (self.amount + SECOND * unit / 2).as_secs() / u64::from(unit) * u64::from(unit),
        );
        let relation = if self.is_behind { "behind" } else { "ahead of" };
        write!(
            f,
            "this machine's clock is {} {relation} the service's; set it by NTP (elections do not depend on it, but \
             signatures and certificates do)",
            format_duration(rounded)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The service's dates are whole seconds.
    #[test]
    fn a_difference_that_is_certainly_above_two_seconds_is_reported() {
        let now = Timestamp(1_795_000_000_000_000_000);
        let nanosecond = Duration::from_nanos(1);
        let later = |seconds: u32| now.plus(seconds * SECOND);
        let earlier = |seconds: u32| now.minus(seconds * SECOND);
        for (before, after, expected) in [
            (now, now, None),
            (later(3), later(3), None),
            (later(3).plus(nanosecond), later(4), Some("2s ahead of")),
            (earlier(5), earlier(2), None),
            (earlier(5), earlier(2).minus(nanosecond), Some("2s behind")),
            (earlier(1_200), earlier(1_199), Some("20m behind")),
            (later(3_601), later(3_601), Some("1h ahead of")),
        ] {
            let difference = ClockDifference::new(now, before, after);
            let text = difference.map(|found| found.to_string());
            assert_eq!(text.is_some(), expected.is_some(), "{text:?}");
            assert!(
                expected.is_none_or(|expected| text.as_ref().unwrap().contains(expected)),
                "{text:?}"
            );
            if let Some(difference) = difference {
                // The service's time was within that second when it was received.
                let (before, after) = (difference.corrected(before), difference.corrected(after));
                assert!(before <= later(1) && after >= now, "{difference:?}");
            }
        }
    }
}
