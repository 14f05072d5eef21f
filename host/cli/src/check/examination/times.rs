//! Latency of requests, and whether the election's periods fit it.

use std::time::Duration;

use super::Finding;
use tenure_base::duration::format_duration;
use tenure_core::Timings;

/// Number of requests to measure.
const SAMPLES: usize = 10;

/// The longest lease that the service grants, in seconds.
const LONGEST_LEASE: u64 = 60;

/// The longest time-out that may be set, in seconds.
const LONGEST_TIMEOUT: u64 = 30;

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
    let timeout = u64::try_from((2 * slowest).as_millis().div_ceil(1_000)).unwrap_or(u64::MAX);
    if Duration::from_secs(timeout) <= timings.longest_timeout() {
        return format!("set --request-timeout {timeout}s, or use an account in a region nearby");
    }
    // The lease includes a renewal interval of 4/15, and a margin of 1/5. The remaining 8/15 must
    // suffice for two tries.
    let lease = (15 * (2 * timeout.min(LONGEST_LEASE) + 1)).div_ceil(8).max(15);
    match lease {
        0..=LONGEST_LEASE if timeout <= LONGEST_TIMEOUT => format!(
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
    fn signs_of_life_have_to_be_faster() {
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
    fn the_periods_that_are_advised_are_taken() {
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
}
