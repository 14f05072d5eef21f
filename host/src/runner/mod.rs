//! The loop that hosts a candidate: step, turn, stop.
//!
//! The elector decides, the runner waits and obeys. Its one own duty is the deadline: the work of
//! the leader ends at the instant that the last good renewal allows, whatever else is going on.

mod candidate;
mod elector;
mod event;
mod narrator;
mod order;
#[cfg(test)]
mod tests;
pub(crate) mod trace;
mod turn;

pub use elector::{Elector, ElectorError};
pub use event::{ProblemKind, Event, StandDownReason};
pub use order::Order;

use crate::future::{BoxFuture, wait_until_true, or_pending};
use crate::handler::{Handler, TurnEnd};
use candidate::Candidate;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tenure_clock::Clock;
use tenure_core::{Event as Word, Failure, Report, Response, State};
use tokio::runtime::Handle;
use tokio::select;
use tokio::sync::{Notify, mpsc, watch};
use tracing::Instrument as _;
use turn::RunningTurn;

/// The longest that a step may take: far more than its requests may.
const STEP_LIMIT: Duration = Duration::from_secs(120);

/// A limit that is noticed so long after it passed says that the process did not run, and the requests of its step neither.
const SLEEP_THRESHOLD: Duration = Duration::from_secs(1);

/// Who is shown each report, and the instant that its durations are counted from.
type Observer = dyn Fn(&Report, Duration) + Send + Sync;

/// A candidate: an elector, the handler that it elects, and the clock that both obey.
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
    /// A candidate that tells what happens to subscribers of the crate `tracing` alone: each [`Event`] in a span
    /// `candidate` with its `election` and `candidate`, and what a handler tells in a span `turn` with `election`,
    /// `term`, `slot` and `attempt`.
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

    /// How long a running turn may go on when the candidate is to leave, so that it ends by
    /// itself. The [handler](Handler::grace) says so unless it is set, 1 s for most; zero stops it at once. Its lease is
    /// renewed meanwhile; when that fails, the turn ends with its validity, however much grace is left.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// Runs turns on this runtime, so that a handler that computes for long holds up nothing on the one that this runs on.
    /// It is the same one unless it is set. It must outlast the turns, and somebody must drive it.
    #[must_use]
    pub fn run_turns_on(mut self, runtime: Handle) -> Self {
        self.turn_runtime = Some(runtime);
        self
    }

    /// Does not contend until `ready` is true for the first time, whatever is ordered. When its sender is dropped before,
    /// that never comes.
    #[must_use]
    pub fn when_ready(mut self, ready: watch::Receiver<bool>) -> Self {
        self.ready = ready;
        self
    }

    /// Makes a follower poll soon after each notification of `hints`: the leader may have changed. A leader reads its
    /// orders. Many notifications cause few requests.
    #[must_use]
    pub fn with_hints(mut self, hints: Arc<Notify>) -> Self {
        self.hints = hints;
        self
    }

    /// Drops this clone of `kept` when [`run`](Runner::run) has returned, the runner was dropped and nothing of its turns runs
    /// any more: a handler that did not stop in time may run for longer. Whoever sees then that no clone is left may
    /// contend for the same election again in this process. When the future of `run` is dropped, nobody waits for turns.
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

    /// Calls `events` with each [`Event`], at once and in order, before the functions that were given earlier. It must
    /// neither block nor panic: it is called in the loop that renews the lease and ends the work in time.
    #[must_use]
    pub fn on_event(mut self, events: impl Fn(Event) + Send + Sync + 'static) -> Self {
        let previous = self.events;
        self.events = Arc::new(move |event: Event| {
            events(event.clone());
            previous(event);
        });
        self
    }

    /// Calls `reports` with each report and the instant that its durations are counted from, before the functions that
    /// were given earlier and the events that follow from it. It must neither block nor panic.
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

    /// Contends until `leave` completes; then begins no new turn, lets the running one end within
    /// its [`grace`](Runner::grace) or stops it, releases the lease and returns.
    ///
    /// From the end of the turn on that takes 10 s at most, and as long as its steps wait for those of very many other
    /// elections of the process: a lease that could not be released runs out by itself. If the handler does not stop
    /// within 10 s, its lease is not released but expires. Dropping the returned future ends the work too, but leaves the
    /// lease to run out.
    ///
    /// So give it a signal as `leave`, and do not race it against one in `select!`.
    ///
    /// Beside a handler that computes for long without an `.await`, the runtime needs a second
    /// worker thread, or turns one [of their own](Runner::turns_on).
    ///
    /// [`Election::check`](crate::election::Election::check) judges the settings: call it first. With
    /// wrong ones this contends for nothing, and tells a problem each second.
    ///
    /// # Panics
    ///
    /// Outside a runtime of tokio, or in one without its drivers for I/O and time.
    pub async fn run(&mut self, shutdown: impl Future<Output = ()>) {
        self.run_with(shutdown, &mut mpsc::channel(1).1).await;
    }

    /// The same, and obeys orders as they come.
    pub async fn run_with(
        &mut self,
        shutdown: impl Future<Output = ()>,
        orders: &mut mpsc::Receiver<Order>,
    ) {
        let span = trace::candidate_span(self.elector.names());
        // One at a time: a second one would share the elector.
        let this = &*self;
        // An argument has its place beside that of what it becomes: both of these are pointers.
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
        // A request beside the steps.
        let mut background: Option<BoxFuture<'_, Result<Response, Failure>>> = None;
        // One that was told so before it began contends for nothing.
        if poll_fn(|context| Poll::Ready(shutdown.as_mut().poll(context).is_ready())).await {
            candidate.leave();
        }
        loop {
            // Before anything else, whatever woke the loop.
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

    /// A step, and the limit that only a broken component meets.
    fn step(&self, state: Option<State>, input: Option<Word>) -> Step<'_> {
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
                // A machine that slept leaves the step no time to end.
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

/// A step in flight. It is driven to its end whatever happens: it may have sent a release.
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

/// Completes when nothing of the turn runs any more; never, when there is none.
async fn wait_until_stopped(turn: &mut Option<RunningTurn>) -> TurnEnd {
    match turn {
        Some(turn) => turn.wait_until_stopped().await,
        None => std::future::pending().await,
    }
}
