//! The periods of an election and the rules between them. protocol.md §2.

use core::ops::RangeInclusive;
use core::time::Duration;

use super::Moment;
use super::failover::Failover;
use super::limits;
use crate::mutants::mutant;
use tenure_base::duration::format_duration;
use tenure_base::prelude::*;

/// A record write is given this long at least, also when a renewal is due before.
const LEAST_WRITE: Duration = Duration::from_secs(1);

/// How long a holder waits at most between two attempts at the same request.
pub(super) const BACK_OFF: Duration = Duration::from_millis(500);

/// The resolution of the service's dates.
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// The periods of one candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// How long a lease lasts, in whole seconds, 15–60 s.
    pub lease: Duration,
    /// How long before the lease's end a leader stops acting. At least 2.5 s.
    pub margin: Duration,
    /// From one successful renewal to the next.
    pub renew: Duration,
    /// The longest a follower waits between two polls; the shortest is half of it.
    pub poll: Duration,
    /// The longest that one request may take.
    pub request_timeout: Duration,
    /// How soon a leader that died is replaced, where that is to be sooner than its lease ends.
    pub failover: Option<Failover>,
}

impl Timings {
    /// Returns the lease less the margin: a leader without beats may act so long after a renewal. On an account that keeps
    /// versions, a leader with failover may too.
    pub fn by_lease(&self) -> Duration {
        self.lease.saturating_sub(self.margin)
    }

    /// Returns the time for which a leader may act after a renewal, or with failover after a beat.
    pub fn validity(&self) -> Duration {
        self.failover.map_or(self.by_lease(), |failover| self.by_lease().min(failover.acts()))
    }

    /// Returns the time from one renewal to the next, or with failover from one beat to the next.
    pub fn renewal(&self) -> Duration {
        self.failover.map_or(self.renew, Failover::beat)
    }

    /// Until when a lease may be acted upon whose acquire or renewal was `sent` then, and answered `now`.
    pub(super) fn valid_until(&self, sent: Moment, now: Moment) -> Moment {
        let since = if mutant!(ValidityFromAnswer) { now } else { sent };
        since + self.lease - self.margin
    }

    /// The longest wait of a follower between two tries of one request.
    pub(super) fn patience(&self) -> Duration {
        self.poll.max(BACK_OFF)
    }

    /// How long a leader may wait at `now` for the answer to a request that is no renewal, so that
    /// afterwards there is time for two tries of a renewal before `valid_until`. The second one follows
    /// the first at once. Never more than the request time-out.
    ///
    /// With a round trip of `r`, a renewal that was sent at 0 is answered at `r`. The request that goes
    /// out then is given `lease − margin − r − 2 × time-out`. That is enough for its own round trip as
    /// long as `r ≤ (lease − margin − 2 × time-out) / 2`: with the defaults (15 − 3 − 6) / 2 = 3 s, the
    /// whole time-out.
    pub(super) fn beside_renewals(&self, now: Moment, valid_until: Moment) -> Duration {
        let left = valid_until.saturating_sub(now);
        left.saturating_sub(2 * self.request_timeout).min(self.request_timeout)
    }

    /// How long a record write, or the read that tells what became of it, may take at `now`: what
    /// [`Timings::beside_renewals`] leaves, the time until `renewal` is due, or a second, whichever is
    /// longest.
    pub(super) fn for_a_write(
        &self,
        now: Moment,
        renewal: Moment,
        valid_until: Moment,
    ) -> Duration {
        let least = LEAST_WRITE.max(renewal.saturating_sub(now));
        let left = valid_until.saturating_sub(now);
        self.beside_renewals(now, valid_until).max(least).min(self.request_timeout).min(left)
    }

    /// The longest time-out of a request that fits with the other periods.
    pub fn longest_timeout(&self) -> Duration {
        (self.lease.saturating_sub(self.margin + self.renew) / 2).saturating_sub(BACK_OFF)
    }
}

/// Returns what is wrong with a duration that is not in its range.
pub(super) fn outside(duration: Duration, range: &RangeInclusive<Duration>) -> Option<String> {
    let [text, least, most] = [duration, *range.start(), *range.end()].map(format_duration);
    (!range.contains(&duration)).then(|| format!("{text} is not between {least} and {most}"))
}

fn shorter(duration: Duration, least: Duration) -> String {
    format!("{} is shorter than {}", format_duration(duration), format_duration(least))
}

