//! Latency of requests, which the election's periods must fit, and the offset between this
//! machine's clock and the service's.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::Finding;
use tenure_base::duration::format_duration;
use tenure_core::{Timings, limits};

/// Number of requests to measure.
const SAMPLES: usize = 10;

/// The longest lease that the service grants, in seconds.
const MAX_LEASE: u64 = limits::LEASE.end().as_secs();

/// The longest time-out that may be set, in seconds.
const MAX_TIMEOUT: u64 = limits::REQUEST_TIMEOUT.end().as_secs();

/// Durations of answered requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Times(Vec<Duration>);

impl Times {
    pub fn add(&mut self, elapsed: Duration) {
        self.0.push(elapsed);
    }

    pub fn is_complete(&self) -> bool {
        self.0.len() >= SAMPLES
    }

    pub fn finding(&mut self, timings: &Timings) -> Finding {
        const CHECK: &str = "round trips";
        self.0.sort_unstable();
        let (Some(min), Some(max)) = (self.0.first().copied(), self.0.last().copied()) else {
            return Finding::unknown(CHECK, "no request was answered in time");
        };
        let median = self.0.get(self.0.len() / 2).copied().unwrap_or(max);
        let timeout = timings.request_timeout;
        let figures = format!(
            "{} requests took {} / {} / {} (min / median / max)",
            self.0.len(),
            short_duration(min),
            short_duration(median),
            short_duration(max)
        );
        if let Some(failover) = timings.failover.filter(|failover| max > failover.poll_timeout()) {
            return Finding::warning(
                CHECK,
                format!(
                    "{figures}: too slow for --failover {}, which allows {} for a beat; choose a longer one, or use \
                     an account in a region nearby",
                    format_duration(failover.within),
                    format_duration(failover.poll_timeout())
                ),
            );
        }
        // Requires twice the maximum, since there are few samples and the next request may be
        // slower.
        if 2 * max <= timeout {
            return Finding::good(
                CHECK,
                format!(
                    "{figures}; a time-out of {}, a renewal every {} and a lease of {} fit that",
                    format_duration(timeout),
                    format_duration(timings.renew),
                    format_duration(timings.lease)
                ),
            );
        }
        Finding::warning(
            CHECK,
            format!(
                "{figures}: too slow for a time-out of {}; {}",
                format_duration(timeout),
                advice(max, timings)
            ),
        )
    }
}

/// Suggests periods that fit the latency.
fn advice(slowest: Duration, timings: &Timings) -> String {
    let doubled = 2 * slowest;
    let timeout = doubled.as_secs() + u64::from(doubled.subsec_nanos() > 0);
    if Duration::from_secs(timeout) <= timings.longest_timeout() {
        return format!("set --request-timeout {timeout}s, or use an account in a region nearby");
    }
    // The lease includes a renewal interval of 4/15, and a margin of 1/5. The remaining 8/15 must
    // suffice for two tries.
    let lease = (15 * (2 * timeout.min(MAX_LEASE) + 1)).div_ceil(8).max(15);
    match lease {
        0..=MAX_LEASE if timeout <= MAX_TIMEOUT => format!(
            "set --request-timeout {timeout}s and --lease {lease}s, or use an account in a region nearby"
        ),
        _ => "no lease is long enough; use an account in a region nearby".into(),
    }
}

/// Formats a duration with about three significant digits.
pub(super) fn short_duration(span: Duration) -> String {
    let micros = span.as_micros();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..100_000 => format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100),
        100_000..1_000_000 => format!("{} ms", micros / 1_000),
        _ => format!("{}.{} s", micros / 1_000_000, micros % 1_000_000 / 100_000),
    }
}

/// Tolerated offset in milliseconds: the service's own clock may be off by as much (A1, protocol.md
/// §2).
const TOLERANCE_MS: i64 = 2_000;

/// Offset in milliseconds above which signatures and tokens will soon be refused: identity
/// providers allow five minutes, the service fifteen.
const LIMIT_MS: i64 = 5 * 60 * 1_000;

/// Time by which the service's clock is ahead of this machine's, in milliseconds. It is a range,
/// since a `Date` has whole seconds and the response takes time to arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offset(Option<(i64, i64)>);

