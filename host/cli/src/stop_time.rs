//! Whether a leadership has room for the time in which a command is to end.

use std::time::Duration;
use tenure::program::command::KILL_SLACK;
use tenure::settings::Periods;
use tenure_base::duration::format_duration;

/// A command that is given less can as well be killed.
const SHORTEST: Duration = Duration::from_secs(1);

/// What is wrong with `time`, and what to do about it; none when all is well.
pub(super) fn judge(time: Duration, periods: Periods) -> Option<(String, String)> {
    let Periods { validity, renew, turn_timeout } = periods;
    // A renewal in time comes before the command would be told to end, by a little at least.
    let room = validity.saturating_sub(renew + KILL_SLACK);
    if time > room {
        let problem = format!(
            "a stop time of {} does not fit: a leader may act for {} without a renewal, and renews every {}",
            format_duration(time),
            format_duration(validity),
            format_duration(renew),
        );
        let advice = match room < SHORTEST {
            true => "choose a longer lease, a shorter margin, or renew more often".to_owned(),
            false => format!(
                "choose {} or less, a longer lease, a shorter margin, or renew more often",
                format_duration(Duration::from_secs(room.as_secs()))
            ),
        };
        return Some((problem, advice));
    }
    let limit = turn_timeout.filter(|limit| *limit <= time)?;
    let problem = format!(
        "with a stop time of {} a turn that may take {} is told to end when it begins",
        format_duration(time),
        format_duration(limit),
    );
    Some((problem, "choose a shorter stop time, or a longer --turn-timeout".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: Periods = Periods {
        validity: Duration::from_secs(12),
        renew: Duration::from_secs(4),
        turn_timeout: None,
    };

    fn problem(ms: u64, periods: Periods) -> Option<String> {
        judge(Duration::from_millis(ms), periods).map(|(problem, _)| problem)
    }

    #[test]
    fn there_must_be_room_beside_a_renewal() {
        for good in [1_000, 3_000, 7_500] {
            assert_eq!(problem(good, DEFAULT), None, "{good}");
        }
        let (problem, advice) = judge(Duration::from_millis(7_501), DEFAULT).unwrap();
        assert!(problem.contains("renews every 4s"), "{problem}");
        assert!(advice.starts_with("choose 7s or less"), "{advice}");
        let tight = Periods { renew: Duration::from_secs(11), ..DEFAULT };
        assert!(judge(Duration::from_secs(1), tight).unwrap().1.starts_with("choose a longer"));
    }

    #[test]
    fn a_turn_must_have_time_before_it_is_told_to_end() {
        let with = |limit| Periods { turn_timeout: Some(Duration::from_secs(limit)), ..DEFAULT };
        assert_eq!(problem(3_000, with(4)), None);
        assert!(problem(3_000, with(3)).unwrap().contains("when it begins"));
    }
}
