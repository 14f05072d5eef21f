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

/// What to do at `now`, with a leadership until `until` and a command that was `told` to end already
/// or not. All instants are of one clock.
pub(super) fn due(now: Duration, until: Duration, stop_time: Duration, told: bool) -> Act {
    let kill_at = until.saturating_sub(KILL_SLACK);
    let tell_at = until.saturating_sub(stop_time);
    if now >= kill_at {
        Act::Kill
    } else if told {
        Act::Wait(kill_at)
    } else if now >= tell_at {
        Act::Tell
    } else {
        // Shorter than the slack, it is killed without a word.
        Act::Wait(tell_at.min(kill_at))
    }
}

/// Whether a command that was told to end, and has by `now`, was told so since its own time ended at `limit`, and not
/// for the leadership, which lasts until `lease` now. It may have been prolonged after the command was told.
pub(super) fn times_out(
    limit: Duration,
    lease: Duration,
    stop_time: Duration,
    now: Duration,
) -> bool {
    limit.saturating_sub(lease) < KILL_SLACK && now + stop_time + KILL_SLACK >= limit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn it_times_out_only_if_its_own_time_was_over_when_it_was_told() {
        let stop = ms(3_000);
        let ended = |limit, lease, now| times_out(ms(limit), ms(lease), stop, ms(now));
        assert!(ended(30_000, 30_000, 27_000), "told for its limit");
        assert!(
            !ended(30_000, 30_000, 21_000),
            "told for the leadership, which was prolonged since"
        );
        assert!(!ended(30_000, 23_000, 21_000), "told for the leadership");
        assert!(ended(10_000, 10_000, 10_000), "killed");
    }

    #[test]
    fn a_command_is_told_and_then_killed_before_the_leadership_ends() {
        let at = |now, told| due(ms(now), ms(12_000), STOP_TIME, told);
        assert_eq!(at(0, false), Act::Wait(ms(9_000)));
        assert_eq!(at(8_999, false), Act::Wait(ms(9_000)));
        assert_eq!(at(9_000, false), Act::Tell);
        assert_eq!(at(9_000, true), Act::Wait(ms(11_500)));
        assert_eq!(at(11_499, true), Act::Wait(ms(11_500)));
        assert_eq!(at(11_500, true), Act::Kill);
        // It was asleep until then.
        assert_eq!(at(11_500, false), Act::Kill);
        assert_eq!(at(60_000, false), Act::Kill);
    }

    #[test]
    fn a_leadership_that_goes_on_puts_both_off_and_one_that_is_over_kills() {
        assert_eq!(due(ms(8_000), ms(16_000), STOP_TIME, false), Act::Wait(ms(13_000)));
        assert_eq!(due(ms(10_000), ms(22_000), STOP_TIME, true), Act::Wait(ms(21_500)));
        assert_eq!(due(ms(0), ms(0), STOP_TIME, false), Act::Kill);
        assert_eq!(due(ms(100), ms(1_100), STOP_TIME, false), Act::Tell);
    }

    #[test]
    fn a_short_stop_time_does_not_eat_up_the_slack() {
        assert_eq!(due(ms(0), ms(12_000), ms(100), false), Act::Wait(ms(11_500)));
        assert_eq!(due(ms(11_500), ms(12_000), ms(100), false), Act::Kill);
    }
}
