//! Main loop of a candidate: step, turn, stop. Its elector, and the orders to it.
//!
//! The elector decides, and the runner waits and obeys. The runner's own duty is the deadline: a
//! leader's work ends at the instant that the last successful renewal allows, under all
//! circumstances.

mod candidate;
mod event;
mod event_emitter;
#[cfg(test)]
mod tests;
mod trace;
mod turn;

pub use event::{Event, ProblemKind, StandDownReason};

use crate::election::Election;
use crate::future::{BoxFuture, or_pending, wait_until_true};
use crate::handler::{Handler, TurnEnd};
use candidate::Candidate;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tenure_clock::Clock;
use tenure_core::{Event as StepInput, Failure, FailureKind, Report, Request, Response, State};
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::select;
use tokio::sync::{Notify, mpsc, watch};
use tracing::Instrument as _;
use turn::RunningTurn;

/// Maximum time of a step, far more than its requests take.
const STEP_LIMIT: Duration = Duration::from_secs(120);

/// Shortest delay in noticing a limit that proves that the process was not running. The requests of
/// its step were then not running either.
const SLEEP_THRESHOLD: Duration = Duration::from_secs(1);

/// Receives each report, and the instant from which its durations count.
type Observer = dyn Fn(&Report, Duration) + Send + Sync;

/// An order to a running candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Give up leadership and let other candidates go first. Ignored if this candidate does not
    /// lead.
    Resign,
    /// Transfer leadership to the candidate of that name.
    ///
    /// If that candidate does not announce itself in time, or this one does not lead, nothing
    /// changes. A problem reports it.
    HandOver(String),
    /// True: contend. False: do not contend until the next `Ready(true)`; a leader then resigns.
    ///
    /// A candidate contends while both this and [`when_ready`](Runner::when_ready) allow it.
    Ready(bool),
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resign => f.write_str("resign"),
            Self::HandOver(to) => write!(f, "hand over to {to}"),
            Self::Ready(true) => f.write_str("contend"),
            Self::Ready(false) => f.write_str("do not contend"),
        }
    }
}

/// Error of a failed step. The candidate loses its state and starts again without one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ElectorError(String);

impl ElectorError {
    /// Creates an error with this description.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Logic of an election, which a [`Runner`] drives step by step. Implemented by [`Election`] and by
/// hosts of the election component. [`tenure::Elector`](crate::Elector), which programs use, is
/// another type.
pub trait Elector: Send + Sync {
    /// Runs one step, like the WIT's `election.step`. Calls never overlap.
    fn step(
        &self,
        state: Option<State>,
        elapsed: Duration,
        event: Option<StepInput>,
    ) -> impl Future<Output = Result<Report, ElectorError>> + Send;

    /// Sends a background request of a report, outside the steps.
    fn send(&self, _: Request) -> impl Future<Output = Result<Response, Failure>> + Send {
        let detail = "this elector sends no background requests".to_owned();
        std::future::ready(Err(Failure { kind: FailureKind::Denied, detail }))
    }

    /// Returns the time that the newest step spent in the queue, or `None` if it is still queued.
    ///
    /// Queue time is unlimited; the limit of a step counts from its start.
    fn queue_time(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    /// Returns how late the newest step started, if the host is overloaded and should report it.
    fn lateness(&self) -> Option<Duration> {
        None
    }

    /// Returns the kind of the elector for logs: `native` for [`Election`], `component` for the
    /// election component.
    fn kind(&self) -> &'static str {
        "other"
    }

    /// Returns the names of the election and the candidate for the spans of `tracing`. Empty if
    /// unknown.
    fn names(&self) -> (&str, &str) {
        ("", "")
    }
}

impl Elector for Election {
    async fn step(
        &self,
        state: Option<State>,
        elapsed: Duration,
        event: Option<StepInput>,
    ) -> Result<Report, ElectorError> {
        self.ensure_checked().map_err(|invalid| ElectorError::new(invalid.to_string()))?;
        Ok(Election::step(self, state.as_ref(), elapsed, event).await)
    }

    async fn send(&self, request: Request) -> Result<Response, Failure> {
        Election::send(self, &request).await
    }

    fn kind(&self) -> &'static str {
        "native"
    }

    fn names(&self) -> (&str, &str) {
        let options = &self.settings().options;
        [&options.election, &options.name].map(|text| text.as_deref().unwrap_or_default()).into()
    }
}

/// A candidate: an elector, its handler, and the clock of both.
pub struct Runner<E, C> {
    pub(crate) elector: E,
    handler: Arc<dyn Handler>,
    pub(crate) clock: C,
    grace: Option<Duration>,
    turn_runtime: Option<Handle>,
    ready: watch::Receiver<bool>,
    hints: Arc<Notify>,
    events: Arc<dyn Fn(Event) + Send + Sync>,
    reports: Arc<Observer>,
    guard: Option<Arc<dyn Send + Sync>>,
}

