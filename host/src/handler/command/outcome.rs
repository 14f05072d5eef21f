//! Maps the end of a command to the end of its turn.

use super::super::TurnEnd;
use tenure_supervisor::{CommandExit, ProcessEnd, signal_name};

/// Outcome of a run of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RunOutcome {
    /// The command could not be started, for this reason.
    NotStarted(String),
    /// The command ran, and all its processes have exited.
    Finished(CommandExit),
    /// The supervisor was killed, and the command was then killed too.
    SupervisorKilled,
}

/// Returns the end of the turn. `last_line` is the last line that the command wrote to standard
/// error.
pub(super) fn turn_end(outcome: RunOutcome, last_line: &str) -> TurnEnd {
    let failed = |description: String| match last_line.trim() {
        "" => TurnEnd::Failed(description),
        text => TurnEnd::failed(format!("{description}: {text}")),
    };
    match outcome {
        RunOutcome::NotStarted(problem) => {
            TurnEnd::trapped(format!("the command could not be started: {problem}"))
        }
        RunOutcome::SupervisorKilled => TurnEnd::Trapped(
            "the command was killed, because the process that supervises it was killed".into(),
        ),
        // Many programs exit with 0 on SIGTERM even if they have not finished.
        RunOutcome::Finished(CommandExit { timed_out: true, .. }) => TurnEnd::TimedOut,
        RunOutcome::Finished(
            CommandExit { stopped: true, .. } | CommandExit { ended: None, .. },
        ) => TurnEnd::CutOff,
        RunOutcome::Finished(CommandExit { ended: Some(ProcessEnd::Exit(0)), .. }) => {
            TurnEnd::Succeeded
        }
        RunOutcome::Finished(CommandExit { ended: Some(ProcessEnd::Exit(code)), .. }) => {
            failed(format!("exit code {code}"))
        }
        RunOutcome::Finished(CommandExit { ended: Some(ProcessEnd::Signal(number)), .. }) => {
            failed(format!("killed by {}", signal_name(number)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(ended: Option<ProcessEnd>, stopped: bool, last_line: &str) -> TurnEnd {
        turn_end(RunOutcome::Finished(CommandExit { ended, stopped, timed_out: false }), last_line)
    }

    #[test]
    fn exit_codes_and_signals_determine_the_turn_end() {
        let failed = |text: &str| TurnEnd::Failed(text.to_owned());
        assert_eq!(end(Some(ProcessEnd::Exit(0)), false, "warning"), TurnEnd::Succeeded);
        assert_eq!(end(Some(ProcessEnd::Exit(3)), false, ""), failed("exit code 3"));
        assert_eq!(
            end(Some(ProcessEnd::Exit(3)), false, "no disk "),
            failed("exit code 3: no disk")
        );
        assert_eq!(end(Some(ProcessEnd::Signal(9)), false, ""), failed("killed by SIGKILL"));
        assert_eq!(end(Some(ProcessEnd::Signal(60)), false, "x"), failed("killed by signal 60: x"));
    }

    #[test]
    fn a_stopped_command_did_not_succeed() {
        for ended in [Some(ProcessEnd::Exit(0)), Some(ProcessEnd::Signal(15)), None] {
            assert_eq!(end(ended, true, "terminated"), TurnEnd::CutOff);
            let gone = CommandExit { ended, stopped: true, timed_out: true };
            assert_eq!(turn_end(RunOutcome::Finished(gone), "terminated"), TurnEnd::TimedOut);
        }
        assert_eq!(end(None, false, ""), TurnEnd::CutOff);
    }

    #[test]
    fn a_start_failure_is_reported_with_a_bounded_reason() {
        let end = |outcome| turn_end(outcome, "");
        let TurnEnd::Trapped(text) = end(RunOutcome::NotStarted("x".repeat(9_999))) else {
            panic!()
        };
        assert!(text.starts_with("the command could not be started: x"), "{text}");
        assert!(text.len() < 5_000);
        assert!(matches!(end(RunOutcome::SupervisorKilled), TurnEnd::Trapped(_)));
    }
}
