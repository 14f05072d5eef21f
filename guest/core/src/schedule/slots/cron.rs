//! Cron expressions: five fields, or six with the seconds first, in local time.
//!
//! This is our own parser, because the crate `croner` needs the standard library, which would more
//! than double the component. The tests compare both.
//!
//! Clocks skip times in spring and repeat times in autumn. There are two kinds of expressions:
//!
//! - *Fixed* times have no `*` and no step in seconds, minutes and hours. They mean a number of
//!   turns a day. A skipped time runs when the clocks have been put forward. A repeated time runs
//!   once, the first time.
//! - Any other expression means an *interval*. A skipped time does not run, and a repeated time
//!   runs twice.

use core::fmt;

use super::zone::{OffsetSpan, Zone};
use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveTime, Timelike};
use tenure_base::prelude::*;

/// Search limit. The rarest date is a fifth Monday or other weekday in February (`* * FEB MON#5`):
/// a 29 February on a given weekday. It comes at least once in 40 years.
const HORIZON: Months = Months::new(50 * 12);

/// A cron expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    /// The expression as written, with single blanks.
    text: String,
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: DaySet,
    months: u64,
    /// True for times of an interval, false for fixed times.
    is_interval: bool,
}

/// Days of the month and of the week. If both are given, either suffices, as in Kubernetes' cron.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DaySet {
    /// Days of the month: bits 1 to 31.
    month_days: u64,
    /// True if the last day of the month is included.
    has_last_day: bool,
    /// Days of the week: bits 0 (Sunday) to 6.
    weekdays: u64,
    /// Bit `7 * (n - 1) + weekday`: the nth such weekday of the month; n = 6 means the last one.
    nth_weekdays: u64,
    /// True if neither field is a `*`, so that a match of either field suffices.
    is_either_enough: bool,
}

impl DaySet {
    fn contains(&self, date: NaiveDate) -> bool {
        let (day, weekday) = (date.day(), date.weekday().num_days_from_sunday());
        let days_in_month = date.num_days_in_month().into();
        let nth = 7 * ((day - 1) / 7) + weekday;
        let is_last_week = day + 7 > days_in_month;
        let matches_month =
            self.month_days >> day & 1 == 1 || (self.has_last_day && day == days_in_month);
        let matches_week = self.weekdays >> weekday & 1 == 1
            || self.nth_weekdays >> nth & 1 == 1
            || (is_last_week && self.nth_weekdays >> (35 + weekday) & 1 == 1);
        match self.is_either_enough {
            true => matches_month || matches_week,
            false => matches_month && matches_week,
        }
    }
}

impl Cron {
    /// Returns the first slot later than `after`, in seconds since 1970.
    pub(super) fn next(&self, zone: &Zone, after: i64) -> Option<i64> {
        let mut second = after.checked_add(1)?;
        let horizon = DateTime::from_timestamp(second, 0)?.checked_add_months(HORIZON)?.timestamp();
        while second <= horizon {
            let span = zone.offset_span(second);
            if let Some(found) = self.first_in_span(span, second, horizon) {
                return Some(found);
            }
            second = span.end;
        }
        None
    }

