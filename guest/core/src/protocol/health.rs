//! Health of the work. A leader whose work fails gives the leadership up, and does not contend for
//! a while, so that a healthy candidate takes over. protocol.md §7.1. [`FailurePolicy`] has the
//! limits.

use core::time::Duration;

use crate::Moment;
use crate::mutants::mutant;
use crate::record::metadata::Outcome;
use crate::step::pace::{Chance, jitter};
use crate::step::report::Turn;
use crate::step::settings::{FailurePolicy, Settings};
use serde::{Deserialize, Serialize};
use tenure_base::duration::format_duration;
use tenure_base::prelude::*;

/// Recent results of this candidate's work, over all its leaderships.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Health {
    /// Turns in a row that did not succeed. Cut-off and unstarted turns do not count.
    failures: u32,
    /// Cool-downs in a row.
    cool_downs: u32,
    /// Leases in a row under which no term could be raised.
    failed_raises: u32,
    /// Time until which the candidate does not contend because of failed raises.
    raise_back_off_until: Moment,
    /// End of the newest cool-down, during which the candidate does not contend.
    cool_down_until: Moment,
}

impl Health {
    /// Records the end of a turn. Returns the length of the cool-down if the leadership must end.
    pub fn on_turn_ended(
        &mut self,
        outcome: Outcome,
        policy: &FailurePolicy,
        now: Moment,
        chance: &mut dyn Chance,
    ) -> Option<Duration> {
        match outcome {
            Outcome::Succeeded => *self = Self::default(),
            Outcome::CutOff | Outcome::NotStarted => {}
            Outcome::Failed | Outcome::Trapped | Outcome::TimedOut | Outcome::Abandoned => {
                self.failures = self.failures.saturating_add(1);
            }
        }
        let too_many = policy.max_failures > 0 && self.failures >= policy.max_failures;
        let must_end = match outcome {
            Outcome::Succeeded | Outcome::CutOff | Outcome::NotStarted => false,
            Outcome::Failed | Outcome::Abandoned => too_many,
            Outcome::Trapped | Outcome::TimedOut => !mutant!(TrapIgnored),
        };
        must_end.then(|| self.cool_down(policy, now, chance))
    }

    /// Starts the next cool-down and returns its length.
    pub fn cool_down(
        &mut self,
        policy: &FailurePolicy,
        now: Moment,
        chance: &mut dyn Chance,
    ) -> Duration {
        let span = jitter(policy.longest_cool_down(self.cool_downs), chance);
        self.cool_downs = self.cool_downs.saturating_add(1);
        self.cool_down_until = if mutant!(CoolDownIgnored) { now } else { now + span };
        span
    }

    /// Returns the time for which the candidate does not contend if the next term cannot be raised.
    /// It is zero for the first failure in a row, and one to two polls for the second. Both bounds
    /// double with each further failure, until the upper one is the longest cool-down.
    pub fn raise_back_off(&self, settings: &Settings, chance: &mut dyn Chance) -> Duration {
        let factor = match self.failed_raises {
            0 => return Duration::ZERO,
            failures => 1_u32.checked_shl(failures).unwrap_or(u32::MAX),
        };
        let longest = settings.failure_policy.longest_cool_down(u32::MAX);
        jitter(settings.timings.poll.saturating_mul(factor).min(longest), chance)
    }

    /// Records that a term could not be raised. Other candidates have priority until
    /// `back_off_until`.
    pub fn on_raise_failed(&mut self, back_off_until: Moment) {
        self.failed_raises = self.failed_raises.saturating_add(1);
        self.raise_back_off_until = back_off_until;
    }

    /// Records that another candidate has the lease that this one wanted to release. So the attempt
    /// does not count as a failed raise.
    pub fn on_lease_taken(&mut self) {
        self.failed_raises = self.failed_raises.saturating_sub(1);
        self.raise_back_off_until = Moment::ZERO;
    }

    /// Records that a term was raised.
    pub fn on_raised(&mut self) {
        self.failed_raises = 0;
    }

    /// Returns the time until which the candidate must not contend.
    pub fn ineligible_until(&self) -> Moment {
        self.cool_down_until.max(self.raise_back_off_until)
    }

    /// Returns the text about a stall without recorded writes, with advice.
    pub fn explain_stall(stalled: Duration, cool_down: Duration) -> String {
        let stalled = format_duration(Duration::from_secs(stalled.as_secs()));
        let description = format!("no claim or outcome could be recorded for {stalled}");
        let advice = "find out why writes of the record fail; that is reported separately";
        Self::stepping_down_text(&description, cool_down, advice)
    }

    fn stepping_down_text(description: &str, cool_down: Duration, advice: &str) -> String {
        let back_off = format_duration(Duration::from_secs(cool_down.as_secs() + 1));
        format!(
            "{description}. This candidate gives up the leadership and does not contend for {back_off}, longer each time \
             until a turn succeeds; {advice}"
        )
    }

