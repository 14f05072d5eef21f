//! When the work is told to end, and when it is killed.

use std::time::Duration;

/// So long before the end of the leadership whatever still runs is killed: the time in which the kernel
/// ends processes, on a machine that is busy.
pub const KILL_SLACK: Duration = Duration::from_millis(500);

/// So long before the end of the leadership the work is told to end, unless it is set otherwise.
pub const STOP_TIME: Duration = Duration::from_secs(3);

/// What is to be done about a command that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Nothing before this instant.
    Wait(Duration),
    /// It is told to end, by SIGTERM.
    Tell,
    /// It is killed.
    Kill,
}

/// When the work must end. All instants are of one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The end of the leadership, or of the grace, as it is known at the moment.
    pub until: Duration,
    /// The end of the turn's own time.
    pub limit: Option<Duration>,
    /// The time from SIGTERM to SIGKILL.
    pub stop_time: Duration,
}

impl Bounds {
    /// The instant of SIGKILL, for a command that was told to end at `told`.
    fn kill_at(self, told: Option<Duration>) -> Duration {
        let by_leadership = self.until.saturating_sub(KILL_SLACK);
        match told {
            Some(told) if self.is_over_time(told) => {
                by_leadership.min(told.saturating_add(self.stop_time))
            }
            _ => by_leadership,
        }
    }

    /// The instant of SIGTERM.
    fn tell_at(self) -> Duration {
        let by_leadership = self.until.saturating_sub(self.stop_time);
        self.limit.map_or(by_leadership, |limit| limit.min(by_leadership))
    }

    /// Returns true if the turn's own time is over at `now`.
    pub fn is_over_time(self, now: Duration) -> bool {
        self.limit.is_some_and(|limit| limit <= now)
    }
}

/// What to do at `now` with a command that was told to end at `told`, if it was.
pub(super) fn due(now: Duration, bounds: Bounds, told: Option<Duration>) -> Act {
    let (kill_at, tell_at) = (bounds.kill_at(told), bounds.tell_at());
    if now >= kill_at {
        Act::Kill
    } else if told.is_some() {
        Act::Wait(kill_at)
    } else if now >= tell_at {
        Act::Tell
    } else {
        // Shorter than the slack, it is killed without a word.
        Act::Wait(tell_at.min(kill_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn until(until: u64, stop_time: Duration) -> Bounds {
        Bounds { until: ms(until), limit: None, stop_time }
    }

    #[test]
    fn a_command_is_told_and_then_killed_before_the_leadership_ends() {
        let at = |now, told: Option<u64>| due(ms(now), until(12_000, STOP_TIME), told.map(ms));
        assert_eq!(at(0, None), Act::Wait(ms(9_000)));
        assert_eq!(at(8_999, None), Act::Wait(ms(9_000)));
        assert_eq!(at(9_000, None), Act::Tell);
        assert_eq!(at(9_000, Some(9_000)), Act::Wait(ms(11_500)));
        assert_eq!(at(11_499, Some(9_000)), Act::Wait(ms(11_500)));
        assert_eq!(at(11_500, Some(9_000)), Act::Kill);
        // It was asleep until then.
        assert_eq!(at(11_500, None), Act::Kill);
        assert_eq!(at(60_000, None), Act::Kill);
    }

    #[test]
    fn a_leadership_that_goes_on_puts_both_off_and_one_that_is_over_kills() {
        assert_eq!(due(ms(8_000), until(16_000, STOP_TIME), None), Act::Wait(ms(13_000)));
        let told = Some(ms(9_000));
        assert_eq!(due(ms(10_000), until(22_000, STOP_TIME), told), Act::Wait(ms(21_500)));
        assert_eq!(due(ms(0), until(0, STOP_TIME), None), Act::Kill);
        assert_eq!(due(ms(100), until(1_100, STOP_TIME), None), Act::Tell);
    }

    #[test]
    fn a_short_stop_time_does_not_eat_up_the_slack() {
        assert_eq!(due(ms(0), until(12_000, ms(100)), None), Act::Wait(ms(11_500)));
        assert_eq!(due(ms(11_500), until(12_000, ms(100)), None), Act::Kill);
    }

    #[test]
    fn a_turn_that_takes_too_long_is_told_at_its_limit_and_killed_a_stop_time_later() {
        for limit in [6_000, 3_000, 100] {
            let overtime = STOP_TIME + KILL_SLACK;
            let bounds = Bounds {
                until: ms(limit) + overtime,
                limit: Some(ms(limit)),
                stop_time: STOP_TIME,
            };
            assert_eq!(due(ms(0), bounds, None), Act::Wait(ms(limit)));
            assert_eq!(due(ms(limit), bounds, None), Act::Tell);
            let (told, kill_at) = (Some(ms(limit)), ms(limit + 3_000));
            assert_eq!(due(ms(limit), bounds, told), Act::Wait(kill_at));
            assert_eq!(due(kill_at, bounds, told), Act::Kill);
            assert!(bounds.is_over_time(ms(limit)) && !bounds.is_over_time(ms(limit - 1)));
        }
    }

    #[test]
    fn a_leadership_that_ends_before_the_limit_counts() {
        let bounds = Bounds { limit: Some(ms(11_000)), ..until(12_000, STOP_TIME) };
        assert_eq!(due(ms(0), bounds, None), Act::Wait(ms(9_000)));
        assert_eq!(due(ms(9_000), bounds, Some(ms(9_000))), Act::Wait(ms(11_500)));
        // Told at its limit, with less than the stop time left.
        let bounds = Bounds { limit: Some(ms(8_900)), ..bounds };
        assert_eq!(due(ms(8_900), bounds, Some(ms(8_900))), Act::Wait(ms(11_500)));
    }
}
