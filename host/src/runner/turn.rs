//! A running turn, and how it is stopped.

use super::trace;
use crate::handler::{BoxFuture, Handler, TurnEnd};
use crate::lease::Lease;
use std::sync::Arc;
use std::time::Duration;
use tenure_clock::ClockHandle;
use tenure_core::Turn;
#[cfg(feature = "mutants")]
use tenure_core::mutants::{Mutant, is_active};
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};
use tracing::Instrument as _;

/// Time after a stop order at which a handler that still runs is reported.
pub(super) const STOP_WARNING_DELAY: Duration = Duration::from_secs(5);

/// One call of the handler, as a separate task, so that a handler that computes for long does not
/// delay renewals.
pub(super) struct RunningTurn {
    pub(super) turn: Turn,
    pub(super) started: Duration,
    /// End of leadership without further renewals.
    valid_until: Duration,
    /// End of its time limit and of the handler's [overtime](Handler::overtime), independent of
    /// renewals.
    time_limit: Option<Duration>,
    /// End of its grace period, once the candidate leaves.
    grace: Option<Duration>,
    /// Earliest of the three, as the handler and its requests see it.
    lease: Lease,
    stop_order: Option<StopOrder>,
    task: JoinHandle<TurnEnd>,
    /// End of the task.
    end: Option<TurnEnd>,
    /// Future of [`Handler::stopped`], until it has completed.
    handler_stopped: Option<BoxFuture<'static, ()>>,
}

/// Order to stop a turn.
struct StopOrder {
    ordered_at: Duration,
    end: TurnEnd,
    /// True if the handler was reported as still running.
    is_reported: bool,
}

impl RunningTurn {
    pub(super) fn start(
        runtime: &Handle,
        handler: Arc<dyn Handler>,
        turn: Turn,
        valid_until: Duration,
        clock: ClockHandle,
    ) -> Self {
        // Part of the claimed time has passed, so the handler gets the remaining time.
        let valid_for = valid_until.saturating_sub(clock.now());
        let (handler_turn, turn_handler) = (Turn { valid_for, ..turn.clone() }, handler.clone());
        let overtime = handler.overtime();
        let span = trace::turn_span(&turn);
        let spawn = |lease| {
            runtime.spawn(
                async move { turn_handler.on_tick(handler_turn, lease).await }.instrument(span),
            )
        };
        let mut running = Self::with_task(turn, valid_until, overtime, clock, spawn);
        running.handler_stopped = Some(Box::pin(async move { handler.stopped().await }));
        running
    }

    /// Creates a turn whose work `spawn` starts.
    pub(super) fn with_task(
        turn: Turn,
        valid_until: Duration,
        overtime: Duration,
        clock: ClockHandle,
        spawn: impl FnOnce(Lease) -> JoinHandle<TurnEnd>,
    ) -> Self {
        let started = clock.now();
        let time_limit = turn.time_limit.map(|limit| (started + limit).saturating_add(overtime));
        let lease = Lease::new(turn.term, clock, earliest(valid_until, time_limit, None));
        let task = spawn(lease.clone());
        Self {
            turn,
            started,
            valid_until,
            time_limit,
            grace: None,
            lease,
            stop_order: None,
            task,
            end: None,
            handler_stopped: None,
        }
    }

    /// Extends leadership until `valid_until`.
    pub(super) fn extend(&mut self, valid_until: Duration) {
        self.valid_until = valid_until;
        self.move_deadline();
    }

    /// Returns the end of the grace period, if the turn was asked to end.
    pub(super) fn grace(&self) -> Option<Duration> {
        self.grace
    }

    /// Lets the turn end by itself until `until`, because the candidate leaves or gives up
    /// leadership.
    pub(super) fn set_grace(&mut self, until: Duration) {
        self.grace = Some(until);
        self.move_deadline();
    }

    /// Cancels the grace period, because the candidate continues to lead.
    pub(super) fn clear_grace(&mut self) {
        #[cfg(feature = "mutants")]
        if is_active(Mutant::GraceNotTakenBack) {
            return;
        }
        self.grace = None;
        self.move_deadline();
    }

