//! Checks that the stop time of a command fits into the time for which a leader may act.

use crate::settings::table::SHORTEST_STOP_TIME;
use std::time::Duration;
use tenure_base::duration::format_duration;
use tenure_core::Timings;
use tenure_supervisor::{KILL_SLACK, STOP_TIME};

const GRACEFUL_STOP_TIME: Duration = Duration::from_millis(700);

/// Periods of a leader that bound the stop time.
#[derive(Clone, Copy)]
pub(super) struct Periods {
    /// Maximum time without a renewal, or with failover without a beat.
    validity: Duration,
    /// Interval of renewals or beats.
    renew: Duration,
    failover: bool,
}

impl Periods {
    pub(super) fn from_timings(timings: &Timings) -> Self {
        let failover = timings.failover.is_some();
        Self { validity: timings.validity(), renew: timings.renewal_interval(), failover }
    }
}

/// Returns the default stop time with failover, where validity may end soon after a beat. It is as
/// long as the periods allow. If possible, the stop begins only after an unanswered beat was
/// retried. `None` without failover.
pub(super) fn with_failover(periods: Periods) -> Option<Duration> {
    let Periods { validity, renew, failover } = periods;
    // A due beat may take half of the remaining time.
    let tried_again = renew + validity.saturating_sub(renew) / 2 + Duration::from_millis(100);
    let after = validity.saturating_sub(tried_again).max(GRACEFUL_STOP_TIME);
    failover.then(|| STOP_TIME.min(available_time(periods)).min(after).max(SHORTEST_STOP_TIME))
}

/// Returns the time between a timely renewal and the stop of the command, less some slack.
fn available_time(periods: Periods) -> Duration {
    periods.validity.saturating_sub(periods.renew + KILL_SLACK)
}

/// Returns the problem with `time` and the advice, or none if it fits.
pub(super) fn check(time: Duration, periods: Periods) -> Option<(String, String)> {
    let Periods { validity, renew, failover } = periods;
    let available = available_time(periods);
    if time <= available {
        return None;
    }
    let (without, otherwise) = match failover {
        true => ("a beat, and beats every", "a longer failover"),
        false => {
            ("a renewal, and renews every", "a longer lease, a shorter margin, or renew more often")
        }
    };
    let problem = format!(
        "a stop time of {} does not fit: a leader may act for {} without {without} {}",
        format_duration(time),
        format_duration(validity),
        format_duration(renew),
    );
    let advice = match available < SHORTEST_STOP_TIME {
        true => format!("choose {otherwise}"),
        false => {
            let whole = if available < Duration::from_secs(1) { 100 } else { 1_000 };
            let millis = u64::try_from(available.as_millis()).unwrap_or(u64::MAX) / whole * whole;
            let most = format_duration(Duration::from_millis(millis));
            format!("choose {most} or less, or {otherwise}")
        }
    };
    Some((problem, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: Periods = Periods {
        validity: Duration::from_secs(12),
        renew: Duration::from_secs(4),
        failover: false,
    };

    fn problem(ms: u64, periods: Periods) -> Option<String> {
        check(Duration::from_millis(ms), periods).map(|(problem, _)| problem)
    }

    #[test]
    fn stop_time_must_leave_room_for_a_renewal() {
        for good in [1_000, 3_000, 7_500] {
            assert_eq!(problem(good, DEFAULT), None, "{good}");
        }
        let (problem, advice) = check(Duration::from_millis(7_501), DEFAULT).unwrap();
        assert!(problem.contains("renews every 4s"), "{problem}");
        assert!(advice.starts_with("choose 7s or less"), "{advice}");
        let tight = Periods { renew: Duration::from_secs(11), ..DEFAULT };
        let advice = |periods| check(Duration::from_secs(1), periods).unwrap().1;
        assert!(advice(tight).starts_with("choose 500ms or less"));
        let tighter = Periods { renew: Duration::from_millis(11_450), ..DEFAULT };
        assert!(advice(tighter).starts_with("choose a longer"));
    }

    #[test]
    fn with_failover_the_stop_time_fits_between_beats() {
        let ms = Duration::from_millis;
        let failover_periods =
            |validity, renew| Periods { validity: ms(validity), renew: ms(renew), failover: true };
        for (periods, time) in [
            (failover_periods(5_666, 1_666), 1_900),
            (failover_periods(1_700, 500), 700),
            (failover_periods(1_100, 333), 267),
        ] {
            assert_eq!(with_failover(periods), Some(ms(time)));
            assert_eq!(check(ms(time), periods), None);
        }
        // With 1 s, nothing can be stopped in time.
        let short = with_failover(failover_periods(400, 166)).unwrap();
        let (problem, advice) = check(short, failover_periods(400, 166)).unwrap();
        assert!(problem.contains("for 400ms without a beat"), "{problem}");
        assert_eq!(advice, "choose a longer failover");
        assert_eq!(with_failover(DEFAULT), None);
    }
}
