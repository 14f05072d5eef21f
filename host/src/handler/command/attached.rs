//! A command attached to this process: it uses the streams and the terminal of this process, and
//! receives its signals. `tenure lock` runs one.
//!
//! The command runs once at most, and can be cancelled until it starts.

use super::run::RunOutcome;
use std::future::pending;
use tenure_supervisor::{CommandExit, ProcessEnd};
use tokio::sync::{broadcast, watch};

/// Capacity of the queue of signals to forward.
const SIGNALS: usize = 16;

/// State of the run of an attached command.
#[derive(Debug)]
pub struct AttachedCommand {
    stage: watch::Sender<Stage>,
    signals: broadcast::Sender<i32>,
}

/// Progress of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// The run has not started, but may.
    Waiting,
    /// The run was cancelled before it started.
    Cancelled,
    /// The command is about to start, or runs.
    Running,
    Finished(CommandEnd),
}

/// End of the run of an attached command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandEnd {
    /// The command ended by itself, or by a signal unrelated to leadership.
    Ended(ProcessEnd),
    /// The command was stopped or killed because leadership ended or could not be renewed in time.
    LeaseLost,
    /// The command was killed because its supervisor had been killed.
    SupervisorKilled,
    /// The command could not be started, for this reason.
    NotStarted(String),
}

impl Default for AttachedCommand {
    fn default() -> Self {
        let stage = watch::Sender::new(Stage::Waiting);
        Self { stage, signals: broadcast::Sender::new(SIGNALS) }
    }
}

impl AttachedCommand {
    /// Forwards a signal to the command. Returns false if it does not run.
    pub fn signal(&self, number: i32) -> bool {
        let is_running = *self.stage.borrow() == Stage::Running;
        is_running && self.signals.send(number).is_ok()
    }

    /// Cancels the run. Returns false if it has already started.
    pub fn cancel(&self) -> bool {
        self.leave_waiting(Stage::Cancelled)
    }

    /// Waits until a run may start: returns at once if none has started, otherwise when the run
    /// ended without starting the command. Never completes once the run was cancelled or is
    /// finished.
    pub async fn wait_until_idle(&self) {
        // Cannot fail: the sender is a field of `self`.
        let _ = self.stage.subscribe().wait_for(|stage| *stage == Stage::Waiting).await;
    }

    /// Waits until all processes of the command have exited, or it could not be started. Never
    /// completes if the run was cancelled.
    pub async fn wait(&self) -> CommandEnd {
        let mut stage = self.stage.subscribe();
        let finished = stage.wait_for(|stage| matches!(stage, Stage::Finished(_))).await;
        match finished.map(|stage| stage.clone()) {
            Ok(Stage::Finished(end)) => end,
            _ => pending().await,
        }
    }

    /// Starts the run and returns the signals to forward. Returns `None` if the command must not
    /// start.
    pub(super) fn start(&self) -> Option<broadcast::Receiver<i32>> {
        let signals = self.signals.subscribe();
        self.leave_waiting(Stage::Running).then_some(signals)
    }

    /// Records the end of the run.
    pub(super) fn on_end(&self, outcome: &RunOutcome) {
        self.stage.send_replace(match outcome {
            // The command was out of time before it started. A later leadership may have more time.
            RunOutcome::Finished(CommandExit { ended: None, .. }) => Stage::Waiting,
            // An attached command has no time limit, so only the end of leadership stops it.
            RunOutcome::Finished(CommandExit { stopped: true, .. }) => {
                Stage::Finished(CommandEnd::LeaseLost)
            }
            RunOutcome::SupervisorKilled => Stage::Finished(CommandEnd::SupervisorKilled),
            RunOutcome::Finished(CommandExit { ended: Some(ended), .. }) => {
                Stage::Finished(CommandEnd::Ended(*ended))
            }
            RunOutcome::NotStarted(problem) => {
                Stage::Finished(CommandEnd::NotStarted(problem.clone()))
            }
        });
    }

    fn leave_waiting(&self, next: Stage) -> bool {
        self.stage.send_if_modified(|stage| {
            let is_waiting = *stage == Stage::Waiting;
            if is_waiting {
                *stage = next;
            }
            is_waiting
        })
    }
}

/// Waits for the next signal. Never completes once the sender is dropped.
pub(super) async fn next_signal(signals: &mut Option<broadcast::Receiver<i32>>) -> i32 {
    while let Some(signals) = signals {
        match signals.recv().await {
            Ok(number) => return number,
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => break,
        }
    }
    pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended_with(ended: Option<ProcessEnd>, stopped: bool) -> RunOutcome {
        RunOutcome::Finished(CommandExit { ended, stopped, timed_out: false })
    }

    #[test]
    fn a_started_command_cannot_be_cancelled_nor_a_cancelled_one_started() {
        let started = AttachedCommand::default();
        assert!(started.start().is_some() && !started.cancel());
        let cancelled = AttachedCommand::default();
        assert!(cancelled.cancel() && cancelled.start().is_none());
    }

    #[tokio::test]
    async fn a_command_that_never_ran_can_be_started_later() {
        let attached = AttachedCommand::default();
        let _signals = attached.start();
        attached.on_end(&ended_with(None, true));
        attached.wait_until_idle().await;
        assert!(attached.start().is_some());
    }

    #[tokio::test]
    async fn each_end_is_distinguished() {
        let exit = ProcessEnd::Exit(3);
        for (outcome, end) in [
            (ended_with(Some(exit), false), CommandEnd::Ended(exit)),
            (ended_with(Some(exit), true), CommandEnd::LeaseLost),
            (RunOutcome::SupervisorKilled, CommandEnd::SupervisorKilled),
            (RunOutcome::NotStarted("x".into()), CommandEnd::NotStarted("x".into())),
        ] {
            let attached = AttachedCommand::default();
            let _signals = attached.start();
            attached.on_end(&outcome);
            assert_eq!(attached.wait().await, end);
            assert!(attached.start().is_none() && !attached.cancel());
        }
    }

    #[tokio::test]
    async fn signals_are_for_a_command_that_runs() {
        let attached = AttachedCommand::default();
        assert!(!attached.signal(15));
        let mut signals = attached.start();
        assert!(attached.signal(2));
        assert_eq!(next_signal(&mut signals).await, 2);
        attached.on_end(&ended_with(Some(ProcessEnd::Exit(0)), false));
        assert!(!attached.signal(15));
    }
}
