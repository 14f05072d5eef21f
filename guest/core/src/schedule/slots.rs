//! The instants of a timer, and the delivery rule of each. protocol.md §6.
//! [`agenda`](super::agenda) decides which of them a leader claims next.

mod cron;
mod zone;

use core::time::Duration;

use crate::step::clocks::{Timestamp, nanos};
use crate::step::limits;
use serde::{Deserialize, Serialize};
use tenure_base::duration::{format_duration, parse_duration};
use tenure_base::prelude::*;

pub use cron::{Cron, CronError};
pub use zone::{ZONES_RELEASE, Zone, ZoneOffset};

/// Prefixes of the descriptions.
const EVERY: &str = "every ";
const CRON: &str = "cron ";

/// The text for work that lasts as long as the leadership.
pub(crate) const WHILE_LEADING: &str = "while leading";

/// The text for work without a timer.
const ON_TRIGGER: &str = "on trigger";

/// The times of the turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// A fixed interval, aligned to 1970-01-01T00:00:00Z.
    Every(Interval),
    /// The times of a cron expression, in a time zone.
    Cron(Box<Cron>, Zone),
    /// One turn for each leadership, for its whole length.
    WhileLeading,
    /// One turn for each trigger, and no other.
    OnTrigger,
}

/// The delivery rule of a slot or a trigger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Delivery {
    /// One turn, regardless of the outcome.
    #[default]
    AtMostOnce,
    /// Turns until one succeeds, also under later leaders.
    AtLeastOnce {
        /// Number of turns after which the slot is abandoned.
        max_attempts: u32,
    },
}

/// An interval within [`limits::EVERY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval(Duration);

impl Schedule {
    /// Returns the schedule of an interval. None if it is out of range.
    pub fn every(every: Duration) -> Option<Self> {
        limits::EVERY.contains(&every).then_some(Self::Every(Interval(every)))
    }

    /// Returns the description of the schedule. Two candidates with different ones do not belong to
    /// one election.
    pub fn description(&self) -> String {
        match self {
            Self::Every(every) => String::from(EVERY) + &format_duration(every.0),
            Self::Cron(cron, zone) => format!("{CRON}{cron} {}", zone.name()),
            Self::WhileLeading => WHILE_LEADING.into(),
            Self::OnTrigger => ON_TRIGGER.into(),
        }
    }

    /// Parses a description by [`Schedule::description`], and returns the schedule and its time
    /// zone. An interval has no zone, and counts in UTC. None if the text is not a description.
    pub fn from_description(description: &str) -> Option<(Self, Zone)> {
        match description {
            WHILE_LEADING => return Some((Self::WhileLeading, Zone::UTC)),
            ON_TRIGGER => return Some((Self::OnTrigger, Zone::UTC)),
            _ => {}
        }
        if let Some(every) = description.strip_prefix(EVERY) {
            return Some((Self::every(parse_duration(every)?)?, Zone::UTC));
        }
        let (cron, zone) = description.strip_prefix(CRON)?.rsplit_once(' ')?;
        let (cron, zone) = (Box::new(Cron::parse(cron).ok()?), Zone::from_name(zone)?);
        Some((Self::Cron(cron, zone), zone))
    }

    /// Returns the shortest interval between two slots, measured over a hundred of them. None for
    /// work without slots.
    pub fn shortest_interval(&self) -> Option<Duration> {
        match self {
            Self::Every(every) => Some(every.0),
            Self::WhileLeading | Self::OnTrigger => None,
            Self::Cron(..) => {
                // Any instant would do; this one is the beginning of 2026.
                let first = self.next(Timestamp(1_767_225_600_000_000_000))?;
                let (mut shortest, mut previous) = (None, first);
                for _ in 1..100 {
                    let Some(slot) = self.next(previous) else { break };
                    let interval = slot.since(previous);
                    shortest = Some(shortest.unwrap_or(interval).min(interval));
                    previous = slot;
                }
                shortest
            }
        }
    }

