//! The periods of an election, and the rules of each and between them. protocol.md §2.

use core::time::Duration;

use super::{ONE_SHOT_LEASE, SettingsReader, variable};
use crate::Moment;
use crate::mutants::mutant;
use crate::step::limits;
use crate::step::pace::Failover;
use tenure_base::duration::format_duration;
use tenure_base::prelude::*;

/// Minimum time-out of a record write, even if a renewal is due before.
const MIN_WRITE: Duration = Duration::from_secs(1);

/// Maximum wait of a holder between two tries of the same request.
pub(crate) const BACK_OFF: Duration = Duration::from_millis(500);

/// The resolution of the service's dates.
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The periods of one candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// Period of the lease, in whole seconds within [`limits::LEASE`].
    pub lease: Duration,
    /// Time before the lease's end at which a leader stops acting. At least
    /// [`limits::MIN_MARGIN`].
    pub margin: Duration,
    /// Time from one successful renewal to the next.
    pub renew: Duration,
    /// Maximum wait of a follower between two polls; the minimum is half of it.
    pub poll: Duration,
    /// Time-out of one request.
    pub request_timeout: Duration,
    /// Time within which a dead leader is replaced, if that is shorter than its lease.
    pub failover: Option<Failover>,
}

impl Timings {
    /// Returns the lease less the margin: the time for which a leader without beats may act after a
    /// renewal. It also applies to a leader with failover on an account that keeps versions.
    pub fn lease_validity(&self) -> Duration {
        self.lease.saturating_sub(self.margin)
    }

    /// Returns the time for which a leader may act after a renewal, or with failover after a beat.
    pub fn validity(&self) -> Duration {
        self.failover.map_or(self.lease_validity(), |failover| {
            self.lease_validity().min(failover.validity())
        })
    }

    /// Returns the time from one renewal to the next, or with failover from one beat to the next.
    pub fn renewal_interval(&self) -> Duration {
        self.failover.map_or(self.renew, Failover::beat_interval)
    }

    /// Returns the end of the validity of a lease whose acquire or renewal was sent at `sent` and
    /// answered at `now`.
    pub(crate) fn valid_until(&self, sent: Moment, now: Moment) -> Moment {
        let start = if mutant!(ValidityFromAnswer) { now } else { sent };
        start + self.lease - self.margin
    }

    /// Returns the maximum wait of a follower between two tries of one request.
    pub(crate) fn patience(&self) -> Duration {
        self.poll.max(BACK_OFF)
    }

    /// Returns the maximum time-out at `now` of a leader's request other than a renewal. After it,
    /// two tries of a renewal must still fit before `valid_until`; the second one follows the first
    /// at once. The result never exceeds the request time-out.
    ///
    /// With a round trip of `r`, a renewal sent at 0 is answered at `r`. A request sent at `r` gets
    /// `lease − margin − r − 2 × time-out`. That suffices for its own round trip while
    /// `r ≤ (lease − margin − 2 × time-out) / 2`. With the defaults that is (15 − 3 − 6) / 2 = 3 s,
    /// the whole time-out.
    pub(crate) fn background_timeout(&self, now: Moment, valid_until: Moment) -> Duration {
        let time_left = valid_until.saturating_sub(now);
        time_left.saturating_sub(2 * self.request_timeout).min(self.request_timeout)
    }

    /// Returns the time-out at `now` of a record write, or of the read that verifies it. It is the
    /// longest of [`Timings::background_timeout`], the time until `renewal`, and one second. It
    /// never exceeds the request time-out or the rest of the validity.
    pub(crate) fn write_timeout(
        &self,
        now: Moment,
        renewal: Moment,
        valid_until: Moment,
    ) -> Duration {
        let least = MIN_WRITE.max(renewal.saturating_sub(now));
        let time_left = valid_until.saturating_sub(now);
        self.background_timeout(now, valid_until)
            .max(least)
            .min(self.request_timeout)
            .min(time_left)
    }

    /// Returns the maximum request time-out that fits the other periods.
    pub fn longest_timeout(&self) -> Duration {
        (self.lease.saturating_sub(self.margin + self.renew) / 2).saturating_sub(BACK_OFF)
    }
}

/// The settings of the periods.
const PERIODS: [&str; 6] = [
    variable::LEASE,
    variable::MARGIN,
    variable::RENEW,
    variable::POLL,
    variable::REQUEST_TIMEOUT,
    variable::FAILOVER,
];