impl Offset {
    /// Narrows the offset by the `Date` of a response, and the times of day at which its request
    /// was sent and answered.
    pub fn update(&mut self, date: DateTime<Utc>, sent: DateTime<Utc>, answered: DateTime<Utc>) {
        let date = date.timestamp_millis();
        let bounds = (
            date.saturating_sub(answered.timestamp_millis()),
            date.saturating_add(1_000).saturating_sub(sent.timestamp_millis()),
        );
        let narrowed = self.0.map(|(least, most)| (least.max(bounds.0), most.min(bounds.1)));
        // If the bounds exclude each other, a clock was changed in between. Then the newest
        // response counts.
        self.0 = Some(narrowed.filter(|(least, most)| least <= most).unwrap_or(bounds));
    }

    /// Returns the minimum offset in milliseconds. It is positive if the service's clock is ahead
    /// of this machine's, and negative if it is behind. None before the first response.
    pub fn known_ms(self) -> Option<i64> {
        let (least, most) = self.0?;
        Some(if least > 0 { least } else { most.min(0) })
    }

    /// Returns true if the offset explains why a signature was refused.
    pub fn is_suspect(self) -> bool {
        self.known_ms().is_some_and(|ahead| ahead.abs() > LIMIT_MS)
    }

    /// Returns the service's time, as far as it is known, when this machine's clock shows `wall`.
    pub fn correct(self, wall: DateTime<Utc>) -> DateTime<Utc> {
        let ahead = TimeDelta::try_milliseconds(self.known_ms().unwrap_or(0)).unwrap_or_default();
        wall.checked_add_signed(ahead).unwrap_or(wall)
    }

