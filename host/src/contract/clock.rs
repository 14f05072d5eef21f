//! The difference between this machine's clock and the service's.

use super::Report;
use super::wall;
use crate::span::nanoseconds;
use std::fmt;
use std::time::Duration;
use tenure_core::format_duration;

const SECOND: u64 = 1_000_000_000;

/// A smaller difference is not reported: the service's own clock may be as far off.
const TOLERATED: u64 = 2 * SECOND;

/// A difference between this machine's clock and the service's that is worth reporting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockDifference {
    nanoseconds: u64,
    is_behind: bool,
}

impl ClockDifference {
    /// Compares the service's time, which may be up to a second too early, with this machine's time just before and
    /// just after it was learnt. All are in nanoseconds since 1970. None: they differ by at most 2 s.
    #[must_use]
    pub fn new(service: u64, before: u64, after: u64) -> Option<Self> {
        let behind = service.saturating_sub(after);
        let ahead = before.saturating_sub(service.saturating_add(SECOND));
        let (nanoseconds, is_behind) = if behind > ahead { (behind, true) } else { (ahead, false) };
        (nanoseconds > TOLERATED).then_some(Self { nanoseconds, is_behind })
    }

    /// An instant of this machine's clock, by the service's clock.
    #[must_use]
    pub fn corrected(&self, instant: u64) -> u64 {
        match self.is_behind {
            true => instant.saturating_add(self.nanoseconds),
            false => instant.saturating_sub(self.nanoseconds),
        }
    }
}

/// The service's time of day, as far as it is known from reports.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServiceTime {
    /// The reported difference of this machine's clock, if any.
    pub difference: Option<ClockDifference>,
}

impl ServiceTime {
    /// Takes the service's time from a report of an instant that was `ago` before now. A report without one changes
    /// nothing.
    pub fn update(&mut self, report: &Report, ago: Duration) {
        let Some(service) = report.service_time else { return };
        let service = service.saturating_add(nanoseconds(ago));
        self.difference = ClockDifference::new(service, wall(), wall());
    }

    /// Returns the time in nanoseconds since 1970: this machine's, corrected by the difference.
    pub fn now(&self) -> u64 {
        self.difference.map_or_else(wall, |difference| difference.corrected(wall()))
    }
}

impl fmt::Display for ClockDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded, since it is known to a second only.
        let unit = if self.nanoseconds >= 120 * SECOND { 60 * SECOND } else { SECOND };
        let rounded = Duration::from_nanos((self.nanoseconds + unit / 2) / unit * unit);
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
        let now = 1_795_000_000 * SECOND;
        for (before, after, words) in [
            (now, now, None),
            (now + 3 * SECOND, now + 3 * SECOND, None),
            (now + 3 * SECOND + 1, now + 4 * SECOND, Some("2s ahead of")),
            (now - 5 * SECOND, now - 2 * SECOND, None),
            (now - 5 * SECOND, now - 2 * SECOND - 1, Some("2s behind")),
            (now - 1_200 * SECOND, now - 1_199 * SECOND, Some("20m behind")),
            (now + 3_601 * SECOND, now + 3_601 * SECOND, Some("1h ahead of")),
        ] {
            let found = ClockDifference::new(now, before, after);
            let text = found.map(|found| found.to_string());
            assert_eq!(text.is_some(), words.is_some(), "{text:?}");
            assert!(words.is_none_or(|words| text.as_ref().unwrap().contains(words)), "{text:?}");
            if let Some(found) = found {
                // The service's time lay within that second when it was learnt.
                let (before, after) = (found.corrected(before), found.corrected(after));
                assert!(before <= now + SECOND && after >= now, "{found:?}");
            }
        }
    }
}
