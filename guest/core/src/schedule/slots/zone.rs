//! Time zones, each with its current rule only.
//!
//! Slots lie in the present and the near future, so the history of a zone is not needed. The build
//! script generates the rules from the IANA data. A zone with summer time by yearly decree would
//! get its fallback rule. A test detects such a zone; the present data has none.

use core::fmt;

use chrono::{
    DateTime, Datelike, Days, FixedOffset, MappedLocalTime, NaiveDate, NaiveDateTime, Offset,
    TimeZone,
};

use tenure_base::prelude::*;

include!(concat!(env!("OUT_DIR"), "/zones.rs"));

/// The release of the IANA data, such as `2026a`.
pub const ZONES_RELEASE: &str = RELEASE;

/// A time zone by its IANA name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The name up to the last slash, with the slash; empty for a name without one.
    region: &'static str,
    place: &'static str,
    rule: Rule,
}

/// The rule of a zone: its offset in seconds east of Greenwich, and its yearly changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    standard: i32,
    summer: Option<Summer>,
}

/// Summer time. In the south it begins later in the year than it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Summer {
    /// Offset in summer, in seconds east of Greenwich.
    offset: i32,
    start: Change,
    end: Change,
}

/// A yearly change of the offset, by the clock before the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    month: u8,
    /// Occurrence of the weekday in the month: 1 to 4, or 5 for the last one.
    week: u8,
    /// Day of the week; 0 is Sunday.
    weekday: u8,
    /// Seconds after midnight; may be negative, or more than a day.
    time: i32,
}

/// A span of time with a constant offset, in seconds since 1970. `end` is not part of the span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OffsetSpan {
    pub start: i64,
    pub end: i64,
    pub offset: i32,
    /// The offset of the span before.
    pub previous_offset: i32,
}

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Self =
        Self { region: "", place: "UTC", rule: Rule { standard: 0, summer: None } };

    /// Returns the zone with that name, ignoring case.
    pub fn from_name(name: &str) -> Option<Self> {
        let slash = name.bytes().rposition(|byte| byte == b'/').map_or(0, |slash| slash + 1);
        let (region, place) = name.split_at_checked(slash)?;
        Self::all().find(|zone| {
            zone.place.eq_ignore_ascii_case(place) && zone.region.eq_ignore_ascii_case(region)
        })
    }

    /// Returns all zones.
    pub fn all() -> impl Iterator<Item = Self> {
        let mut region = "";
        // A line with the name of a region comes before the lines of its places.
        let places = NAMES.split('\n').filter_map(move |line| match line.ends_with('/') {
            true => {
                region = line;
                None
            }
            false => Some((region, line)),
        });
        places.zip(RULE_INDEX.iter()).filter_map(|((region, place), rule)| {
            Some(Self { region, place, rule: *RULES.get(usize::from(*rule))? })
        })
    }

    /// Returns the IANA name.
    pub fn name(&self) -> String {
        String::from(self.region) + self.place
    }

    /// Returns the span that contains `second`.
    pub(super) fn offset_span(&self, second: i64) -> OffsetSpan {
        let Rule { standard, summer } = self.rule;
        let whole_span = OffsetSpan {
            start: i64::MIN,
            end: i64::MAX,
            offset: standard,
            previous_offset: standard,
        };
        let (Some(summer), Some(date)) = (summer, DateTime::from_timestamp(second, 0)) else {
            return whole_span;
        };
        let mut changes: Vec<(i64, i32, i32)> = Vec::with_capacity(6);
        for year in date.year() - 1..=date.year() + 1 {
            changes.extend(
                summer.start.instant_in(year, standard).map(|at| (at, standard, summer.offset)),
            );
            changes.extend(
                summer.end.instant_in(year, summer.offset).map(|at| (at, summer.offset, standard)),
            );
        }
        // The changes are not sorted: that would add 2 KB to the component.
        let current_change =
            changes.iter().filter(|(at, ..)| *at <= second).max_by_key(|(at, ..)| *at);
        let next_change = changes.iter().filter(|(at, ..)| *at > second).min_by_key(|(at, ..)| *at);
        match (current_change, next_change) {
            (Some(&(start, previous_offset, offset)), Some(&(end, ..))) => {
                OffsetSpan { start, end, offset, previous_offset }
            }
            _ => whole_span, // The year is out of range for dates.
        }
    }
}

impl Change {
    /// Returns the instant in `year`; the clock shows `offset` up to then.
    fn instant_in(self, year: i32, offset: i32) -> Option<i64> {
        let first = NaiveDate::from_ymd_opt(year, self.month.into(), 1)?;
        let days_ahead =
            (7 + u64::from(self.weekday) - u64::from(first.weekday().num_days_from_sunday())) % 7;
        let day = first.checked_add_days(Days::new(days_ahead + 7 * u64::from(self.week - 1)))?;
        let day = match day.month() == first.month() {
            true => day,
            false => day.checked_sub_days(Days::new(7))?,
        };
        Some(day.and_time(Default::default()).and_utc().timestamp() + i64::from(self.time - offset))
    }
}

/// The offset of a zone at some instant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ZoneOffset {
    zone: Zone,
    fixed: FixedOffset,
}

impl Offset for ZoneOffset {
    fn fix(&self) -> FixedOffset {
        self.fixed
    }
}

impl fmt::Debug for ZoneOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ZoneOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.fixed, f)
    }
}

impl Zone {
    fn at_offset(self, offset: i32) -> ZoneOffset {
        let fixed = FixedOffset::east_opt(offset).unwrap_or(Offset::fix(&chrono::Utc));
        ZoneOffset { zone: self, fixed }
    }
}