    /// Returns the newest slot that is not later than `now`. None if there was none in decades.
    pub fn newest(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(every) => Some(every.newest(now)),
            Self::WhileLeading | Self::OnTrigger => None,
            Self::Cron(cron, zone) => {
                let second = cron.newest(zone, i64::try_from(now.seconds()).ok()?)?;
                from_seconds(second)
            }
        }
    }

    /// Returns the first slot later than `after`. None if there is none in decades.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(every) => Some(every.newest(after).plus(every.0)),
            Self::WhileLeading | Self::OnTrigger => None,
            Self::Cron(cron, zone) => {
                from_seconds(cron.next(zone, i64::try_from(after.seconds()).ok()?)?)
            }
        }
    }

    /// Counts the slots later than `start` and earlier than `end`, up to `limit`.
    pub fn count(&self, start: Timestamp, end: Timestamp, limit: u32) -> u32 {
        let mut newest = start;
        let mut count = 0;
        while let Some(slot) = self.next(newest)
            && slot < end
            && count < limit
        {
            (newest, count) = (slot, count + 1);
        }
        count
    }
}

impl Interval {
    fn newest(self, now: Timestamp) -> Timestamp {
        Timestamp(now.0 - now.0 % nanos(self.0))
    }
}

fn from_seconds(seconds: i64) -> Option<Timestamp> {
    u64::try_from(seconds).ok()?.checked_mul(1_000_000_000).map(Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(&format!("2026-11-20T{text}Z")).unwrap()
    }

    fn seconds(every: u64) -> Schedule {
        Schedule::every(Duration::from_secs(every)).unwrap()
    }

    #[test]
    fn slots_are_aligned_to_the_epoch() {
        let every = seconds(5);
        assert_eq!(every.newest(at("07:00:04.999")), Some(at("07:00:00")));
        assert_eq!(every.newest(at("07:00:05")), Some(at("07:00:05")));
        assert_eq!(every.next(at("07:00:05")), Some(at("07:00:10")));
        assert_eq!(every.next(at("07:00:03.2")), Some(at("07:00:05")));
    }

    #[test]
    fn a_cron_expression_names_whole_seconds() {
        let cron = Box::new(Cron::parse("*/5 * * * *").unwrap());
        let schedule = Schedule::Cron(cron, Zone::UTC);
        assert_eq!(schedule.newest(at("07:04:59.999")), Some(at("07:00:00")));
        assert_eq!(schedule.newest(at("07:05:00")), Some(at("07:05:00")));
        assert_eq!(schedule.next(at("07:00:00")), Some(at("07:05:00")));
        assert_eq!(schedule.next(at("07:04:59.999")), Some(at("07:05:00")));
    }

    #[test]
    fn out_of_range_intervals_are_refused() {
        assert!(Schedule::every(Duration::from_millis(999)).is_none());
        assert!(Schedule::every(Duration::from_secs(367 * 86_400)).is_none());
    }

    #[test]
    fn a_description_does_not_depend_on_the_spelling() {
        assert_eq!(seconds(90).description(), "every 1m 30s");
        let zone = Zone::from_name("Europe/Berlin").unwrap();
        let cron = Schedule::Cron(Box::new(Cron::parse(" 0  9 * * mon ").unwrap()), zone);
        assert_eq!(cron.description(), "cron 0 9 * * mon Europe/Berlin");
    }

    #[test]
    fn schedule_round_trips_through_its_description() {
        let zone = Zone::from_name("Europe/Berlin").unwrap();
        let cron = Schedule::Cron(Box::new(Cron::parse("0 9 * * mon").unwrap()), zone);
        for (schedule, zone) in [
            (seconds(90), Zone::UTC),
            (cron, zone),
            (Schedule::WhileLeading, Zone::UTC),
            (Schedule::OnTrigger, Zone::UTC),
        ] {
            assert_eq!(Schedule::from_description(&schedule.description()), Some((schedule, zone)));
        }
        for other in
            ["", "every", "every 0s", "every x", "cron UTC", "cron * * * * *", "now and then"]
        {
            assert_eq!(Schedule::from_description(other), None, "{other}");
        }
    }
}
