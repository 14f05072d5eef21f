//! Cron expressions: five fields, or six with the seconds first, in local time.
//!
//! This is our own parser, because the crate `croner` needs the standard library, which would more
//! than double the component. The tests compare both.
//!
//! The meaning of the expression decides about a time that the clocks skip in spring or repeat in
//! autumn. *Fixed* times (no `*` and no step in seconds, minutes and hours) mean a number of turns
//! a day. A skipped one runs when the clocks have been put forward; a repeated one runs the first
//! time. Any other expression means an interval: a skipped time does not run, and a repeated one
//! runs twice.

mod parse;

use core::fmt;

use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveTime, Timelike};

use super::zone::{OffsetSpan, Zone};
pub use parse::CronError;
use tenure_base::prelude::*;

/// Search limit: the rarest date, a 29 February on a given weekday, comes at least once in 40
/// years.
const HORIZON: Months = Months::new(50 * 12);

/// A cron expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    /// The text as written, with single blanks.
    text: String,
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: DaySet,
    months: u64,
    /// True for times of an interval, false for fixed ones.
    interval: bool,
}

/// Days of the month and of the week. If both are given, either suffices, as in Kubernetes' cron.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DaySet {
    /// Bits 1 to 31.
    of_month: u64,
    last_of_month: bool,
    /// Bits 0 (Sunday) to 6.
    of_week: u64,
    /// Bit `7 * (n - 1) + weekday`: the nth of the month; n = 6 means the last one.
    nth_of_week: u64,
    /// True if neither field is a `*`.
    either: bool,
}

impl DaySet {
    fn contains(&self, date: NaiveDate) -> bool {
        let (day, weekday) = (date.day(), date.weekday().num_days_from_sunday());
        let days_in_month = date.num_days_in_month().into();
        let nth = 7 * ((day - 1) / 7) + weekday;
        let is_last_week = day + 7 > days_in_month;
        let of_month =
            self.of_month >> day & 1 == 1 || (self.last_of_month && day == days_in_month);
        let of_week = self.of_week >> weekday & 1 == 1
            || self.nth_of_week >> nth & 1 == 1
            || (is_last_week && self.nth_of_week >> (35 + weekday) & 1 == 1);
        if self.either { of_month || of_week } else { of_month && of_week }
    }
}

impl Cron {
    /// Returns the first slot later than `after`, in seconds since 1970.
    pub(super) fn next(&self, zone: &Zone, after: i64) -> Option<i64> {
        let mut second = after.checked_add(1)?;
        let horizon = DateTime::from_timestamp(second, 0)?.checked_add_months(HORIZON)?.timestamp();
        while second <= horizon {
            let span = zone.offset_span(second);
            if let Some(found) = self.in_stretch(span, second, horizon) {
                return Some(found);
            }
            second = span.end;
        }
        None
    }

    /// Returns the newest slot that is not later than `now`.
    pub(super) fn newest(&self, zone: &Zone, now: i64) -> Option<i64> {
        let next_until_now = |after: i64| self.next(zone, after).filter(|slot| *slot <= now);
        // Steps back in doubling leaps to an instant with a slot after it, then halves the steps
        // forward.
        let mut step_back = 1;
        let mut found = loop {
            match next_until_now(now.checked_sub(step_back)?) {
                Some(slot) => break slot,
                None if step_back > now => return None,
                None => step_back *= 2,
            }
        };
        let mut end = now;
        while found < end {
            let middle = found + (end - found) / 2;
            match next_until_now(middle) {
                Some(slot) => found = slot,
                None => end = middle,
            }
        }
        Some(found)
    }

    /// Returns the first slot from `second` on, before the span and the horizon end.
    fn in_stretch(&self, stretch: OffsetSpan, second: i64, horizon: i64) -> Option<i64> {
        let OffsetSpan { start, offset, previous_offset, .. } = stretch;
        let [offset, previous_offset] = [offset, previous_offset].map(i64::from);
        let last = (stretch.end - 1).min(horizon);
        let mut first = second;
        if !self.interval && start != i64::MIN {
            if second == start && offset > previous_offset {
                // Skipped times run now.
                let skipped = self.local(start + previous_offset, start + offset - 1);
                if skipped.is_some() {
                    return Some(start);
                }
            }
            // Repeated times have already run.
            first = first.max(start + (previous_offset - offset).max(0));
        }
        Some(self.local(first + offset, last + offset)? - offset)
    }

    /// Returns the first time of the expression between `first_second` and `last`, as local time,
    /// counted like seconds since 1970.
    fn local(&self, first_second: i64, last: i64) -> Option<i64> {
        let first = DateTime::from_timestamp(first_second, 0)?.naive_utc();
        let (mut date, mut earliest) = (first.date(), first.time());
        while date.and_time(NaiveTime::MIN).and_utc().timestamp() <= last {
            if self.months >> date.month() & 1 == 0 {
                date = date.with_day(1)?.checked_add_months(Months::new(1))?;
                earliest = NaiveTime::MIN;
                continue;
            }
            if self.days.contains(date)
                && let Some(time) = self.time(earliest)
            {
                let found = date.and_time(time).and_utc().timestamp();
                return (found <= last).then_some(found);
            }
            date = date.checked_add_days(Days::new(1))?;
            earliest = NaiveTime::MIN;
        }
        None
    }

    /// Returns the first time of a day that is not before `earliest`.
    fn time(&self, earliest: NaiveTime) -> Option<NaiveTime> {
        let (hour, minute, second) = (earliest.hour(), earliest.minute(), earliest.second());
        let hms = NaiveTime::from_hms_opt;
        let [any_minute, any_second] = [self.minutes, self.seconds].map(|set| at_or_after(set, 0));
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1
                && let Some(second) = at_or_after(self.seconds, second)
            {
                return hms(hour, minute, second);
            }
            if let Some(minute) = at_or_after(self.minutes, minute + 1) {
                return hms(hour, minute, any_second?);
            }
        }
        hms(at_or_after(self.hours, hour + 1)?, any_minute?, any_second?)
    }
}

/// Returns the smallest member of a set of bits that is not below `least`.
fn at_or_after(set: u64, least: u32) -> Option<u32> {
    let remaining = set.checked_shr(least)?;
    (remaining != 0).then(|| least + remaining.trailing_zeros())
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