impl TimeZone for Zone {
    type Offset = ZoneOffset;

    fn from_offset(offset: &ZoneOffset) -> Self {
        offset.zone
    }

    fn offset_from_local_date(&self, local: &NaiveDate) -> MappedLocalTime<ZoneOffset> {
        self.offset_from_local_datetime(&local.and_time(Default::default()))
    }

    fn offset_from_local_datetime(&self, local: &NaiveDateTime) -> MappedLocalTime<ZoneOffset> {
        let local = local.and_utc().timestamp();
        // No zone is further from Greenwich than a day.
        let spans = [self.offset_span(local - 86_400), self.offset_span(local + 86_400)];
        let offset_if_inside = |span: OffsetSpan| {
            let second = local - i64::from(span.offset);
            (span.start <= second && second < span.end).then(|| self.at_offset(span.offset))
        };
        match spans.map(offset_if_inside) {
            [Some(before), Some(after)] if before != after => {
                MappedLocalTime::Ambiguous(before, after)
            }
            [Some(offset), _] | [None, Some(offset)] => MappedLocalTime::Single(offset),
            [None, None] => MappedLocalTime::None,
        }
    }

    fn offset_from_utc_date(&self, utc: &NaiveDate) -> ZoneOffset {
        self.offset_from_utc_datetime(&utc.and_time(Default::default()))
    }

    fn offset_from_utc_datetime(&self, utc: &NaiveDateTime) -> ZoneOffset {
        self.at_offset(self.offset_span(utc.and_utc().timestamp()).offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From 2026-11-18 to 2034: far enough to detect a zone with more than one rule.
    const CHECKED_RANGE: core::ops::Range<i64> = 1_795_000_000..2_019_686_400;

    #[test]
    fn every_zone_changes_as_in_jiff() {
        for zone in Zone::all() {
            let name = zone.name();
            assert_eq!(Zone::from_name(&name), Some(zone));
            let mut actual =
                vec![(CHECKED_RANGE.start, zone.offset_span(CHECKED_RANGE.start).offset)];
            loop {
                let next = zone.offset_span(actual.last().unwrap().0).end;
                if next >= CHECKED_RANGE.end {
                    break;
                }
                actual.push((next, zone.offset_span(next).offset));
            }
            let reference = jiff::tz::TimeZone::get(&name).unwrap();
            let from = jiff::Timestamp::from_second(CHECKED_RANGE.start).unwrap();
            let changes =
                reference.following(from).map(|c| (c.timestamp().as_second(), c.offset()));
            let mut expected = vec![(CHECKED_RANGE.start, reference.to_offset(from).seconds())];
            expected.extend(
                changes
                    .take_while(|(at, _)| *at < CHECKED_RANGE.end)
                    .map(|(at, o)| (at, o.seconds())),
            );
            expected.dedup_by_key(|(_, offset)| *offset);
            assert_eq!(actual, expected, "{name}");
        }
    }

    #[test]
    fn zone_names_ignore_case() {
        assert_eq!(Zone::from_name("europe/BERLIN").unwrap().name(), "Europe/Berlin");
        assert_eq!(Zone::from_name("utc").unwrap().rule, Zone::UTC.rule);
        for unknown in ["", "Europe", "Europe/Bonn", "+01:00", "CEST", "Europe/Berlin\nAsia/Tokyo"]
        {
            assert_eq!(Zone::from_name(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn local_times_occur_once_twice_or_never() {
        let berlin = Zone::from_name("Europe/Berlin").unwrap();
        let local = |text| {
            let local = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap();
            let offsets = berlin.offset_from_local_datetime(&local);
            offsets.map(|offset| offset.to_string())
        };
        let (winter, summer) = ("+01:00".to_owned(), "+02:00".to_owned());
        assert_eq!(local("2026-03-29 01:59"), MappedLocalTime::Single(winter.clone()));
        assert_eq!(local("2026-03-29 02:00"), MappedLocalTime::None);
        assert_eq!(local("2026-03-29 02:59"), MappedLocalTime::None);
        assert_eq!(local("2026-03-29 03:00"), MappedLocalTime::Single(summer.clone()));
        assert_eq!(local("2026-10-25 01:59"), MappedLocalTime::Single(summer.clone()));
        for twice in ["2026-10-25 02:00", "2026-10-25 02:59"] {
            assert_eq!(local(twice), MappedLocalTime::Ambiguous(summer.clone(), winter.clone()));
        }
        assert_eq!(local("2026-10-25 03:00"), MappedLocalTime::Single(winter.clone()));
    }

    #[test]
    fn chrono_converts_there_and_back() {
        for name in ["Europe/Berlin", "Australia/Lord_Howe", "America/Nuuk", "Asia/Tokyo"] {
            let zone = Zone::from_name(name).unwrap();
            for half_hours in 0..20_000 {
                let utc = DateTime::from_timestamp(1_795_000_000 + half_hours * 1_800, 0).unwrap();
                let local = utc.with_timezone(&zone);
                let back = zone.from_local_datetime(&local.naive_local());
                let found = [back.earliest(), back.latest()].map(|time| time.unwrap().to_utc());
                assert!(found.contains(&utc), "{name}, {utc}");
            }
        }
    }

    #[test]
    fn zone_data_has_a_release() {
        assert!(ZONES_RELEASE.starts_with("20"), "{ZONES_RELEASE}");
        assert!(Zone::all().count() > 500);
    }
}