impl<E: Elector, C: Clock> Runner<E, C> {
    /// Creates a candidate that reports only to subscribers of the crate `tracing`.
    ///
    /// Each [`Event`] is in a span `candidate` with the fields `election` and `candidate`. Output
    /// of the handler's own tracing is in a span `turn` with `election`, `term`, `slot` and
    /// `attempt`.
    pub fn new(elector: E, handler: impl Handler, clock: C) -> Self {
        Self {
            elector,
            handler: Arc::new(handler),
            clock,
            grace: None,
            turn_runtime: None,
            ready: watch::Sender::new(true).subscribe(),
            hints: Arc::default(),
            events: Arc::new(|event| event.emit()),
            reports: Arc::new(|_, _| {}),
            guard: None,
        }
    }

    /// Sets the grace period in which a running turn may end by itself when the candidate leaves.
    /// Zero stops the turn at once.
    ///
    /// The default is that of the [handler](Handler::grace), 1 s for most handlers. The lease is
    /// renewed meanwhile. If renewals fail, the turn is stopped when the lease ends, regardless of
    /// the remaining grace period.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// Runs turns on this runtime, so that handlers that compute for long do not delay the current
    /// one.
    ///
    /// The default is the current runtime. The given runtime must be driven and must outlast the
    /// turns.
    #[must_use]
    pub fn run_turns_on(mut self, runtime: Handle) -> Self {
        self.turn_runtime = Some(runtime);
        self
    }

    /// Does not contend until `ready` is true for the first time, regardless of orders. If the
    /// sender of `ready` is dropped before that, the candidate never contends.
    #[must_use]
    pub fn when_ready(mut self, ready: watch::Receiver<bool>) -> Self {
        self.ready = ready;
        self
    }

    /// Takes notifications that something may have changed. Soon after each one, a follower polls,
    /// and a leader reads its orders. Many notifications cause few requests.
    #[must_use]
    pub fn with_hints(mut self, hints: Arc<Notify>) -> Self {
        self.hints = hints;
        self
    }

    /// Holds `guard` until the last turn has stopped.
    ///
    /// The guard is dropped when [`run`](Runner::run) has returned, the runner was dropped, and the
    /// last turn has stopped. A handler that did not stop in time may run for longer. When no clone
    /// of the guard is left, this process may contend for the same election again. Dropping the
    /// future of `run` does not wait for turns.
    #[must_use]
    pub fn hold_until_stopped(mut self, guard: Arc<dyn Send + Sync>) -> Self {
        self.guard = Some(guard);
        self
    }

    fn grace_period(&self) -> Duration {
        self.grace.unwrap_or_else(|| self.handler.grace())
    }

    fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Calls `events` with each [`Event`], at once and in order, before the functions of earlier
    /// calls.
    ///
    /// `events` must neither block nor panic, because it runs in the loop that renews the lease and
    /// stops the work in time.
    #[must_use]
    pub fn on_event(mut self, events: impl Fn(Event) + Send + Sync + 'static) -> Self {
        let previous = self.events;
        self.events = Arc::new(move |event: Event| {
            events(event.clone());
            previous(event);
        });
        self
    }

    /// Calls `reports` with each report and the instant from which its durations count.
    ///
    /// `reports` runs before the functions of earlier calls, and before the events that follow from
    /// the report. It must neither block nor panic.
    #[must_use]
    pub fn on_report(
        mut self,
        reports: impl Fn(&Report, Duration) + Send + Sync + 'static,
    ) -> Self {
        let previous = self.reports;
        self.reports = Arc::new(move |report, taken_at| {
            reports(report, taken_at);
            previous(report, taken_at);
        });
        self
    }

    /// Contends until `shutdown` completes. Then starts no new turn, lets the running turn end
    /// within its [`grace`](Runner::grace) period or stops it, releases the lease and returns.
    ///
    /// Leaving takes at most 10 s after the end of the turn. Time that steps spend in the queue of
    /// a process with many elections is added. A lease that could not be released expires. The same
    /// applies if the handler does not stop within 10 s.
    ///
    /// Dropping the returned future also ends the work, but leaves the lease to expire. Therefore
    /// pass a signal as `shutdown`, and do not race this future against one in `select!`.
    ///
    /// If a handler computes for long without an `.await`, the runtime needs a second worker
    /// thread, or turns need [their own runtime](Runner::run_turns_on).
    ///
    /// Call [`Election::check`](crate::election::Election::check) first to validate the settings.
    /// With invalid settings the candidate never contends, and reports a problem each second.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime, or if its drivers for I/O and time are not enabled.
    pub async fn run(&mut self, shutdown: impl Future<Output = ()>) {
        self.run_with(shutdown, &mut mpsc::channel(1).1).await;
    }

    /// Contends like [`run`](Runner::run), and obeys orders as they arrive.
    pub async fn run_with(
        &mut self,
        shutdown: impl Future<Output = ()>,
        orders: &mut mpsc::Receiver<Order>,
    ) {
        let span = trace::candidate_span(self.elector.names());
        // `&mut self` allows one run at a time, because a second one would share the elector.
        let this = &*self;
        // Passes pointers, because a future reserves space for each argument twice: as passed and
        // as used.
        let candidate = Box::new(Candidate::new(this));
        this.drive(candidate, pin!(shutdown), orders).instrument(span).await;
    }

