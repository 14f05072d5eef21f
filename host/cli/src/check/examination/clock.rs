//! Offset between this machine's clock and the service's.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::Finding;
use tenure_base::duration::format_duration;

/// Tolerated offset in milliseconds: the service's own clock may be off by as much (A1, protocol.md
/// §2).
const TOLERANCE_MS: i64 = 2_000;

/// Offset in milliseconds above which signatures and tokens will soon be refused: identity
/// providers allow five minutes, the service fifteen.
const LIMIT_MS: i64 = 5 * 60 * 1_000;

/// Time by which the service's clock is ahead of this machine's, in milliseconds. A range, since a
/// `Date` has whole seconds and the response takes time to arrive.
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
        // The bounds exclude each other: a clock was changed in between, so the newest response
        // counts.
        self.0 = Some(narrowed.filter(|(least, most)| least <= most).unwrap_or(bounds));
    }

    /// Returns the minimum by which the service's clock is ahead; negative if it is behind. None
    /// before the first response.
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