    /// Returns the text about a failed turn, with advice.
    pub fn explain(&self, turn: &Turn, outcome: Outcome, cool_down: Duration) -> String {
        let slot = turn.slot.to_rfc3339();
        let (description, advice) = match outcome {
            Outcome::TimedOut => (
                format!(
                    "the turn of {slot} took longer than {}",
                    format_duration(turn.time_limit.unwrap_or_default())
                ),
                "find out what it waits for, or raise the turn time-out",
            ),
            Outcome::Trapped => {
                (format!("the handler trapped in the turn of {slot}"), "look at its last output")
            }
            _ => (
                format!("{} turns in a row failed, the last one of {slot}", self.failures),
                "fix what the handler reports",
            ),
        };
        Self::stepping_down_text(&description, cool_down, advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A constant number.
    struct FixedChance(u64);

    impl Chance for FixedChance {
        fn bits(&mut self) -> u64 {
            self.0
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn policy(cool_down: u64) -> FailurePolicy {
        FailurePolicy { turn_timeout: None, max_failures: 3, cool_down: seconds(cool_down) }
    }

    fn end_turn(health: &mut Health, outcome: Outcome) -> Option<Duration> {
        health.on_turn_ended(outcome, &policy(30), seconds(100), &mut FixedChance(0))
    }

    #[test]
    fn a_trap_or_a_time_out_ends_the_leadership_at_once() {
        for outcome in [Outcome::Trapped, Outcome::TimedOut] {
            let mut health = Health::default();
            assert_eq!(end_turn(&mut health, outcome), Some(seconds(15)));
            assert_eq!(health.ineligible_until(), seconds(115));
        }
    }

    #[test]
    fn enough_failures_in_a_row_end_the_leadership() {
        let mut health = Health::default();
        assert_eq!(end_turn(&mut health, Outcome::Failed), None);
        assert_eq!(end_turn(&mut health, Outcome::Failed), None);
        assert_eq!(end_turn(&mut health, Outcome::CutOff), None, "does not count");
        assert!(health.ineligible_until() <= seconds(100));
        assert!(end_turn(&mut health, Outcome::Failed).is_some());
        assert!(end_turn(&mut health, Outcome::Failed).is_some(), "and so does the next failure");
    }

    #[test]
    fn a_success_forgets_all_failures_and_cool_downs() {
        let mut health = Health::default();
        for _ in 0..5 {
            end_turn(&mut health, Outcome::Trapped);
        }
        end_turn(&mut health, Outcome::Succeeded);
        assert_eq!(health, Health::default());
        assert_eq!(end_turn(&mut health, Outcome::Failed), None);
        assert_eq!(end_turn(&mut health, Outcome::Trapped), Some(seconds(15)));
    }

    #[test]
    fn without_a_limit_no_number_of_failures_ends_the_leadership() {
        let (mut health, policy) =
            (Health::default(), FailurePolicy { max_failures: 0, ..policy(30) });
        for _ in 0..100 {
            let ended =
                health.on_turn_ended(Outcome::Failed, &policy, seconds(100), &mut FixedChance(0));
            assert_eq!(ended, None);
        }
        let ended =
            health.on_turn_ended(Outcome::Trapped, &policy, seconds(100), &mut FixedChance(0));
        assert!(ended.is_some(), "a trap ends it all the same");
    }

    #[test]
    fn a_cool_down_doubles_up_to_its_cap_and_is_at_least_half() {
        let cool_downs_for = |cool_down, bits| -> Vec<u64> {
            let mut health = Health::default();
            let mut next = || {
                let trapped = Outcome::Trapped;
                health.on_turn_ended(
                    trapped,
                    &policy(cool_down),
                    seconds(0),
                    &mut FixedChance(bits),
                )
            };
            (0..40).map(|_| next().unwrap().as_secs()).collect()
        };
        let half = cool_downs_for(30, 0);
        assert_eq!(half[..6], [15, 30, 60, 120, 240, 240]);
        assert_eq!(half[39], 240);
        let hour = cool_downs_for(600, 0);
        assert_eq!(hour[..5], [300, 600, 1200, 1800, 1800], "an hour at most");
        // The largest random part, 15 s in nanoseconds, gives the bound itself.
        assert_eq!(cool_downs_for(30, 15_000_000_000)[0], 30);
        assert_eq!(cool_downs_for(3600, 0)[..2], [1800, 1800]);
    }

    #[test]
    fn the_cool_down_is_drawn_anew_each_time() {
        struct Steps(u64);
        impl Chance for Steps {
            fn bits(&mut self) -> u64 {
                self.0 += 7_777_777_777;
                self.0
            }
        }
        let (mut chance, mut spans) = (Steps(0), Vec::new());
        for _ in 0..50 {
            let mut health = Health::default();
            let trapped = Outcome::Trapped;
            let span = health.on_turn_ended(trapped, &policy(30), seconds(0), &mut chance).unwrap();
            assert!((seconds(15)..=seconds(30)).contains(&span), "{span:?}");
            spans.push(span);
        }
        spans.dedup();
        assert!(spans.len() > 40, "{spans:?}");
    }
}