    pub fn finding(self) -> Finding {
        const CHECK: &str = "clock";
        let Some(ahead) = self.known_ms() else {
            return Finding::unknown(CHECK, "the service's answers gave no time");
        };
        let magnitude_ms = ahead.unsigned_abs();
        if magnitude_ms <= TOLERANCE_MS.unsigned_abs() {
            return Finding::good(CHECK, "this machine's clock agrees with the service's");
        }
        let magnitude = format_duration(Duration::from_secs(magnitude_ms.div_ceil(1_000)));
        let direction = if ahead > 0 { "behind" } else { "ahead of" };
        let problem = format!("this machine's clock is {magnitude} {direction} the service's");
        if ahead.abs() <= LIMIT_MS {
            Finding::warning(
                CHECK,
                problem
                    + ": elections do not depend on it, but times in logs do not match; set this machine's clock by \
                        NTP",
            )
        } else {
            Finding::failed(
                CHECK,
                problem
                    + ": signatures, SAS, tokens and certificates depend on it, and will soon be refused; set this \
                        machine's clock by NTP",
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::findings::Verdict;
    use tenure_core::Failover;

    const DEFAULTS: Timings = Timings {
        lease: Duration::from_secs(15),
        margin: Duration::from_secs(3),
        renew: Duration::from_secs(4),
        poll: Duration::from_secs(4),
        request_timeout: Duration::from_secs(3),
        failover: None,
    };

    fn finding_for(millis: &[u64], timings: &Timings) -> Finding {
        let mut times = Times::default();
        for millis in millis {
            times.add(Duration::from_millis(*millis));
        }
        times.finding(timings)
    }

    #[test]
    fn the_figures_are_shown_and_fast_ones_are_good() {
        let finding = finding_for(&[9, 1, 250, 3, 4], &DEFAULTS);
        assert_eq!(finding.verdict, Verdict::Good);
        assert!(
            finding.detail.starts_with("5 requests took 1.0 ms / 4.0 ms / 250 ms"),
            "{finding:?}"
        );
        assert_eq!(finding_for(&[1_500], &DEFAULTS).verdict, Verdict::Good);
    }

    #[test]
    fn beats_have_to_be_faster() {
        let failover = Some(Failover { within: Duration::from_secs(3) });
        let beats = Timings { failover, ..DEFAULTS };
        assert_eq!(finding_for(&[9, 500], &beats).verdict, Verdict::Good);
        let slow = finding_for(&[9, 501], &beats);
        assert_eq!(slow.verdict, Verdict::Warning);
        assert!(slow.detail.contains("--failover 3s, which allows 500ms for a beat"), "{slow:?}");
    }

    #[test]
    fn slow_requests_get_advice_on_periods() {
        let longer = Timings { lease: Duration::from_secs(30), ..DEFAULTS };
        for (millis, timings, expected) in [
            (1_501, &longer, "set --request-timeout 4s, or"),
            (1_501, &DEFAULTS, "set --request-timeout 4s and --lease 17s"),
            (7_500, &DEFAULTS, "set --request-timeout 15s and --lease 59s"),
            (7_600, &DEFAULTS, "no lease is long enough"),
        ] {
            let finding = finding_for(&[millis], timings);
            assert_eq!(finding.verdict, Verdict::Warning, "{millis}: {finding:?}");
            assert!(finding.detail.contains(expected), "{millis}: {finding:?}");
        }
    }

    #[test]
    fn advised_timeout_is_rounded_up() {
        let mut times = Times::default();
        times.add(Duration::from_micros(1_500_400));
        let finding = times.finding(&DEFAULTS);
        assert_eq!(finding.verdict, Verdict::Warning);
        assert!(finding.detail.contains("set --request-timeout 4s"), "{finding:?}");
    }

    #[test]
    fn advised_periods_are_valid() {
        for timeout in 2..=15_u64 {
            let detail = finding_for(&[timeout * 500], &DEFAULTS).detail;
            let Some((_, periods)) = detail.split_once("set --request-timeout ") else { continue };
            let mut words = periods.split(&[' ', ','][..]);
            let timeout = words.next().unwrap().to_string();
            let lease = words.nth(2).filter(|_| periods.contains("--lease")).map(str::to_string);
            let settings = tenure_core::Settings::read(|name: &str| match name {
                "TENURE_ELECTION" => Some("jobs/report".into()),
                "AZURE_STORAGE_CONNECTION_STRING" => Some("UseDevelopmentStorage=true".into()),
                "TENURE_REQUEST_TIMEOUT" => Some(timeout.clone()),
                "TENURE_LEASE" => lease.clone(),
                _ => None,
            });
            assert!(settings.is_ok(), "{periods}: {settings:?}");
        }
    }

    #[test]
    fn no_response_gives_no_figure() {
        assert_eq!(finding_for(&[], &DEFAULTS).verdict, Verdict::Unknown);
    }

    fn at(millis: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(1_800_000_000_000 + millis).unwrap()
    }

    fn offset(date: i64, sent: i64, answered: i64) -> Offset {
        let mut offset = Offset::default();
        offset.update(at(date), at(sent), at(answered));
        offset
    }

    #[test]
    fn whole_seconds_and_latency_do_not_count_as_offset() {
        // A date of 0 s stands for all times below 1 s, at some moment between sending and
        // receiving.
        for (sent, answered, certain) in [
            (0, 10, 0),
            (999, 999, 0),
            (-500, 1_500, 0),
            (-3_000, -2_500, 2_500),
            (4_000, 4_100, -3_000),
        ] {
            assert_eq!(offset(0, sent, answered).known_ms(), Some(certain), "{sent} {answered}");
        }
    }

    #[test]
    fn responses_narrow_the_offset_and_a_clock_change_resets_it() {
        let mut known = offset(0, -5_000, -3_000);
        assert_eq!(known.known_ms(), Some(3_000));
        known.update(at(1_000), at(-3_500), at(-3_400));
        assert_eq!(known.known_ms(), Some(4_400));
        known.update(at(2_000), at(2_100), at(2_200));
        assert_eq!(known.known_ms(), Some(0));
    }

    #[test]
    fn clock_verdicts_change_at_the_bounds() {
        for (ahead, verdict, expected) in [
            (0, Verdict::Good, "agrees"),
            (2_000, Verdict::Good, "agrees"),
            (2_001, Verdict::Warning, "3s behind the service's"),
            (-300_000, Verdict::Warning, "5m ahead of the service's"),
            (300_001, Verdict::Failed, "behind"),
            (-86_400_000, Verdict::Failed, "1d ahead"),
        ] {
            let finding = Offset(Some((ahead, ahead))).finding();
            assert_eq!(finding.verdict, verdict, "{ahead}: {finding:?}");
            assert!(finding.detail.contains(expected), "{ahead}: {finding:?}");
        }
        assert_eq!(Offset::default().finding().verdict, Verdict::Unknown);
    }

    #[test]
    fn time_is_corrected_by_the_known_offset() {
        assert_eq!(Offset::default().correct(at(7)), at(7));
        assert_eq!(Offset(Some((-9_000, -8_000))).correct(at(0)), at(-8_000));
        assert!(Offset(Some((600_000, 600_500))).is_suspect());
        assert!(!Offset(Some((-1_000, 600_500))).is_suspect());
    }
}
