//! Decisions about retries.

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
    let parsed =
        |text| parse_retry_after(Some(&http::HeaderValue::from_str(text).unwrap()), 1_795_158_000);
    assert_eq!(parsed(" 120 "), Some(120 * SECOND));
    assert_eq!(parsed("Fri, 20 Nov 2026 07:00:30 GMT"), Some(30 * SECOND));
    assert_eq!(parsed("Fri, 20 Nov 2026 06:00:00 GMT"), Some(Duration::ZERO));
    for nonsense in ["", "soon", "-1", "1.5", "99999999999999999999"] {
        assert_eq!(parsed(nonsense), None, "{nonsense}");
    }
    assert_eq!(parse_retry_after(None, 0), None);
}
