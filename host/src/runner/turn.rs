//! A turn while it runs.

use crate::Deadline;
use crate::contract::Turn;
use crate::handler::{Handler, TurnEnd};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinError, JoinHandle};

/// One call of the handler, as a task of its own: a handler that computes for long must not hold
/// up the renewals.
pub(super) struct RunningTurn {
    pub(super) turn: Turn,
    pub(super) started: Duration,
    lease: Deadline,
    stopping: bool,
    task: JoinHandle<TurnEnd>,
}

impl RunningTurn {
    pub(super) fn start(
        handler: Arc<dyn Handler>,
        turn: Turn,
        lease: Deadline,
        started: Duration,
    ) -> Self {
        let (given, until) = (turn, lease.clone());
        let task = tokio::spawn(async move { handler.on_tick(given, until).await });
        Self { turn, started, lease, stopping: false, task }
    }

    /// When the turn must be stopped. None: that has been ordered.
    pub(super) fn deadline(&self) -> Option<Duration> {
        (!self.stopping).then(|| self.lease.at())
    }

    /// The leadership goes on until `at`.
    pub(super) fn extend(&self, at: Duration) {
        if !self.stopping {
            self.lease.set(at);
        }
    }

    /// Orders the turn to stop: nothing more is sent from now on, and the handler's future is
    /// dropped as soon as it does not run.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
        self.lease.set(Duration::ZERO);
        self.task.abort();
    }

    /// Completes when nothing of the turn runs any more.
    pub(super) async fn seen_stopped(&mut self) -> TurnEnd {
        match (&mut self.task).await {
            Ok(end) => end,
            Err(error) => end_of(error),
        }
    }
}

impl Drop for RunningTurn {
    fn drop(&mut self) {
        // The runner itself was dropped.
        self.stop();
    }
}

fn end_of(error: JoinError) -> TurnEnd {
    let Ok(panic) = error.try_into_panic() else { return TurnEnd::CutOff };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    TurnEnd::Trapped(format!("the handler panicked: {}", text.unwrap_or("without a message")))
}
