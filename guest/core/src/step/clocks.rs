//! The service's time, derived from its answers, and the elapsed time of a machine. Slots and
//! `since` use the service's time, so that replicas with wrong clocks agree. protocol.md §8, §10.

use core::time::Duration;

use crate::Moment;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tenure_azure::encoding;
use tenure_base::prelude::*;

/// Maximum lead of a recorded slot over the service's time that is no problem. Two candidates'
/// readings of that time differ by less.
const MAX_SLOT_LEAD: Duration = Duration::from_secs(10);

/// A point in time, in nanoseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Converts a date. Dates before 1970 or after 2262 become the nearest bound.
    pub fn from_date(date: DateTime<Utc>) -> Self {
        let last = u64::try_from(i64::MAX).unwrap_or(0);
        let nanos = date.timestamp_nanos_opt().map(u64::try_from);
        Self(match nanos {
            Some(Ok(nanos)) => nanos,
            Some(Err(_)) => 0,
            None if date.timestamp() < 0 => 0,
            None => last,
        })
    }

    /// Returns the same instant as a date of chrono.
    pub fn to_date(self) -> DateTime<Utc> {
        DateTime::from_timestamp_nanos(i64::try_from(self.0).unwrap_or(i64::MAX))
    }

    /// Returns the whole seconds since 1970.
    pub fn seconds(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// Formats this instant as RFC 3339 in UTC, with as many digits as it needs.
    pub fn to_rfc3339(self) -> String {
        encoding::format_rfc3339(self.to_date())
    }

    /// Parses RFC 3339.
    pub fn parse(text: &str) -> Option<Self> {
        encoding::parse_rfc3339(text).map(Self::from_date)
    }

    /// Returns this instant plus `span`.
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }

    /// Returns this instant minus `span`.
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }

    /// Returns this instant, truncated to milliseconds for readable texts.
    pub fn to_whole_millis(self) -> Self {
        Self(self.0 - self.0 % 1_000_000)
    }

    /// Returns the time since `earlier`; zero if that is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Percentage by which elapsed time is discounted. It exceeds the rate difference of any two
/// working clocks, so that a reading never overtakes the true time.
const DRIFT_PERCENT: u64 = 1;

/// Resolution of the service's dates.
const SECOND: Duration = Duration::from_secs(1);

/// Maximum plausible difference of a date from the known time. Beyond it, the date was wrong or the
/// service's clock was set: it counts only if the next answer agrees.
const JUMP: Duration = Duration::from_secs(10);

/// A clock with the service's time, learned from the dates of its answers.
///
/// A `Date` has whole seconds and takes some time to arrive, so each answer gives only a *lower
/// bound* of the time. The clock keeps the sharpest bound, and never runs ahead of the service.
/// After some answers it lags by little more than the time that an answer takes to arrive.
///
/// No single answer moves the time far. The first date, and a date far from the known time, count
/// only if the next answer agrees. Slots and terms follow this clock and never go back, so one
/// wrong date could do lasting harm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceClock {
    /// The sharpest reading that another date agreed with.
    confirmed: Option<Reading>,
    /// The newest date, if it agreed with no earlier date.
    unconfirmed: Option<Reading>,
}

/// A lower bound of the service's time at the instant `read_at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Reading {
    time: Timestamp,
    read_at: Moment,
}

impl Reading {
    /// Returns the lower bound of the time at `at`.
    fn least_time(self, at: Moment) -> Timestamp {
        let passed = nanos(at.saturating_sub(self.read_at));
        let trusted = passed - passed / 100 * DRIFT_PERCENT;
        self.time.plus(Duration::from_nanos(trusted))
    }

    /// Returns the sharper of this reading and one that `reported` the time at `at`. None if they
    /// do not agree.
    fn merge(self, reported: Timestamp, at: Moment) -> Option<Self> {
        let expected = self.least_time(at);
        let difference = expected.since(reported).max(reported.since(expected));
        let time = if expected > reported { expected.min(reported.plus(SECOND)) } else { reported };
        (difference <= JUMP).then_some(Self { time, read_at: at })
    }
}

impl ServiceClock {
    /// Updates the clock from the `Date` of an answer that arrived at `at`.
    pub fn learn(&mut self, date: DateTime<Utc>, at: Moment) {
        let reported = Timestamp::from_date(date);
        let merged = [self.confirmed, self.unconfirmed]
            .into_iter()
            .flatten()
            .find_map(|reading| reading.merge(reported, at));
        match merged {
            Some(_) => *self = Self { confirmed: merged, unconfirmed: None },
            None => self.unconfirmed = Some(Reading { time: reported, read_at: at }),
        }
    }

