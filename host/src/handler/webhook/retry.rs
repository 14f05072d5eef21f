//! Retries of failed calls within a turn. Calls that may have arrived are retried only with
//! at-least-once delivery.

use std::time::Duration;

/// Maximum number of calls of a turn.
pub(super) const MAX_CALLS: u32 = 5;

/// Delay before the second call. It doubles with each call.
const FIRST_DELAY: Duration = Duration::from_millis(500);

/// Longest delay that is accepted from a receiver. A longer one ends the retries.
const MAX_DELAY: Duration = Duration::from_secs(3600);

/// Failure of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallFailure {
    /// No connection was established, so the call did not arrive.
    Unsent,
    /// The connection broke, or the response was invalid. The call may have arrived.
    Unanswered,
    /// Status of the response, and the delay that the receiver requested.
    Answered(u16, Option<Duration>),
    /// The call used up all available time.
    TimedOut,
    /// A retry would fail in the same way.
    Permanent,
}

/// Returns the delay before the next call, or `None` if there must be none.
///
/// `retries` is true for at-least-once delivery. `calls` is the number of calls so far, and
/// `time_left` the remaining time if it is limited.
pub(super) fn retry_delay(
    failure: CallFailure,
    retries: bool,
    calls: u32,
    time_left: Option<Duration>,
) -> Option<Duration> {
    let (is_retryable, requested) = match failure {
        CallFailure::Unsent => (true, None),
        CallFailure::Unanswered => (retries, None),
        CallFailure::Answered(status, retry_after) => {
            (retries && is_transient(status), retry_after)
        }
        CallFailure::TimedOut | CallFailure::Permanent => (false, None),
    };
    let back_off = FIRST_DELAY * 2_u32.pow(calls.saturating_sub(1).min(MAX_CALLS));
    let delay = requested.unwrap_or_default().max(back_off);
    let fits = delay <= MAX_DELAY && time_left.is_none_or(|time_left| delay < time_left);
    (is_retryable && calls < MAX_CALLS && fits).then_some(delay)
}

/// Returns true if a retry may get another status.
fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502..=504)
}

/// Parses the header `Retry-After`: seconds, or a date (RFC 9110, 10.2.3). `now` is in seconds
/// since 1970.
pub(super) fn parse_retry_after(header: Option<&http::HeaderValue>, now: i64) -> Option<Duration> {
    let text = header?.to_str().ok()?.trim();
    let seconds = text.parse::<u64>().ok().or_else(|| {
        let date = chrono::DateTime::parse_from_rfc2822(text).ok()?;
        Some(u64::try_from(date.timestamp().saturating_sub(now)).unwrap_or(0))
    });
    seconds.map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_call_that_may_have_arrived_is_retried_with_at_least_once_only() {
        let is_retried = |failure, retries| retry_delay(failure, retries, 1, None).is_some();
        for (failure, at_most_once, at_least_once) in [
            (CallFailure::Unsent, true, true),
            (CallFailure::Unanswered, false, true),
            (CallFailure::Answered(503, Some(SECOND)), false, true),
            (CallFailure::Answered(429, None), false, true),
            (CallFailure::Answered(500, None), false, true),
            (CallFailure::Answered(501, None), false, false),
            (CallFailure::Answered(400, Some(SECOND)), false, false),
            (CallFailure::Answered(302, None), false, false),
            (CallFailure::TimedOut, false, false),
            (CallFailure::Permanent, false, false),
        ] {
            assert_eq!(is_retried(failure, false), at_most_once, "{failure:?}");
            assert_eq!(is_retried(failure, true), at_least_once, "{failure:?}");
        }
    }

    #[test]
    fn retry_delays_double_and_end() {
        let delays = (1..=6).map(|made| retry_delay(CallFailure::Unsent, false, made, None));
        let seconds: Vec<_> = delays.map(|wait| wait.map(|wait| wait.as_secs_f64())).collect();
        assert_eq!(seconds, [Some(0.5), Some(1.0), Some(2.0), Some(4.0), None, None]);
    }

    #[test]
    fn retry_after_is_respected_within_the_time_limit() {
        let delay = |requested, time_left| {
            retry_delay(CallFailure::Answered(503, Some(requested)), true, 1, time_left)
        };
        assert_eq!(delay(7 * SECOND, None), Some(7 * SECOND));
        assert_eq!(delay(7 * SECOND, Some(8 * SECOND)), Some(7 * SECOND));
        assert_eq!(delay(7 * SECOND, Some(7 * SECOND)), None);
        assert_eq!(delay(Duration::ZERO, None), Some(FIRST_DELAY));
        assert_eq!(delay(MAX_DELAY, None), Some(MAX_DELAY));
        assert_eq!(delay(MAX_DELAY + SECOND, None), None);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let parsed = |text| {
            parse_retry_after(Some(&http::HeaderValue::from_str(text).unwrap()), 1_795_158_000)
        };
        assert_eq!(parsed(" 120 "), Some(120 * SECOND));
        assert_eq!(parsed("Fri, 20 Nov 2026 07:00:30 GMT"), Some(30 * SECOND));
        assert_eq!(parsed("Fri, 20 Nov 2026 06:00:00 GMT"), Some(Duration::ZERO));
        for nonsense in ["", "soon", "-1", "1.5", "99999999999999999999"] {
            assert_eq!(parsed(nonsense), None, "{nonsense}");
        }
        assert_eq!(super::parse_retry_after(None, 0), None);
    }
}
