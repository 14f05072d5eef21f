//! What the end of a command means for its turn.

use super::super::TurnEnd;
use tenure_supervisor::{Ended, Gone, signal_name};

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It could not be started, for this reason.
    NotStarted(String),
    /// It ran, and nothing of it does any more.
    Gone(Gone),
    /// The supervisor was killed, and so was the command then.
    Unwatched,
}

/// Returns the end of the turn. `last_words` is the last line that the command wrote to standard error.
pub(super) fn turn_end(fate: Fate, last_words: &str) -> TurnEnd {
    let failed = |what: String| match last_words.trim() {
        "" => TurnEnd::Failed(what),
        said => TurnEnd::failed(format!("{what}: {said}")),
    };
    match fate {
        Fate::NotStarted(problem) => {
            TurnEnd::trapped(format!("the command could not be started: {problem}"))
        }
        Fate::Unwatched => TurnEnd::Trapped(
            "the command was killed, because the process that supervises it was killed".into(),
        ),
        // Many programs end with 0 when they are told to, however much is left to do.
        Fate::Gone(Gone { timed_out: true, .. }) => TurnEnd::TimedOut,
        Fate::Gone(Gone { told: true, .. } | Gone { ended: None, .. }) => TurnEnd::CutOff,
        Fate::Gone(Gone { ended: Some(Ended::Exit(0)), .. }) => TurnEnd::Succeeded,
        Fate::Gone(Gone { ended: Some(Ended::Exit(code)), .. }) => {
            failed(format!("exit code {code}"))
        }
        Fate::Gone(Gone { ended: Some(Ended::Signal(number)), .. }) => {
            failed(format!("killed by {}", signal_name(number)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(ended: Option<Ended>, told: bool, said: &str) -> TurnEnd {
        turn_end(Fate::Gone(Gone { ended, told, timed_out: false }), said)
    }

    #[test]
    fn exit_codes_and_signals_say_how_a_turn_ended() {
        let failed = |text: &str| TurnEnd::Failed(text.to_owned());
        assert_eq!(end(Some(Ended::Exit(0)), false, "warning"), TurnEnd::Succeeded);
        assert_eq!(end(Some(Ended::Exit(3)), false, ""), failed("exit code 3"));
        assert_eq!(end(Some(Ended::Exit(3)), false, "no disk "), failed("exit code 3: no disk"));
        assert_eq!(end(Some(Ended::Signal(9)), false, ""), failed("killed by SIGKILL"));
        assert_eq!(end(Some(Ended::Signal(60)), false, "x"), failed("killed by signal 60: x"));
    }

    #[test]
    fn a_command_whose_time_was_over_did_not_succeed() {
        for ended in [Some(Ended::Exit(0)), Some(Ended::Signal(15)), None] {
            assert_eq!(end(ended, true, "terminated"), TurnEnd::CutOff);
            let gone = Gone { ended, told: true, timed_out: true };
            assert_eq!(turn_end(Fate::Gone(gone), "terminated"), TurnEnd::TimedOut);
        }
        assert_eq!(end(None, false, ""), TurnEnd::CutOff);
    }

    #[test]
    fn what_could_not_be_started_says_why_but_not_endlessly() {
        let end = |fate| turn_end(fate, "");
        let TurnEnd::Trapped(text) = end(Fate::NotStarted("x".repeat(9_999))) else { panic!() };
        assert!(text.starts_with("the command could not be started: x"), "{text}");
        assert!(text.len() < 5_000);
        assert!(matches!(end(Fate::Unwatched), TurnEnd::Trapped(_)));
    }
}
