//! A turn while it runs, and what makes it stop.

use super::trace;
use crate::handler::{BoxFuture, Handler, TurnEnd};
use crate::lease::Lease;
use std::sync::Arc;
use std::time::Duration;
use tenure_clock::Reading;
use tenure_core::Turn;
#[cfg(feature = "mutants")]
use tenure_core::mutants::{Mutant, is_active};
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};
use tracing::Instrument as _;

/// A handler that runs on for so long after it was ordered to stop is told of.
pub(super) const STUBBORN: Duration = Duration::from_secs(5);

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
    order: Option<Order>,
    task: JoinHandle<TurnEnd>,
    /// How the task ended.
    end: Option<TurnEnd>,
    /// Completes when what the task has left behind is gone too. Asked once, however often the loop looks.
    gone: Option<BoxFuture<'static, ()>>,
}

/// That a turn must stop now.
struct Order {
    at: Duration,
    end: TurnEnd,
    /// Whether it was told that the handler does not obey.
    told: bool,
}

impl RunningTurn {
    pub(super) fn start(
        runtime: &Handle,
        handler: Arc<dyn Handler>,
        turn: Turn,
        valid_until: Duration,
        clock: Reading,
    ) -> Self {
        // Of the claim, some is gone: the handler is told what is left.
        let valid_for = valid_until.saturating_sub(clock.now());
        let (ordered, works) = (Turn { valid_for, ..turn.clone() }, handler.clone());
        let overtime = handler.overtime();
        let span = trace::of_turn(&turn);
        let spawn = |lease| {
            runtime.spawn(async move { works.on_tick(ordered, lease).await }.instrument(span))
        };
        let mut this = Self::of(turn, valid_until, overtime, clock, spawn);
        this.gone = Some(Box::pin(async move { handler.stopped().await }));
        this
    }

    /// A turn whose work `spawn` begins.
    pub(super) fn of(
        turn: Turn,
        valid_until: Duration,
        overtime: Duration,
        clock: Reading,
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
            order: None,
            task,
            end: None,
            gone: None,
        }
    }

    /// The leadership goes on until `at`.
    pub(super) fn extend(&mut self, at: Duration) {
        self.valid_until = at;
        self.move_deadline();
    }

    /// The end of its grace, if it was asked to end.
    pub(super) fn grace(&self) -> Option<Duration> {
        self.grace
    }

    /// The candidate leaves, or gives up its leadership: the turn may end by itself until `at`.
    pub(super) fn give_grace(&mut self, at: Duration) {
        self.grace = Some(at);
        self.move_deadline();
    }

    /// The candidate goes on leading: the turn need not end for its sake.
    pub(super) fn take_back_grace(&mut self) {
        #[cfg(feature = "mutants")]
        if is_active(Mutant::GraceNotTakenBack) {
            return;
        }
        self.grace = None;
        self.move_deadline();
    }

    fn move_deadline(&mut self) {
        if self.order.is_none() {
            self.lease.set(earliest(self.valid_until, self.time_limit, self.grace));
        }
    }

    /// Stops the turn if its time is over.
    pub(super) fn enforce(&mut self, now: Duration) {
        if now < self.lease.until() {
            return;
        }
        let over = |end: Option<Duration>| end.is_some_and(|end| end <= now);
        // Leadership that ended in the meantime says nothing about the handler.
        let timed_out = over(self.time_limit) && now < self.valid_until;
        self.stop(now, if timed_out { TurnEnd::TimedOut } else { TurnEnd::CutOff });
    }

    /// Orders the turn to stop: nothing more is sent from now on, and the handler's future is
    /// dropped as soon as it does not run.
    pub(super) fn stop(&mut self, now: Duration, end: TurnEnd) {
        if self.order.is_none() {
            self.order = Some(Order { at: now, end, told: false });
            #[cfg(feature = "mutants")]
            if is_active(Mutant::WorkNotStopped) {
                return;
            }
            self.lease.set(Duration::ZERO);
            self.task.abort();
        }
    }

    /// When the turn was ordered to stop.
    pub(super) fn ordered_at(&self) -> Option<Duration> {
        self.order.as_ref().map(|order| order.at)
    }

    /// True once, when the handler does not obey.
    pub(super) fn is_stubborn(&mut self, now: Duration) -> bool {
        let stubborn = |order: &&mut Order| !order.told && now >= order.at + STUBBORN;
        self.order.as_mut().filter(stubborn).map(|order| order.told = true).is_some()
    }

    /// When there is something to do about this turn, unless it ends before.
    pub(super) fn wake_at(&self) -> Option<Duration> {
        match &self.order {
            None => Some(self.lease.until()),
            Some(order) => (!order.told).then_some(order.at + STUBBORN),
        }
    }

    /// Completes when nothing of the turn runs any more.
    pub(super) async fn seen_stopped(&mut self) -> TurnEnd {
        // Asked again after it was interrupted in what follows.
        if self.end.is_none() {
            self.end = Some((&mut self.task).await.unwrap_or_else(end_of));
        }
        if let Some(gone) = &mut self.gone {
            gone.await;
            self.gone = None;
        }
        self.end.clone().unwrap_or(TurnEnd::CutOff)
    }

    /// How the turn ended, which `end` was seen of.
    pub(super) fn judge(&self, end: TurnEnd) -> TurnEnd {
        match (end, &self.order) {
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

fn end_of(error: JoinError) -> TurnEnd {
    // Unless it was ordered to stop, which counts then.
    let Ok(panic) = error.try_into_panic() else {
        return TurnEnd::Trapped("the runtime of its turns has ended".to_owned());
    };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    TurnEnd::Trapped(format!("the handler panicked: {}", text.unwrap_or("without a message")))
}