    /// Returns the newest slot that is not later than `now`. `None` if there is none since 1970.
    pub(super) fn newest(&self, zone: &Zone, now: i64) -> Option<i64> {
        let next_until_now = |after: i64| self.next(zone, after).filter(|slot| *slot <= now);
        // Goes back in doubling steps to an instant that has a slot after it. From there, a binary
        // search finds the newest slot.
        let mut step_back = 1;
        let mut found = loop {
            match next_until_now(now.checked_sub(step_back)?) {
                Some(slot) => break slot,
                // The search has reached 1970.
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

    /// Returns the first slot that is not before `second`. None if it lies after the span or the
    /// horizon.
    fn first_in_span(&self, span: OffsetSpan, second: i64, horizon: i64) -> Option<i64> {
        let OffsetSpan { start, end, offset, previous_offset } = span;
        let [offset, previous_offset] = [offset, previous_offset].map(i64::from);
        let last = (end - 1).min(horizon);
        let mut first = second;
        if !self.is_interval && start != i64::MIN {
            if second == start && offset > previous_offset {
                // Fixed times that the clocks skip run when the span starts.
                let skipped = self.first_local(start + previous_offset, start + offset - 1);
                if skipped.is_some() {
                    return Some(start);
                }
            }
            // Fixed times that the clocks repeat ran in the span before.
            first = first.max(start + (previous_offset - offset).max(0));
        }
        Some(self.first_local(first + offset, last + offset)? - offset)
    }

    /// Returns the first time of the expression from `first_second` to `last`. All three are local
    /// times, counted in seconds since 1970 like UTC.
    fn first_local(&self, first_second: i64, last: i64) -> Option<i64> {
        let first = DateTime::from_timestamp(first_second, 0)?.naive_utc();
        let (mut date, mut earliest) = (first.date(), first.time());
        while date.and_time(NaiveTime::MIN).and_utc().timestamp() <= last {
            if self.months >> date.month() & 1 == 0 {
                date = date.with_day(1)?.checked_add_months(Months::new(1))?;
                earliest = NaiveTime::MIN;
                continue;
            }
            if self.days.contains(date)
                && let Some(time) = self.first_time(earliest)
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
    fn first_time(&self, earliest: NaiveTime) -> Option<NaiveTime> {
        let (hour, minute, second) = (earliest.hour(), earliest.minute(), earliest.second());
        let hms = NaiveTime::from_hms_opt;
        let [first_minute, first_second] =
            [self.minutes, self.seconds].map(|set| at_or_after(set, 0));
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1
                && let Some(second) = at_or_after(self.seconds, second)
            {
                return hms(hour, minute, second);
            }
            if let Some(minute) = at_or_after(self.minutes, minute + 1) {
                return hms(hour, minute, first_second?);
            }
        }
        hms(at_or_after(self.hours, hour + 1)?, first_minute?, first_second?)
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

/// A parse error and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronError {
    /// Position of the invalid character, counted from 1.
    pub position: usize,
    /// The invalid part of the text; may be empty. Do not print it unchecked: it may be a secret
    /// that was entered in the wrong place.
    pub piece: String,
    /// The problem, without the piece itself.
    pub problem: String,
    /// The expected content.
    pub expected: &'static str,
}

/// A field of an expression.
struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    /// Names of values, from `min` on.
    names: &'static [&'static str],
    expected: &'static str,
}

const SECONDS: Field = Field {
    name: "second",
    min: 0,
    max: 59,
    names: &[],
    expected: "0 to 59, *, a range like 0-30, a step like */10, or a list of these",
};
const MINUTES: Field = Field { name: "minute", ..SECONDS };
const HOURS: Field = Field {
    name: "hour",
    max: 23,
    expected: "0 to 23, *, a range like 8-18, a step like */2, or a list of these",
    ..SECONDS
};
const DAYS: Field = Field {
    name: "day of the month",
    min: 1,
    max: 31,
    expected: "1 to 31, L for the last one, *, ?, a range like 1-7, a step like */2, or a list of \
               these",
    ..SECONDS
};
const MONTHS: Field = Field {
    name: "month",
    min: 1,
    max: 12,
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
    expected: "1 to 12, JAN to DEC, *, a range like 3-9, a step like */3, or a list of these",
};
/// Both 0 and 7 are Sunday.
const WEEKDAYS: Field = Field {
    name: "day of the week",
    min: 0,
    max: 7,
    names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
    expected: "0 to 7 (0 and 7 are Sunday), SUN to SAT, MON#1 for the first Monday of a month, \
               FRI#L for the last Friday, *, ?, a range like MON-FRI, or a list of these",
};

const FIELDS: &str = "five fields (minute, hour, day of the month, month, day of the week), six \
                      that begin with the second, or @hourly, @daily, @weekly, @monthly, @yearly";

const NICKNAMES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// A piece of the expression, and its position.
#[derive(Clone, Copy)]
struct Piece<'t> {
    text: &'t str,
    position: usize,
}

/// The values that a field allows.
#[derive(Default)]
struct AllowedValues {
    /// One bit for each value.
    set: u64,
    /// For the day of the month: true if the field has an L.
    has_last_day: bool,
    /// For the day of the week: bit `7 * (week - 1) + weekday` for each `#`. Week 6 is the last.
    nth_weekdays: u64,
    /// True if the field has a `*` or a `?`, without a step or with a step of 1.
    is_any: bool,
    /// True if the field has a `*` or a step.
    is_interval: bool,
}

impl Cron {
    /// Parses an expression.
    ///
    /// # Errors
    /// All errors, in the order of the fields.
    pub fn parse(text: &str) -> Result<Self, Vec<CronError>> {
        let nickname = text.trim().to_ascii_lowercase();
        if let Some((_, expanded)) = NICKNAMES.iter().find(|(name, _)| *name == nickname) {
            return Ok(Self { text: nickname, ..Self::parse(expanded)? });
        }
        let pieces = Piece { text, position: 1 }.split(char::is_whitespace);
        let fields: Vec<_> = pieces.into_iter().filter(|piece| !piece.text.is_empty()).collect();
        // Other cron implementations accept a time zone as a prefix.
        let is_zone =
            |field: &&Piece<'_>| ["CRON_TZ=", "TZ="].iter().any(|p| field.text.starts_with(p));
        if let Some(zone) = fields.first().filter(is_zone) {
            return Err(vec![CronError {
                position: zone.position,
                piece: zone.text.into(),
                problem: "a time zone stands before the fields".into(),
                expected: "the fields alone, and the zone in the setting time-zone",
            }]);
        }
        let (second, [minute, hour, day, month, weekday]) = match fields.as_slice() {
            [minute, hour, day, month, weekday] => (None, [minute, hour, day, month, weekday]),
            [second, minute, hour, day, month, weekday] => {
                (Some(second), [minute, hour, day, month, weekday])
            }
            _ => {
                let position =
                    fields.get(6).map_or(text.trim_end().chars().count() + 1, |f| f.position);
                let problem = format!("the number of fields is {}", fields.len());
                return Err(vec![CronError {
                    position,
                    piece: String::new(),
                    problem,
                    expected: FIELDS,
                }]);
            }
        };
        let mut errors = Vec::new();
        let mut parse_field = |field: &Field, piece: Option<&Piece<'_>>| {
            // Without a field for seconds, times are at second 0.
            let Some(piece) = piece else {
                return AllowedValues { set: 1, ..AllowedValues::default() };
            };
            field.parse(*piece).unwrap_or_else(|error| {
                errors.push(error);
                AllowedValues::default()
            })
        };
        let seconds = parse_field(&SECONDS, second);
        let [minutes, hours, days, months, weekdays] = [
            parse_field(&MINUTES, Some(minute)),
            parse_field(&HOURS, Some(hour)),
            parse_field(&DAYS, Some(day)),
            parse_field(&MONTHS, Some(month)),
            parse_field(&WEEKDAYS, Some(weekday)),
        ];
        if !errors.is_empty() {
            return Err(errors);
        }
        let texts: Vec<_> = fields.iter().map(|field| field.text).collect();
        let cron = Self {
            text: texts.join(" "),
            seconds: seconds.set,
            minutes: minutes.set,
            hours: hours.set,
            days: DaySet {
                month_days: days.set,
                has_last_day: days.has_last_day,
                weekdays: (weekdays.set | weekdays.set >> 7) & 0x7f,
                nth_weekdays: weekdays.nth_weekdays,
                is_either_enough: !days.is_any && !weekdays.is_any,
            },
            months: months.set,
            is_interval: seconds.is_interval || minutes.is_interval || hours.is_interval,
        };
        // Rejects days that never come, for example 30 February. The search starts in 2000, so it
        // covers every kind of year.
        if cron.next(&Zone::UTC, 946_684_800).is_none() {
            return Err(vec![CronError {
                position: day.position,
                piece: String::new(),
                problem: "such a day never comes".into(),
                expected: "a day that at least one of the months has",
            }]);
        }
        Ok(cron)
    }
}

impl Field {
    fn parse(&self, piece: Piece<'_>) -> Result<AllowedValues, CronError> {
        let mut allowed = AllowedValues::default();
        for item in piece.split(|c| c == ',') {
            self.parse_item(item, &mut allowed)?;
        }
        Ok(allowed)
    }