impl SettingsReader<'_> {
    /// Reads the periods, and complains about all rules that they break. None if there are such
    /// complaints.
    pub(super) fn timings(&mut self) -> Option<Timings> {
        // If a period is unreadable, the rules between periods are not checked.
        let has_unreadable_period = self.has_complaint(&PERIODS);
        if self.options.failover.is_some() && self.one_shot {
            let problem = "an invocation that is one whole turn cannot use failover";
            let advice = "leave it out, or let a host call the component in steps";
            self.complain(variable::FAILOVER, problem, advice);
        }
        let advice = "choose 3s; less only if requests take at most a tenth of it";
        let failover = self.options.failover;
        let failover = self.duration_in(variable::FAILOVER, failover, limits::FAILOVER, advice);
        let lease = self.lease(failover);
        let margin = self.options.margin.unwrap_or(limits::MIN_MARGIN.max(lease / 5));
        let advice =
            "the service may end a lease 2s early; leave the margin at a fifth of the lease";
        self.check_least(variable::MARGIN, margin, limits::MIN_MARGIN, advice);
        let request_timeout = self
            .duration_in(
                variable::REQUEST_TIMEOUT,
                self.options.request_timeout,
                limits::REQUEST_TIMEOUT,
                "choose 3s unless the storage account is far away",
            )
            .unwrap_or(limits::DEFAULT_REQUEST_TIMEOUT);
        let poll = self
            .duration_in(
                variable::POLL,
                self.options.poll,
                limits::POLL,
                "a follower waits half of it to all of it; 4s gives a fast takeover at little cost",
            )
            .unwrap_or(limits::DEFAULT_POLL);
        let renew = self.options.renew.unwrap_or(lease * 4 / 15);
        let advice = "choose about a quarter of the lease";
        let timings = Timings {
            lease,
            margin,
            renew,
            poll,
            request_timeout,
            failover: failover.map(|within| Failover { within }),
        };
        if self.check_least(variable::RENEW, renew, limits::MIN_RENEW, advice)
            && limits::LEASE.contains(&lease)
            && !has_unreadable_period
        {
            self.check_renewal_fits(&timings);
        }
        (!self.has_complaint(&PERIODS)).then_some(timings)
    }

    fn lease(&mut self, failover: Option<Duration>) -> Duration {
        let default = match failover {
            _ if self.one_shot => ONE_SHOT_LEASE,
            Some(_) => limits::DEFAULT_LEASE_WITH_FAILOVER,
            None => limits::DEFAULT_LEASE,
        };
        let lease = self.options.lease.unwrap_or(default);
        if !limits::LEASE.contains(&lease) || lease.subsec_nanos() != 0 {
            let lease = format_duration(lease);
            // In seconds, as Azure states them.
            let [least, most] = [limits::LEASE.start(), limits::LEASE.end()].map(Duration::as_secs);
            let problem = format!(
                "{lease} is not a lease that the service grants (whole seconds, {least}s to \
                 {most}s)"
            );
            let advice = "choose 15s to be replaced soonest, more for fewer requests";
            self.complain(variable::LEASE, problem, advice);
        }
        lease
    }

    /// Complains if a period is shorter than `least`. Returns true if it is not.
    fn check_least(
        &mut self,
        setting: &'static str,
        period: Duration,
        least: Duration,
        advice: &str,
    ) -> bool {
        let is_long_enough = period >= least;
        if !is_long_enough {
            let (period, least) = (format_duration(period), format_duration(least));
            self.complain(setting, format!("{period} is shorter than {least}"), advice);
        }
        is_long_enough
    }

    fn check_renewal_fits(&mut self, timings: &Timings) {
        let Timings { lease, margin, renew, request_timeout, .. } = *timings;
        let attempt = request_timeout + BACK_OFF;
        if renew + 2 * attempt + margin <= lease {
            return;
        }
        let longest_renewal = lease.saturating_sub(2 * attempt + margin);
        let advice = if longest_renewal < limits::MIN_RENEW {
            "choose a longer lease, a shorter margin or a shorter request time-out".into()
        } else {
            let millis = u64::try_from(longest_renewal.as_millis()).unwrap_or(u64::MAX);
            format!(
                "renew every {} or less, or choose a longer lease, a shorter margin or a shorter request time-out",
                format_duration(Duration::from_millis(millis))
            )
        };
        let options = &self.options;
        let setting = match (options.renew, options.margin, options.request_timeout) {
            (Some(_), ..) => variable::RENEW,
            (None, Some(_), _) => variable::MARGIN,
            (None, None, Some(_)) => variable::REQUEST_TIMEOUT,
            (None, None, None) => variable::LEASE,
        };
        let problem = format!(
            "a renewal every {} and two attempts of {} each exceed the {} for which a leader may act, with a lease of \
             {} and a margin of {}",
            format_duration(renew),
            format_duration(attempt),
            format_duration(timings.lease_validity()),
            format_duration(lease),
            format_duration(margin),
        );
        self.complain(setting, problem, &advice);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;

    fn read_timings(options: &Options) -> Result<Timings, Vec<(&'static str, String)>> {
        let mut reader = SettingsReader::new(options, &|_: &str| None, false);
        let timings = reader.timings();
        let complaints = reader.complaints.into_iter().map(|c| (c.setting.variable(), c.advice));
        timings.ok_or_else(|| complaints.collect())
    }

    fn seconds(seconds: f64) -> Option<Duration> {
        Some(Duration::from_secs_f64(seconds))
    }

    #[test]
    fn defaults_are_those_of_the_protocol() {
        let timings = read_timings(&Options::default()).unwrap();
        let expected = Timings {
            lease: Duration::from_secs(15),
            margin: Duration::from_secs(3),
            renew: Duration::from_secs(4),
            poll: Duration::from_secs(4),
            request_timeout: Duration::from_secs(3),
            failover: None,
        };
        assert_eq!(timings, expected);
    }

    #[test]
    fn unset_periods_follow_from_the_lease() {
        for lease in 15..=60 {
            let timings = Options { lease: seconds(f64::from(lease)), ..Options::default() };
            let timings = read_timings(&timings).unwrap();
            assert_eq!(timings.margin, Duration::from_secs(3).max(timings.lease / 5));
            assert_eq!(timings.renew, timings.lease * 4 / 15);
        }
    }

    #[test]
    fn refuses_each_contradiction_and_names_it() {
        let none = Options::default;
        for (wanted, setting) in [
            (Options { lease: seconds(14.0), ..none() }, variable::LEASE),
            (Options { lease: seconds(61.0), ..none() }, variable::LEASE),
            (Options { lease: seconds(15.5), ..none() }, variable::LEASE),
            (Options { margin: seconds(2.4), ..none() }, variable::MARGIN),
            (Options { margin: seconds(9.0), ..none() }, variable::MARGIN),
            (Options { renew: seconds(5.1), ..none() }, variable::RENEW),
            (Options { renew: seconds(0.5), ..none() }, variable::RENEW),
            (Options { renew: seconds(20.0), ..none() }, variable::RENEW),
            (Options { poll: seconds(0.4), ..none() }, variable::POLL),
            (Options { poll: seconds(61.0), ..none() }, variable::POLL),
            (Options { request_timeout: seconds(0.9), ..none() }, variable::REQUEST_TIMEOUT),
            (Options { request_timeout: seconds(4.0), ..none() }, variable::REQUEST_TIMEOUT),
            (Options { request_timeout: seconds(31.0), ..none() }, variable::REQUEST_TIMEOUT),
            (Options { failover: seconds(0.9), ..none() }, variable::FAILOVER),
            (Options { failover: seconds(10.1), ..none() }, variable::FAILOVER),
        ] {
            let breaches = read_timings(&wanted).unwrap_err();
            assert!(breaches.iter().any(|(name, _)| *name == setting), "{wanted:?}: {breaches:?}");
        }
        let all = Options {
            lease: seconds(70.0),
            margin: seconds(1.0),
            poll: seconds(0.0),
            renew: seconds(0.1),
            request_timeout: seconds(0.0),
            failover: seconds(0.0),
            ..none()
        };
        assert_eq!(read_timings(&all).unwrap_err().len(), 6);
    }

    #[test]
    fn the_advice_can_be_followed() {
        let wanted = Options { renew: seconds(20.0), ..Options::default() };
        let (_, advice) = read_timings(&wanted).unwrap_err().remove(0);
        assert!(advice.starts_with("renew every 5s or less"), "{advice}");
        assert!(read_timings(&Options { renew: seconds(5.0), ..Options::default() }).is_ok());
    }

    #[test]
    fn failover_defaults_to_the_longest_lease() {
        let with = read_timings(&Options { failover: seconds(3.0), ..Options::default() }).unwrap();
        assert_eq!((with.lease, with.renew), (Duration::from_secs(60), Duration::from_secs(16)));
    }

    #[test]
    fn a_write_has_the_whole_timeout_while_two_tries_of_a_renewal_still_fit() {
        let at = Duration::from_millis;
        let timings = Timings {
            lease: at(15_000),
            margin: at(3_000),
            renew: at(4_000),
            poll: at(4_000),
            request_timeout: at(3_000),
            failover: None,
        };
        // Sent at 0, so valid until 12 s; the next renewal is due at 4 s.
        let timeout_at = |now| timings.write_timeout(at(now), at(4_000), at(12_000));
        for round_trip in [0, 1_000, 1_700, 2_500, 3_000] {
            assert_eq!(timeout_at(round_trip), at(3_000), "{round_trip}");
        }
        assert_eq!(timeout_at(3_500), at(2_500), "as long as leaves time for both tries");
        assert_eq!(timeout_at(5_500), at(1_000), "at least a second");
        assert_eq!(timeout_at(11_500), at(500), "and never longer than the validity");
        // With this time-out, a write gets only the time that two tries of a renewal leave.
        let close = Timings { request_timeout: at(3_500), ..timings };
        assert_eq!(close.write_timeout(at(2_000), at(4_000), at(12_000)), at(3_000));
        assert_eq!(close.write_timeout(at(3_400), at(4_000), at(12_000)), at(1_600));
        assert_eq!(close.background_timeout(at(6_000), at(12_000)), Duration::ZERO);
    }
}