    fn move_deadline(&mut self) {
        if self.stop_order.is_none() {
            self.lease.set_valid_until(earliest(self.valid_until, self.time_limit, self.grace));
        }
    }

    /// Stops the turn if it is out of time.
    pub(super) fn enforce_deadline(&mut self, now: Duration) {
        if now < self.lease.valid_until() {
            return;
        }
        let is_past = |end: Option<Duration>| end.is_some_and(|end| end <= now);
        // If leadership has ended meanwhile, the handler did not time out.
        let timed_out = is_past(self.time_limit) && now < self.valid_until;
        self.stop(now, if timed_out { TurnEnd::TimedOut } else { TurnEnd::CutOff });
    }

    /// Stops the turn: it sends nothing more from now on, and the handler's future is dropped as
    /// soon as it yields.
    pub(super) fn stop(&mut self, now: Duration, end: TurnEnd) {
        if self.stop_order.is_none() {
            self.stop_order = Some(StopOrder { ordered_at: now, end, is_reported: false });
            #[cfg(feature = "mutants")]
            if is_active(Mutant::WorkNotStopped) {
                return;
            }
            self.lease.set_valid_until(Duration::ZERO);
            self.task.abort();
        }
    }

    /// Returns the instant of the stop order.
    pub(super) fn stop_ordered_at(&self) -> Option<Duration> {
        self.stop_order.as_ref().map(|order| order.ordered_at)
    }

    /// Returns true once if the handler still runs long after its stop order.
    pub(super) fn take_stop_warning(&mut self, now: Duration) -> bool {
        let is_due = |order: &&mut StopOrder| {
            !order.is_reported && now >= order.ordered_at + STOP_WARNING_DELAY
        };
        self.stop_order.as_mut().filter(is_due).map(|order| order.is_reported = true).is_some()
    }

    /// Returns the next instant at which the turn needs attention.
    pub(super) fn wake_at(&self) -> Option<Duration> {
        match &self.stop_order {
            None => Some(self.lease.valid_until()),
            Some(order) => (!order.is_reported).then_some(order.ordered_at + STOP_WARNING_DELAY),
        }
    }

    /// Waits until all work of the turn has stopped.
    pub(super) async fn wait_until_stopped(&mut self) -> TurnEnd {
        // The main loop may cancel this method at either wait, and call it again. `end` keeps the
        // result of the first wait.
        if self.end.is_none() {
            self.end = Some((&mut self.task).await.unwrap_or_else(end_from_join_error));
        }
        if let Some(stopped) = &mut self.handler_stopped {
            stopped.await;
            self.handler_stopped = None;
        }
        self.end.clone().unwrap_or(TurnEnd::CutOff)
    }

    /// Returns the final end of the turn, whose task ended with `end`.
    pub(super) fn final_end(&self, end: TurnEnd) -> TurnEnd {
        match (end, &self.stop_order) {
            // The handler succeeded before the order arrived.
            (TurnEnd::Succeeded, _) => TurnEnd::Succeeded,
            // After the order, requests are denied and make the handler fail.
            (_, Some(order)) => order.end.clone(),
            (end, None) => end,
        }
    }
}

impl Drop for RunningTurn {
    fn drop(&mut self) {
        // The runner itself was dropped.
        self.stop(Duration::ZERO, TurnEnd::CutOff);
    }
}

fn earliest(valid_until: Duration, limit: Option<Duration>, grace: Option<Duration>) -> Duration {
    [limit, grace].into_iter().flatten().fold(valid_until, Duration::min)
}

fn end_from_join_error(error: JoinError) -> TurnEnd {
    // If there is a stop order, `final_end` replaces this end.
    let Ok(panic) = error.try_into_panic() else {
        return TurnEnd::Trapped("the runtime of its turns has ended".to_owned());
    };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    TurnEnd::Trapped(format!("the handler panicked: {}", text.unwrap_or("without a message")))
}