    fn parse_item(&self, item: Piece<'_>, allowed: &mut AllowedValues) -> Result<(), CronError> {
        let is_days = self.name == DAYS.name;
        let is_weekdays = self.name == WEEKDAYS.name;
        if is_days && item.text.eq_ignore_ascii_case("L") {
            allowed.has_last_day = true;
            return Ok(());
        }
        if is_weekdays && let Some((day, nth)) = item.split_once('#') {
            let weekday = self.value(day)? % 7;
            let week = match nth.text {
                "1" | "2" | "3" | "4" | "5" => nth.text.parse().unwrap_or(1),
                "L" | "l" => 6,
                _ => return Err(self.error(nth, "names a week that is not 1 to 5 or L")),
            };
            allowed.nth_weekdays |= 1 << (7 * (week - 1) + weekday);
            return Ok(());
        }
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => {
                let number: Option<u32> = step.number().filter(|n| (1..=self.max).contains(n));
                let number = number.ok_or_else(|| {
                    self.error(step, "has a step that is not a number in its range")
                })?;
                allowed.is_interval = true;
                (range, Some(number))
            }
            None => (item, None),
        };
        let is_wildcard = range.text == "*" || (range.text == "?" && (is_days || is_weekdays));
        // Like in Kubernetes' cron, a step of 1 leaves nothing out.
        allowed.is_any |= is_wildcard && step.is_none_or(|step| step == 1);
        let (first, last) = match range.split_once('-') {
            _ if is_wildcard => {
                allowed.is_interval |= range.text == "*";
                // Values 0 and 7 are both Sunday, so 7 is left out.
                (self.min, if is_weekdays { 6 } else { self.max })
            }
            Some((first, last)) => (self.value(first)?, self.value(last)?),
            // For example, 5/15 means 5-59/15.
            None => match (self.value(range)?, step) {
                (value, None) => (value, value),
                (value, Some(_)) => (value, if is_weekdays { value.max(6) } else { self.max }),
            },
        };
        // SAT-SUN ends on the Sunday with the value 7.
        let last = if is_weekdays && last == 0 && first > 0 { 7 } else { last };
        if first > last {
            return Err(self.error(range, "has a range that ends before it begins"));
        }
        for value in (first..=last).step_by(step.unwrap_or(1) as usize) {
            allowed.set |= 1 << value;
        }
        Ok(())
    }

