//! When a call that failed is made again within its turn. It follows the guarantee of delivery: what may have
//! arrived is sent again with at-least-once only.

use std::time::Duration;

/// How often a turn is called at most.
pub(super) const CALLS: u32 = 5;

/// The wait before the second call; it doubles from there.
const FIRST: Duration = Duration::from_millis(500);

/// No receiver is waited for longer than this.
const LONGEST: Duration = Duration::from_secs(3600);

/// What is known of a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// No connection came about, so nothing arrived.
    Unsent,
    /// The connection broke, or the answer was none: it may have arrived.
    Unanswered,
    /// The status, and how long the receiver wants to be left alone.
    Answered(u16, Option<Duration>),
    /// It took all the time that there was.
    Late,
    /// The next call would end in the same way.
    Final,
}

/// How long to wait for the next call; none where there is none. `repeats`: the turn is delivered at least once. So
/// many calls were made, and so much time is left, where that has a bound.
pub(super) fn wait(
    failed: Failed,
    repeats: bool,
    made: u32,
    left: Option<Duration>,
) -> Option<Duration> {
    let (again, asked) = match failed {
        Failed::Unsent => (true, None),
        Failed::Unanswered => (repeats, None),
        Failed::Answered(status, asked) => (repeats && is_passing(status), asked),
        Failed::Late | Failed::Final => (false, None),
    };
    let own = FIRST * 2_u32.pow(made.saturating_sub(1).min(CALLS));
    let wait = asked.unwrap_or_default().max(own);
    let fits = wait <= LONGEST && left.is_none_or(|left| wait < left);
    (again && made < CALLS && fits).then_some(wait)
}

/// Whether a status says that it may be another one soon.
fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502..=504)
}

/// What the header `Retry-After` says: seconds, or a date (RFC 9110, 10.2.3). `now` is in seconds since 1970.
pub(super) fn asked(header: Option<&http::HeaderValue>, now: i64) -> Option<Duration> {
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
    fn what_may_have_arrived_is_sent_again_with_at_least_once_only() {
        let again = |failed, repeats| wait(failed, repeats, 1, None).is_some();
        for (failed, at_most_once, at_least_once) in [
            (Failed::Unsent, true, true),
            (Failed::Unanswered, false, true),
            (Failed::Answered(503, Some(SECOND)), false, true),
            (Failed::Answered(429, None), false, true),
            (Failed::Answered(500, None), false, true),
            (Failed::Answered(501, None), false, false),
            (Failed::Answered(400, Some(SECOND)), false, false),
            (Failed::Answered(302, None), false, false),
            (Failed::Late, false, false),
            (Failed::Final, false, false),
        ] {
            assert_eq!(again(failed, false), at_most_once, "{failed:?}");
            assert_eq!(again(failed, true), at_least_once, "{failed:?}");
        }
    }

    #[test]
    fn the_waits_double_and_end() {
        let waits = (1..=6).map(|made| wait(Failed::Unsent, false, made, None));
        let seconds: Vec<_> = waits.map(|wait| wait.map(|wait| wait.as_secs_f64())).collect();
        assert_eq!(seconds, [Some(0.5), Some(1.0), Some(2.0), Some(4.0), None, None]);
    }

    #[test]
    fn a_receiver_is_heeded_while_there_is_time() {
        let wait = |asked, left| wait(Failed::Answered(503, Some(asked)), true, 1, left);
        assert_eq!(wait(7 * SECOND, None), Some(7 * SECOND));
        assert_eq!(wait(7 * SECOND, Some(8 * SECOND)), Some(7 * SECOND));
        assert_eq!(wait(7 * SECOND, Some(7 * SECOND)), None);
        assert_eq!(wait(Duration::ZERO, None), Some(FIRST));
        assert_eq!(wait(LONGEST, None), Some(LONGEST));
        assert_eq!(wait(LONGEST + SECOND, None), None);
    }

    #[test]
    fn a_wait_is_asked_for_in_seconds_or_by_a_date() {
        let asked = |text| asked(Some(&http::HeaderValue::from_str(text).unwrap()), 1_795_158_000);
        assert_eq!(asked(" 120 "), Some(120 * SECOND));
        assert_eq!(asked("Fri, 20 Nov 2026 07:00:30 GMT"), Some(30 * SECOND));
        assert_eq!(asked("Fri, 20 Nov 2026 06:00:00 GMT"), Some(Duration::ZERO));
        for nonsense in ["", "soon", "-1", "1.5", "99999999999999999999"] {
            assert_eq!(asked(nonsense), None, "{nonsense}");
        }
        assert_eq!(super::asked(None, 0), None);
    }
}