    /// Returns the most likely time of the service, already after the first answer. It is used to
    /// sign: the service tolerates minutes there, and the next answer reveals an error.
    pub fn estimate(&self, at: Moment) -> Option<Timestamp> {
        let Reading { time, read_at } = self.confirmed.or(self.unconfirmed)?;
        Some(time.plus(at.saturating_sub(read_at)))
    }

    /// Returns the lower bound of the service's time at `at`. None before two answers agreed.
    pub fn now(&self, at: Moment) -> Option<Timestamp> {
        Some(self.confirmed?.least_time(at))
    }
}

/// Returns true if a slot lies further in the future than the clocks of two candidates can differ.
pub(crate) fn is_ahead(slot: Timestamp, now: Timestamp) -> bool {
    slot > now.plus(MAX_SLOT_LEAD)
}

/// The start time of a step.
#[derive(Clone, Copy, Debug)]
pub struct StepStart {
    /// Start of the step on the clock of the host (`elapsed`).
    pub at: Moment,
    /// Maximum time by which that clock may run ahead. It is subtracted where an action must not
    /// come too early.
    pub clock_lead: Duration,
}

impl From<Moment> for StepStart {
    fn from(at: Moment) -> Self {
        Self { at, clock_lead: Duration::ZERO }
    }
}

/// Elapsed time by the two clocks of a machine, for an invocation without a host that measures it.
///
/// A lease requires a clock that never goes back and also counts while the machine sleeps. Standard
/// WASI has none: its monotonic clock may stand still during sleep, and its wall clock can be set.
/// So each reading adds the larger advance of the two clocks since the previous reading. Setting
/// the wall clock back takes nothing away. Setting it forward makes leases shorter, never longer.
///
/// One case is undetectable: a machine that sleeps while its wall clock is set back by as much,
/// between the same two readings. Only the term protects then.
#[derive(Clone, Copy, Debug)]
pub struct ElapsedClock {
    /// Time since the start, by the clock that advanced more at each reading.
    passed: Moment,
    /// Time since the start, by the clock that advanced less at each reading.
    least_passed: Moment,
    monotonic: Duration,
    wall: DateTime<Utc>,
}

impl ElapsedClock {
    /// Starts the clock at these readings.
    #[must_use]
    pub fn new(monotonic: Duration, wall: DateTime<Utc>) -> Self {
        Self { passed: Moment::ZERO, least_passed: Moment::ZERO, monotonic, wall }
    }

    /// Returns the time since the start. It may run ahead of real time; the documentation of
    /// [`ElapsedClock`] describes the one case in which it lags.
    pub fn read(&mut self, monotonic: Duration, wall: DateTime<Utc>) -> Moment {
        let by_wall = wall.signed_duration_since(self.wall).to_std().unwrap_or_default();
        let by_monotonic = monotonic.saturating_sub(self.monotonic);
        let passed = self.passed + by_monotonic.max(by_wall);
        *self = Self {
            passed,
            least_passed: self.least_passed + by_monotonic.min(by_wall),
            monotonic,
            wall,
        };
        self.passed
    }

    /// Returns the maximum time by which the newest reading may run ahead.
    #[must_use]
    pub fn clock_lead(&self) -> Duration {
        self.passed.saturating_sub(self.least_passed)
    }

    /// Returns the start of a step at the newest reading.
    #[must_use]
    pub fn step_start(&self) -> StepStart {
        StepStart { at: self.passed, clock_lead: self.clock_lead() }
    }