    fn value(&self, piece: Piece<'_>) -> Result<u32, CronError> {
        let named_value = self.names.iter().position(|name| name.eq_ignore_ascii_case(piece.text));
        let named_value =
            named_value.and_then(|index| u32::try_from(index).ok()).map(|n| n + self.min);
        match named_value.or_else(|| piece.number()) {
            Some(value) if (self.min..=self.max).contains(&value) => Ok(value),
            Some(_) => {
                Err(self.error(piece, &format!("is not between {} and {}", self.min, self.max)))
            }
            None if piece.text.is_empty() => Err(self.error(piece, "is incomplete")),
            None => Err(self.error(piece, "cannot be read")),
        }
    }

    fn error(&self, piece: Piece<'_>, problem: &str) -> CronError {
        CronError {
            position: piece.position,
            piece: piece.text.into(),
            problem: format!("the {} {problem}", self.name),
            expected: self.expected,
        }
    }
}

impl<'t> Piece<'t> {
    /// Parses a number of digits only.
    fn number(self) -> Option<u32> {
        let is_digits =
            !self.text.is_empty() && self.text.bytes().all(|byte| byte.is_ascii_digit());
        self.text.parse().ok().filter(|_| is_digits)
    }

    fn split(self, at: impl Fn(char) -> bool) -> Vec<Piece<'t>> {
        let mut position = self.position;
        let pieces = self.text.split(at).map(|text| {
            let piece = Piece { text, position };
            position += text.chars().count() + 1;
            piece
        });
        pieces.collect()
    }

    fn split_once(self, at: char) -> Option<(Self, Self)> {
        let (before, after) = self.text.split_once(at)?;
        let position = self.position + before.chars().count() + 1;
        Some((Piece { text: before, ..self }, Piece { text: after, position }))
    }
}

#[cfg(test)]
mod tests;