    async fn drive(
        &self,
        mut candidate: Box<Candidate<'_, E, C>>,
        mut shutdown: Pin<&mut impl Future<Output = ()>>,
        orders: &mut mpsc::Receiver<Order>,
    ) {
        let mut readiness = self.ready.clone();
        let mut ready = pin!(wait_until_true(&mut readiness));
        let mut step: Option<Step<'_>> = None;
        // Background request.
        let mut background: Option<BoxFuture<'_, Result<Response, Failure>>> = None;
        // A candidate that is to leave before it starts must not contend.
        if poll_fn(|context| Poll::Ready(shutdown.as_mut().poll(context).is_ready())).await {
            candidate.leave();
        }
        loop {
            // The deadline comes before any other event.
            candidate.enforce();
            if candidate.is_done() {
                break;
            }
            if step.is_none() {
                step = candidate.next_step();
                candidate.step_sent_at = step.as_ref().map(|step| step.taken_at);
            }
            let wake_at = candidate.wake_at(step.is_some());
            let wakeup = select! {
                biased;
                () = &mut shutdown, if !candidate.is_leaving() => Wakeup::Leave,
                () = &mut ready, if candidate.awaits_ready() => Wakeup::Ready,
                Some(order) = orders.recv() => Wakeup::Ordered(order),
                end = wait_until_stopped(&mut candidate.turn) => Wakeup::TurnEnded(end),
                result = or_pending(step.as_mut().map(|step| &mut step.future)) => Wakeup::Stepped(Box::new(result)),
                answer = or_pending(background.as_mut()) => Wakeup::BackgroundReply(answer),
                () = self.hints.notified() => Wakeup::Hint,
                () = self.clock.sleep_until(wake_at) => continue,
            };
            candidate.enforce();
            match wakeup {
                Wakeup::Leave => candidate.leave(),
                Wakeup::Ready => candidate.on_ready(),
                Wakeup::Ordered(order) => candidate.on_order(order),
                Wakeup::Hint => candidate.on_hint(),
                Wakeup::TurnEnded(end) => candidate.on_turn_ended(end),
                Wakeup::Stepped(result) => {
                    let taken_at =
                        step.take().map_or_else(|| self.clock.now(), |step| step.taken_at);
                    if let Some(request) = candidate.on_step_result(taken_at, *result) {
                        background = Some(Box::pin(self.elector.send(request)));
                    }
                }
                Wakeup::BackgroundReply(answer) => {
                    background = None;
                    candidate.on_background_reply(answer);
                }
            }
        }
        if let (Some(mut turn), Some(guard)) = (candidate.turn.take(), self.guard.clone()) {
            turn.stop(self.clock.now(), TurnEnd::CutOff);
            Handle::current().spawn(async move {
                turn.wait_until_stopped().await;
                drop(guard);
            });
        }
        drop(candidate);
        (self.events)(Event::Stopped);
    }

    /// Creates a step with a limit, which only a broken component reaches.
    fn step(&self, state: Option<State>, input: Option<StepInput>) -> Step<'_> {
        let taken_at = self.clock.now();
        let future = async move {
            let mut step = pin!(self.elector.step(state, taken_at, input));
            let mut limit = taken_at + STEP_LIMIT;
            loop {
                select! {
                    biased;
                    result = &mut step => return result,
                    () = self.clock.sleep_until(limit) => {}
                }
                let started_at = self.elector.queue_time().map(|waited| taken_at + waited);
                if started_at.is_none() {
                    let waited_seconds = self.clock.now().saturating_sub(taken_at).as_secs();
                    let cause = format!("this election has made no step for {waited_seconds} s");
                    (self.events)(Event::overload(&cause));
                }
                // A step that had no time to end, because the machine was suspended, gets the full
                // limit again.
                let now = self.clock.now();
                let began = started_at.filter(|_| now.saturating_sub(limit) < SLEEP_THRESHOLD);
                let next_limit = began.unwrap_or(now) + STEP_LIMIT;
                if next_limit <= limit {
                    let error = format!("a step took more than {STEP_LIMIT:?}");
                    return Err(ElectorError::new(error));
                }
                limit = next_limit;
            }
        };
        Step { taken_at, future: Box::pin(future) }
    }
}

/// A running step. It always runs to its end, because it may have sent a release.
struct Step<'a> {
    taken_at: Duration,
    future: BoxFuture<'a, Result<Report, ElectorError>>,
}

enum Wakeup {
    Leave,
    Ready,
    Ordered(Order),
    Hint,
    TurnEnded(TurnEnd),
    Stepped(Box<Result<Report, ElectorError>>),
    BackgroundReply(Result<Response, Failure>),
}

/// Waits until all work of the turn has stopped. Never completes if there is no turn.
async fn wait_until_stopped(turn: &mut Option<RunningTurn>) -> TurnEnd {
    match turn {
        Some(turn) => turn.wait_until_stopped().await,
        None => std::future::pending().await,
    }
}
