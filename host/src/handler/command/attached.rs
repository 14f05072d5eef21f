//! A command that has the streams and the terminal of this process, and is handed its signals: that of a lock.
//!
//! It has one run at most, and whoever waits for that may call it off until it begins.

use super::outcome::RunOutcome;
use std::future::pending;
use tenure_supervisor::{ProcessEnd, CommandExit};
use tokio::sync::{broadcast, watch};

/// So many signals may wait to be handed on.
const SIGNALS: usize = 16;

/// What is known of the run of a command that is attached.
#[derive(Debug)]
pub struct AttachedCommand {
    stage: watch::Sender<Stage>,
    signals: broadcast::Sender<i32>,
}

/// How far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// It has not begun, and may.
    Waiting,
    /// It has not begun, and will not.
    Cancelled,
    /// It is about to be started, or runs.
    Running,
    Finished(CommandEnd),
}

/// How the run of an attached command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandEnd {
    /// By itself, or by a signal that was not sent for the sake of the leadership.
    Ended(ProcessEnd),
    /// It was told to end, or killed, since the leadership ended or could not be prolonged in time.
    LeaseLost,
    /// It was killed, since the process that supervises it had been killed.
    SupervisorKilled,
    /// It could not be started, for this reason.
    NotStarted(String),
}

impl Default for AttachedCommand {
    fn default() -> Self {
        let stage = watch::Sender::new(Stage::Waiting);
        Self { stage, signals: broadcast::Sender::new(SIGNALS) }
    }
}

impl AttachedCommand {
    /// Hands a signal on to the command. False: it does not run.
    pub fn signal(&self, number: i32) -> bool {
        let is_running = *self.stage.borrow() == Stage::Running;
        is_running && self.signals.send(number).is_ok()
    }

    /// From now on it does not begin. False: it has begun.
    pub fn cancel(&self) -> bool {
        self.leave_waiting(Stage::Cancelled)
    }

    /// Completes when it does not run, and has not.
    pub async fn wait_until_idle(&self) {
        // Cannot fail: the sender is here.
        let _ = self.stage.subscribe().wait_for(|stage| *stage == Stage::Waiting).await;
    }

    /// Completes when nothing of it runs any more.
    pub async fn wait(&self) -> CommandEnd {
        let mut stage = self.stage.subscribe();
        let finished = stage.wait_for(|stage| matches!(stage, Stage::Finished(_))).await;
        match finished.map(|stage| stage.clone()) {
            Ok(Stage::Finished(end)) => end,
            _ => pending().await,
        }
    }

    /// Its run begins: the signals that it is to be handed. None when it must not.
    pub(super) fn start(&self) -> Option<broadcast::Receiver<i32>> {
        let signals = self.signals.subscribe();
        self.leave_waiting(Stage::Running).then_some(signals)
    }

    /// Its run ended so.
    pub(super) fn on_end(&self, outcome: &RunOutcome) {
        self.stage.send_replace(match outcome {
            // Its time was over before it was started: another leadership may have more.
            RunOutcome::Finished(CommandExit { ended: None, .. }) => Stage::Waiting,
            RunOutcome::Finished(CommandExit { told: true, .. }) => Stage::Finished(CommandEnd::LeaseLost),
            RunOutcome::SupervisorKilled => Stage::Finished(CommandEnd::SupervisorKilled),
            RunOutcome::Finished(CommandExit { ended: Some(ended), .. }) => Stage::Finished(CommandEnd::Ended(*ended)),
            RunOutcome::NotStarted(problem) => Stage::Finished(CommandEnd::NotStarted(problem.clone())),
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

/// The next signal; never, when there will be none.
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
        RunOutcome::Finished(CommandExit { ended, told: stopped, timed_out: false })
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
