//! A command that has the streams and the terminal of this process, and is handed its signals: that of a lock.
//!
//! It has one run at most, and whoever waits for that may call it off until it begins.

use super::outcome::Fate;
use std::future::pending;
use tenure_supervisor::{Ended, Gone};
use tokio::sync::{broadcast, watch};

/// So many signals may wait to be handed on.
const SIGNALS: usize = 16;

/// What is known of the run of a command that is attached.
#[derive(Debug)]
pub struct Attached {
    stage: watch::Sender<Stage>,
    signals: broadcast::Sender<i32>,
}

/// How far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// It has not begun, and may.
    Waiting,
    /// It has not begun, and will not.
    CalledOff,
    /// It is about to be started, or runs.
    Running,
    Over(CommandEnd),
}

/// How the run of an attached command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandEnd {
    /// By itself, or by a signal that was not sent for the sake of the leadership.
    Ended(Ended),
    /// It was told to end, or killed, since the leadership ended or could not be prolonged in time.
    Lost,
    /// It was killed, since the process that supervises it had been killed.
    Unwatched,
    /// It could not be started, for this reason.
    NotStarted(String),
}

impl Default for Attached {
    fn default() -> Self {
        let stage = watch::Sender::new(Stage::Waiting);
        Self { stage, signals: broadcast::Sender::new(SIGNALS) }
    }
}

impl Attached {
    /// Hands a signal on to the command. False: it does not run.
    pub fn signal(&self, number: i32) -> bool {
        let running = *self.stage.borrow() == Stage::Running;
        running && self.signals.send(number).is_ok()
    }

    /// From now on it does not begin. False: it has begun.
    pub fn call_off(&self) -> bool {
        self.leave_waiting_for(Stage::CalledOff)
    }

    /// Completes when it does not run, and has not.
    pub async fn idle(&self) {
        // Cannot fail: the sender is here.
        let _ = self.stage.subscribe().wait_for(|stage| *stage == Stage::Waiting).await;
    }

    /// Completes when nothing of it runs any more.
    pub async fn over(&self) -> CommandEnd {
        let mut stage = self.stage.subscribe();
        let over = stage.wait_for(|stage| matches!(stage, Stage::Over(_))).await;
        match over.map(|stage| stage.clone()) {
            Ok(Stage::Over(end)) => end,
            _ => pending().await,
        }
    }

    /// Its run begins: the signals that it is to be handed. None when it must not.
    pub(super) fn begin(&self) -> Option<broadcast::Receiver<i32>> {
        let signals = self.signals.subscribe();
        self.leave_waiting_for(Stage::Running).then_some(signals)
    }

    /// Its run ended so.
    pub(super) fn ended(&self, fate: &Fate) {
        self.stage.send_replace(match fate {
            // Its time was over before it was started: another leadership may have more.
            Fate::Gone(Gone { ended: None, .. }) => Stage::Waiting,
            Fate::Gone(Gone { told: true, .. }) => Stage::Over(CommandEnd::Lost),
            Fate::Unwatched => Stage::Over(CommandEnd::Unwatched),
            Fate::Gone(Gone { ended: Some(ended), .. }) => Stage::Over(CommandEnd::Ended(*ended)),
            Fate::NotStarted(problem) => Stage::Over(CommandEnd::NotStarted(problem.clone())),
        });
    }

    fn leave_waiting_for(&self, next: Stage) -> bool {
        self.stage.send_if_modified(|stage| {
            let waiting = *stage == Stage::Waiting;
            if waiting {
                *stage = next;
            }
            waiting
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

    fn gone(ended: Option<Ended>, told: bool) -> Fate {
        Fate::Gone(Gone { ended, told, timed_out: false })
    }

    #[test]
    fn what_has_begun_cannot_be_called_off_and_the_other_way_round() {
        let begun = Attached::default();
        assert!(begun.begin().is_some() && !begun.call_off());
        let called_off = Attached::default();
        assert!(called_off.call_off() && called_off.begin().is_none());
    }

    #[tokio::test]
    async fn one_that_was_never_started_may_be_started_later() {
        let attached = Attached::default();
        let _signals = attached.begin();
        attached.ended(&gone(None, true));
        attached.idle().await;
        assert!(attached.begin().is_some());
    }

    #[tokio::test]
    async fn how_it_ended_is_told_apart() {
        let exit = Ended::Exit(3);
        for (fate, end) in [
            (gone(Some(exit), false), CommandEnd::Ended(exit)),
            (gone(Some(exit), true), CommandEnd::Lost),
            (Fate::Unwatched, CommandEnd::Unwatched),
            (Fate::NotStarted("x".into()), CommandEnd::NotStarted("x".into())),
        ] {
            let attached = Attached::default();
            let _signals = attached.begin();
            attached.ended(&fate);
            assert_eq!(attached.over().await, end);
            assert!(attached.begin().is_none() && !attached.call_off());
        }
    }

    #[tokio::test]
    async fn signals_are_for_a_command_that_runs() {
        let attached = Attached::default();
        assert!(!attached.signal(15));
        let mut signals = attached.begin();
        assert!(attached.signal(2));
        assert_eq!(next_signal(&mut signals).await, 2);
        attached.ended(&gone(Some(Ended::Exit(0)), false));
        assert!(!attached.signal(15));
    }
}
