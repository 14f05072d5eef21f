//! Instants of SIGTERM and SIGKILL for the work.

use std::time::Duration;

/// Time from SIGKILL to the end of leadership, in which the kernel ends the processes even on a
/// busy machine.
pub const KILL_SLACK: Duration = Duration::from_millis(500);

/// Default time from SIGTERM to the end of leadership.
pub const STOP_TIME: Duration = Duration::from_secs(3);

/// Next action for a running command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Wait until this instant.
    Wait(Duration),
    /// Send SIGTERM.
    Terminate,
    /// Send SIGKILL.
    Kill,
}

/// Deadlines of the work. All instants are of one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// End of leadership or of the grace period, as currently known.
    pub until: Duration,
    /// End of the turn's time limit.
    pub limit: Option<Duration>,
    /// Time from SIGTERM to SIGKILL.
    pub stop_time: Duration,
}

impl Bounds {
    /// Returns the instant of SIGKILL. `sigterm_sent` is the instant at which SIGTERM was sent.
    fn sigkill_at(self, sigterm_sent: Option<Duration>) -> Duration {
        let before_lease_end = self.until.saturating_sub(KILL_SLACK);
        match sigterm_sent {
            Some(sent_at) if self.is_past_limit(sent_at) => {
                before_lease_end.min(sent_at.saturating_add(self.stop_time))
            }
            _ => before_lease_end,
        }
    }

    /// Returns the instant of SIGTERM.
    fn sigterm_at(self) -> Duration {
        let before_lease_end = self.until.saturating_sub(self.stop_time);
        self.limit.map_or(before_lease_end, |limit| limit.min(before_lease_end))
    }

    /// Returns true if the turn's time limit has passed at `now`.
    pub fn is_past_limit(self, now: Duration) -> bool {
        self.limit.is_some_and(|limit| limit <= now)
    }
}

/// Returns the action that is due at `now`. `sigterm_sent` is the instant at which SIGTERM was
/// sent, if it was.
pub(super) fn next_action(now: Duration, bounds: Bounds, sigterm_sent: Option<Duration>) -> Action {
    let (sigkill_at, sigterm_at) = (bounds.sigkill_at(sigterm_sent), bounds.sigterm_at());
    if now >= sigkill_at {
        Action::Kill
    } else if sigterm_sent.is_some() {
        Action::Wait(sigkill_at)
    } else if now >= sigterm_at {
        Action::Terminate
    } else {
        // A stop time below the slack leaves no time for SIGTERM.
        Action::Wait(sigterm_at.min(sigkill_at))
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
    fn a_command_gets_sigterm_and_then_sigkill_before_the_leadership_ends() {
        let at =
            |now, sent: Option<u64>| next_action(ms(now), until(12_000, STOP_TIME), sent.map(ms));
        assert_eq!(at(0, None), Action::Wait(ms(9_000)));
        assert_eq!(at(8_999, None), Action::Wait(ms(9_000)));
        assert_eq!(at(9_000, None), Action::Terminate);
        assert_eq!(at(9_000, Some(9_000)), Action::Wait(ms(11_500)));
        assert_eq!(at(11_499, Some(9_000)), Action::Wait(ms(11_500)));
        assert_eq!(at(11_500, Some(9_000)), Action::Kill);
        // The process was suspended until then.
        assert_eq!(at(11_500, None), Action::Kill);
        assert_eq!(at(60_000, None), Action::Kill);
    }

    #[test]
    fn a_leadership_that_goes_on_puts_both_off_and_one_that_is_over_kills() {
        assert_eq!(
            next_action(ms(8_000), until(16_000, STOP_TIME), None),
            Action::Wait(ms(13_000))
        );
        let sigterm_sent = Some(ms(9_000));
        assert_eq!(
            next_action(ms(10_000), until(22_000, STOP_TIME), sigterm_sent),
            Action::Wait(ms(21_500))
        );
        assert_eq!(next_action(ms(0), until(0, STOP_TIME), None), Action::Kill);
        assert_eq!(next_action(ms(100), until(1_100, STOP_TIME), None), Action::Terminate);
    }

    #[test]
    fn a_short_stop_time_does_not_eat_up_the_slack() {
        assert_eq!(next_action(ms(0), until(12_000, ms(100)), None), Action::Wait(ms(11_500)));
        assert_eq!(next_action(ms(11_500), until(12_000, ms(100)), None), Action::Kill);
    }

    #[test]
    fn a_turn_that_takes_too_long_gets_sigterm_at_its_limit_and_sigkill_a_stop_time_later() {
        for limit in [6_000, 3_000, 100] {
            let overtime = STOP_TIME + KILL_SLACK;
            let bounds = Bounds {
                until: ms(limit) + overtime,
                limit: Some(ms(limit)),
                stop_time: STOP_TIME,
            };
            assert_eq!(next_action(ms(0), bounds, None), Action::Wait(ms(limit)));
            assert_eq!(next_action(ms(limit), bounds, None), Action::Terminate);
            let (sigterm_sent, sigkill_at) = (Some(ms(limit)), ms(limit + 3_000));
            assert_eq!(next_action(ms(limit), bounds, sigterm_sent), Action::Wait(sigkill_at));
            assert_eq!(next_action(sigkill_at, bounds, sigterm_sent), Action::Kill);
            assert!(bounds.is_past_limit(ms(limit)) && !bounds.is_past_limit(ms(limit - 1)));
        }
    }

    #[test]
    fn a_leadership_that_ends_before_the_limit_counts() {
        let bounds = Bounds { limit: Some(ms(11_000)), ..until(12_000, STOP_TIME) };
        assert_eq!(next_action(ms(0), bounds, None), Action::Wait(ms(9_000)));
        assert_eq!(next_action(ms(9_000), bounds, Some(ms(9_000))), Action::Wait(ms(11_500)));
        // SIGTERM at the limit, with less than the stop time left.
        let bounds = Bounds { limit: Some(ms(8_900)), ..bounds };
        assert_eq!(next_action(ms(8_900), bounds, Some(ms(8_900))), Action::Wait(ms(11_500)));
    }
}