/// Periods as they were set; what is not set follows from the lease.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    pub lease: Option<Duration>,
    pub margin: Option<Duration>,
    pub renew: Option<Duration>,
    pub poll: Option<Duration>,
    pub request_timeout: Option<Duration>,
    pub failover: Option<Duration>,
    /// One of them could not be read: how they go together is not judged then.
    pub incomplete: bool,
}

/// Which setting breaks a rule, what the rule is, and what would do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Breach {
    pub setting: Setting,
    pub problem: String,
    pub advice: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    Lease,
    Margin,
    Renew,
    Poll,
    RequestTimeout,
    Failover,
}

impl Wanted {
    /// Judges every rule and reports all that are broken.
    pub fn judge(self) -> Result<Timings, Vec<Breach>> {
        let mut breaches = Vec::new();
        let mut breach = |setting, problem: String, advice: String| {
            breaches.push(Breach { setting, problem, advice });
        };
        if let Some(failover) = self.failover
            && let Some(problem) = outside(failover, &limits::FAILOVER)
        {
            breach(
                Setting::Failover,
                problem,
                "choose 3s; less only if requests take at most a tenth of it".into(),
            );
        }
        let lease = self.lease.unwrap_or(match self.failover {
            Some(_) => limits::DEFAULT_LEASE_WITH_FAILOVER,
            None => limits::DEFAULT_LEASE,
        });
        let lease_fits = limits::LEASE.contains(&lease);
        if !lease_fits || lease.subsec_nanos() != 0 {
            let (least, most) = limits::LEASE.into_inner();
            let [lease, least, most] = [lease, least, most].map(format_duration);
            breach(
                Setting::Lease,
                format!(
                    "{lease} is not a lease that the service grants (whole seconds, {least} to {most})"
                ),
                "choose 15s to be replaced soonest, more for fewer requests".into(),
            );
        }
        let margin = self.margin.unwrap_or(limits::LEAST_MARGIN.max(lease / 5));
        if margin < limits::LEAST_MARGIN {
            breach(
                Setting::Margin,
                shorter(margin, limits::LEAST_MARGIN),
                "the service may end a lease 2s early; leave the margin at a fifth of the lease"
                    .into(),
            );
        }
        let timeout = self.request_timeout.unwrap_or(limits::DEFAULT_REQUEST_TIMEOUT);
        if let Some(problem) = outside(timeout, &limits::REQUEST_TIMEOUT) {
            breach(
                Setting::RequestTimeout,
                problem,
                "choose 3s unless the storage account is far away".into(),
            );
        }
        let poll = self.poll.unwrap_or(limits::DEFAULT_POLL);
        if let Some(problem) = outside(poll, &limits::POLL) {
            breach(
                Setting::Poll,
                problem,
                "a follower waits half of it to all of it; 4s gives a fast takeover at little cost"
                    .into(),
            );
        }
        let renew = self.renew.unwrap_or(lease * 4 / 15);
        let two_more = 2 * (timeout + BACK_OFF);
        if renew < limits::LEAST_RENEW {
            breach(
                Setting::Renew,
                shorter(renew, limits::LEAST_RENEW),
                "choose about a quarter of the lease".into(),
            );
        } else if lease_fits && !self.incomplete && renew + two_more + margin > lease {
            let most = lease.saturating_sub(two_more + margin);
            let advice = if most < limits::LEAST_RENEW {
                "choose a longer lease, a shorter margin or a shorter request time-out".into()
            } else {
                format!(
                    "renew every {} or less, or choose a longer lease, a shorter margin or a \
                     shorter request time-out",
                    format_duration(Duration::from_millis(
                        u64::try_from(most.as_millis()).unwrap_or(u64::MAX)
                    ))
                )
            };
            let setting = match (self.renew, self.margin, self.request_timeout) {
                (Some(_), ..) => Setting::Renew,
                (None, Some(_), _) => Setting::Margin,
                (None, None, Some(_)) => Setting::RequestTimeout,
                (None, None, None) => Setting::Lease,
            };
            breach(
                setting,
                format!(
                    "a renewal every {} and two attempts of {} each exceed the {} for which \
                     a leader may act, with a lease of {} and a margin of {}",
                    format_duration(renew),
                    format_duration(timeout + BACK_OFF),
                    format_duration(lease.saturating_sub(margin)),
                    format_duration(lease),
                    format_duration(margin),
                ),
                advice,
            );
        }
        match breaches.is_empty() {
            true => Ok(Timings {
                lease,
                margin,
                renew,
                poll,
                request_timeout: timeout,
                failover: self.failover.map(|within| Failover { within }),
            }),
            false => Err(breaches),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Option<Duration> {
        Some(Duration::from_secs_f64(seconds))
    }

    #[test]
    fn defaults_are_those_of_the_protocol() {
        let timings = Wanted::default().judge().unwrap();
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
    fn what_is_not_set_follows_from_the_lease() {
        for lease in 15..=60 {
            let timings = Wanted { lease: seconds(f64::from(lease)), ..Wanted::default() };
            let timings = timings.judge().unwrap();
            assert_eq!(timings.margin, Duration::from_secs(3).max(timings.lease / 5));
            assert_eq!(timings.renew, timings.lease * 4 / 15);
        }
    }

    #[test]
    fn refuses_each_contradiction_and_names_it() {
        let none = Wanted::default();
        for (wanted, setting) in [
            (Wanted { lease: seconds(14.0), ..none }, Setting::Lease),
            (Wanted { lease: seconds(61.0), ..none }, Setting::Lease),
            (Wanted { lease: seconds(15.5), ..none }, Setting::Lease),
            (Wanted { margin: seconds(2.4), ..none }, Setting::Margin),
            (Wanted { margin: seconds(9.0), ..none }, Setting::Margin),
            (Wanted { renew: seconds(5.1), ..none }, Setting::Renew),
            (Wanted { renew: seconds(0.5), ..none }, Setting::Renew),
            (Wanted { renew: seconds(20.0), ..none }, Setting::Renew),
            (Wanted { poll: seconds(0.4), ..none }, Setting::Poll),
            (Wanted { poll: seconds(61.0), ..none }, Setting::Poll),
            (Wanted { request_timeout: seconds(0.9), ..none }, Setting::RequestTimeout),
            (Wanted { request_timeout: seconds(4.0), ..none }, Setting::RequestTimeout),
            (Wanted { request_timeout: seconds(31.0), ..none }, Setting::RequestTimeout),
            (Wanted { failover: seconds(0.9), ..none }, Setting::Failover),
            (Wanted { failover: seconds(10.1), ..none }, Setting::Failover),
        ] {
            let breaches = wanted.judge().unwrap_err();
            assert!(breaches.iter().any(|b| b.setting == setting), "{wanted:?}: {breaches:?}");
        }
        let all = Wanted {
            lease: seconds(70.0),
            margin: seconds(1.0),
            poll: seconds(0.0),
            renew: seconds(0.1),
            request_timeout: seconds(0.0),
            failover: seconds(0.0),
            incomplete: false,
        };
        assert_eq!(all.judge().unwrap_err().len(), 6);
    }

    #[test]
    fn the_advice_can_be_followed() {
        let wanted = Wanted { renew: seconds(20.0), ..Wanted::default() };
        let breach = wanted.judge().unwrap_err().remove(0);
        assert!(breach.advice.starts_with("renew every 5s or less"), "{breach:?}");
        assert!(Wanted { renew: seconds(5.0), ..Wanted::default() }.judge().is_ok());
    }

    #[test]
    fn a_write_has_the_whole_timeout_while_two_tries_of_a_renewal_still_fit() {
        let timings = Wanted::default().judge().unwrap();
        let at = Duration::from_millis;
        // Sent at 0, so valid until 12 s; the next renewal is due at 4 s.
        let given = |now| timings.for_a_write(at(now), at(4_000), at(12_000));
        for round_trip in [0, 1_000, 1_700, 2_500, 3_000] {
            assert_eq!(given(round_trip), at(3_000), "{round_trip}");
        }
        assert_eq!(given(3_500), at(2_500), "as long as leaves time for both tries");
        assert_eq!(given(5_500), at(1_000), "at least a second");
        assert_eq!(given(11_500), at(500), "and never longer than the validity");
        // Settings with which no more fits: the time until the next renewal, as ever.
        let close = Timings { request_timeout: at(3_500), ..timings };
        assert_eq!(close.for_a_write(at(2_000), at(4_000), at(12_000)), at(3_000));
        assert_eq!(close.for_a_write(at(3_400), at(4_000), at(12_000)), at(1_600));
        assert_eq!(close.beside_renewals(at(6_000), at(12_000)), Duration::ZERO);
    }

    #[test]
    fn with_failover_the_lease_is_long_unless_it_is_set() {
        let with = Wanted { failover: seconds(3.0), ..Wanted::default() }.judge().unwrap();
        assert_eq!((with.lease, with.renew), (Duration::from_secs(60), Duration::from_secs(16)));
    }
}