    /// Returns the newest reading on the clock of a step that started at `start`. Within the step
    /// it adds the smaller advance of the two clocks, so it does not run ahead. A leader's validity
    /// counts from a reading before its request, so a reading that lags only shortens it.
    #[must_use]
    pub fn elapsed_in_step(&self, start: StepStart) -> Moment {
        self.least_passed + start.clock_lead
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn date(text: &str) -> DateTime<Utc> {
        DateTime::parse_from_rfc3339(text).unwrap().with_timezone(&Utc)
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn knows_nothing_before_the_first_answer() {
        assert_eq!(ServiceClock::default().now(ms(5)), None);
    }

    #[test]
    fn keeps_the_sharpest_reading_and_never_runs_ahead() {
        let origin = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        let truth = |at: Duration| origin.plus(at);
        let mut clock = ServiceClock::default();
        for answer in [300, 4_290, 8_280, 12_900, 16_050, 20_000, 24_999] {
            let at = ms(answer);
            let whole = DateTime::from_timestamp(i64::try_from(truth(at).seconds()).unwrap(), 0);
            clock.learn(whole.unwrap(), at + ms(3)); // three milliseconds on the way
            let read = clock.now(at + ms(3));
            assert_eq!(read.is_some(), answer > 300, "two answers have to agree");
            assert!(read.is_none_or(|read| read <= truth(at + ms(3))), "{read:?} is ahead");
        }
        let read = clock.now(ms(25_002)).unwrap();
        assert!(truth(ms(25_002)).since(read) < ms(60), "falls behind by little: {read:?}");
    }

    #[test]
    fn a_clock_that_is_fast_by_a_hundredth_does_not_overtake_the_service() {
        let origin = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        let mut clock = ServiceClock::default();
        for true_ms in (7..400_000).step_by(3_571) {
            let truth = origin.plus(ms(true_ms));
            let local_time = ms(true_ms) + ms(true_ms) / 100;
            if let Some(read) = clock.now(local_time) {
                assert!(read <= truth, "{read:?} is ahead of {truth:?}");
            }
            let whole = DateTime::from_timestamp(i64::try_from(truth.seconds()).unwrap(), 0);
            clock.learn(whole.unwrap(), local_time);
        }
    }

    #[test]
    fn follows_a_service_whose_clock_was_set_when_the_next_answer_agrees() {
        for other in ["2026-01-01T00:00:00Z", "2026-01-01T02:00:00Z"] {
            let mut clock = ServiceClock::default();
            clock.learn(date("2026-01-01T01:00:00Z"), ms(0));
            clock.learn(date("2026-01-01T01:00:00Z"), ms(500));
            let before = Timestamp::parse("2026-01-01T01:00:00Z").unwrap();
            clock.learn(date(other), ms(1_000));
            assert!(clock.now(ms(1_000)).unwrap().since(before) < ms(2_000), "{other}");
            clock.learn(date(other), ms(1_500));
            let after = Timestamp::parse(other).unwrap();
            assert!(clock.now(ms(1_500)).unwrap().since(after) < ms(1_000), "{other}");
            assert!(clock.now(ms(1_500)).unwrap() >= after, "{other}");
        }
    }

    #[test]
    fn unconfirmed_dates_do_not_set_the_time() {
        let mut clock = ServiceClock::default();
        for hour in 0..20 {
            let text = format!("2026-01-01T{hour:02}:00:00Z");
            clock.learn(date(&text), ms(hour));
            assert_eq!(clock.now(ms(hour)), None, "{text}");
            assert_eq!(clock.estimate(ms(hour)), Timestamp::parse(&text));
        }
    }

    #[test]
    fn dates_outside_the_range_become_its_bounds() {
        assert_eq!(Timestamp::from_date(date("1969-12-31T23:59:59Z")), Timestamp(0));
        let last = Timestamp(u64::try_from(i64::MAX).unwrap());
        assert_eq!(Timestamp::from_date(date("9999-01-01T00:00:00Z")), last);
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_158_000 + seconds, 0).unwrap()
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn elapsed_time_follows_the_faster_clock_and_never_goes_back() {
        let mut time = ElapsedClock::new(seconds(7), at(0));
        assert_eq!(time.read(seconds(8), at(1)), seconds(1));
        // Asleep for a minute.
        assert_eq!(time.read(seconds(8), at(61)), seconds(61));
        // Set forward by an hour, and back again.
        assert_eq!(time.read(seconds(9), at(3_662)), seconds(3_662));
        assert_eq!(time.read(seconds(10), at(63)), seconds(3_663));
        assert_eq!(time.read(seconds(610), at(663)), seconds(4_263));
        // 60 s asleep, an hour forward, and the time that passed while the clock was set back.
        assert_eq!(time.clock_lead(), seconds(60 + 3_600 + 1));
    }

    proptest! {
        #[test]
        fn elapsed_is_at_least_the_monotonic_time(
            readings in proptest::collection::vec((0_u64..100, -10_000_i64..10_000), 1..20)
        ) {
            let mut time = ElapsedClock::new(seconds(0), at(0));
            let (mut before, mut monotonic) = (Moment::ZERO, seconds(0));
            for (step, wall) in readings {
                monotonic += seconds(step);
                let read = time.read(monotonic, at(wall));
                prop_assert!(read >= before + seconds(step));
                before = read;
            }
        }
    }
}
