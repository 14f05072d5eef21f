//! A turn while it runs, and what makes it stop.

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

/// A handler that runs on for so long after it was ordered to stop is told of.
pub(super) const STOP_WARNING_DELAY: Duration = Duration::from_secs(5);

/// One call of the handler, as a task of its own: a handler that computes for long must not hold
/// up the renewals.
pub(super) struct RunningTurn {
    pub(super) turn: Turn,
    pub(super) started: Duration,
    /// The leadership lasts until then; renewals move it on.
    valid_until: Duration,
    /// The end of its time and of the handler's [overtime](Handler::overtime), whatever is renewed.
    time_limit: Option<Duration>,
    /// The end of its grace, once the candidate leaves.
    grace: Option<Duration>,
    /// The earliest of the three, as the handler and its requests see it.
    lease: Lease,
    stop_order: Option<StopOrder>,
    task: JoinHandle<TurnEnd>,
    /// How the task ended.
    end: Option<TurnEnd>,
    /// Completes when what the task has left behind is gone too. Asked once, however often the loop looks.
    handler_stopped: Option<BoxFuture<'static, ()>>,
}

/// That a turn must stop now.
struct StopOrder {
    ordered_at: Duration,
    end: TurnEnd,
    /// Whether it was told that the handler does not obey.
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
        // Of the claim, some is gone: the handler is told what is left.
        let valid_for = valid_until.saturating_sub(clock.now());
        let (handler_turn, turn_handler) = (Turn { valid_for, ..turn.clone() }, handler.clone());
        let overtime = handler.overtime();
        let span = trace::turn_span(&turn);
        let spawn = |lease| {
            runtime.spawn(async move { turn_handler.on_tick(handler_turn, lease).await }.instrument(span))
        };
        let mut running = Self::with_task(turn, valid_until, overtime, clock, spawn);
        running.handler_stopped = Some(Box::pin(async move { handler.stopped().await }));
        running
    }

    /// A turn whose work `spawn` begins.
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

    /// The leadership goes on until `at`.
    pub(super) fn extend(&mut self, valid_until: Duration) {
        self.valid_until = valid_until;
        self.move_deadline();
    }

    /// The end of its grace, if it was asked to end.
    pub(super) fn grace(&self) -> Option<Duration> {
        self.grace
    }

    /// The candidate leaves, or gives up its leadership: the turn may end by itself until `at`.
    pub(super) fn set_grace(&mut self, until: Duration) {
        self.grace = Some(until);
        self.move_deadline();
    }

    /// The candidate goes on leading: the turn need not end for its sake.
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

    /// Stops the turn if its time is over.
    pub(super) fn enforce_deadline(&mut self, now: Duration) {
        if now < self.lease.valid_until() {
            return;
        }
        let is_past = |end: Option<Duration>| end.is_some_and(|end| end <= now);
        // Leadership that ended in the meantime says nothing about the handler.
        let timed_out = is_past(self.time_limit) && now < self.valid_until;
        self.stop(now, if timed_out { TurnEnd::TimedOut } else { TurnEnd::CutOff });
    }

    /// Orders the turn to stop: nothing more is sent from now on, and the handler's future is
    /// dropped as soon as it does not run.
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

    /// When the turn was ordered to stop.
    pub(super) fn ordered_at(&self) -> Option<Duration> {
        self.stop_order.as_ref().map(|order| order.ordered_at)
    }

    /// True once, when the handler does not obey.
    pub(super) fn take_stop_warning(&mut self, now: Duration) -> bool {
        let is_due = |order: &&mut StopOrder| !order.is_reported && now >= order.ordered_at + STOP_WARNING_DELAY;
        self.stop_order.as_mut().filter(is_due).map(|order| order.is_reported = true).is_some()
    }

    /// When there is something to do about this turn, unless it ends before.
    pub(super) fn wake_at(&self) -> Option<Duration> {
        match &self.stop_order {
            None => Some(self.lease.valid_until()),
            Some(order) => (!order.is_reported).then_some(order.ordered_at + STOP_WARNING_DELAY),
        }
    }

    /// Completes when nothing of the turn runs any more.
    pub(super) async fn wait_until_stopped(&mut self) -> TurnEnd {
        // Asked again after it was interrupted in what follows.
        if self.end.is_none() {
            self.end = Some((&mut self.task).await.unwrap_or_else(end_from_join_error));
        }
        if let Some(gone) = &mut self.handler_stopped {
            gone.await;
            self.handler_stopped = None;
        }
        self.end.clone().unwrap_or(TurnEnd::CutOff)
    }

    /// How the turn ended, which `end` was seen of.
    pub(super) fn final_end(&self, end: TurnEnd) -> TurnEnd {
        match (end, &self.stop_order) {
            // It was quicker than the order.
            (TurnEnd::Succeeded, _) => TurnEnd::Succeeded,
            // A handler whose requests are refused from then on fails by that.
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
    // Unless it was ordered to stop, which counts then.
    let Ok(panic) = error.try_into_panic() else {
        return TurnEnd::Trapped("the runtime of its turns has ended".to_owned());
    };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    TurnEnd::Trapped(format!("the handler panicked: {}", text.unwrap_or("without a message")))
}
