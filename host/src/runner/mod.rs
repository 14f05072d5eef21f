//! The loop that hosts a candidate: step, turn, stop.
//!
//! The elector decides, the runner waits and obeys. Its one own duty is the deadline: the work of
//! the leader ends at the instant that the last good renewal allows, whatever else is going on.

mod elector;
mod event;
mod narrator;
#[cfg(test)]
mod tests;
mod turn;

pub use elector::Elector;
pub use event::{Event, class_name, rfc3339};

use crate::Deadline;
use crate::clock::Clock;
use crate::component::ComponentError;
use crate::contract::{Event as Word, Memory, Outcome, Report, Standing, Turn};
use crate::handler::{BoxFuture, Handler, TurnEnd};
use narrator::Narrator;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::select;
use turn::RunningTurn;

/// The longest that a step may take: far more than its requests may.
const STEP_LIMIT: Duration = Duration::from_secs(120);

/// The pause after a component failed.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// How long a candidate tries to leave in good order. Then its lease runs out by itself.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);

/// A candidate: an elector, the handler that it elects, and the clock that both obey.
pub struct Runner<E, C> {
    elector: E,
    handler: Arc<dyn Handler>,
    clock: C,
    events: Arc<dyn Fn(Event) + Send + Sync>,
}

impl<E: Elector, C: Clock> Runner<E, C> {
    /// A candidate that tells nobody what happens.
    pub fn new(elector: E, handler: impl Handler, clock: C) -> Self {
        Self { elector, handler: Arc::new(handler), clock, events: Arc::new(|_| {}) }
    }

    /// Calls `events` with each [`Event`], at once and in order. It must not block.
    #[must_use]
    pub fn on_event(mut self, events: impl Fn(Event) + Send + Sync + 'static) -> Self {
        self.events = Arc::new(events);
        self
    }

    /// Contends until `leave` completes; then stops the work, releases the lease and returns.
    ///
    /// That takes 10 s at most: a lease that could not be released runs out by itself. Dropping
    /// the returned future ends the work too, but leaves the lease to run out.
    pub async fn run(&self, leave: impl Future<Output = ()>) {
        let mut leave = pin!(leave);
        let mut candidate = Candidate::new(self);
        let mut step: Option<Step<'_>> = None;
        loop {
            // Before anything else, whatever woke the loop.
            candidate.enforce();
            if candidate.is_done() {
                break;
            }
            if step.is_none() {
                step = candidate.next_step();
            }
            let wake = candidate.wake_at(step.is_some());
            let happened = select! {
                biased;
                () = &mut leave, if candidate.leaving.is_none() => Happened::Leave,
                end = seen_stopped(&mut candidate.turn) => Happened::TurnEnded(end),
                result = finished(&mut step) => Happened::Stepped(result),
                () = self.clock.sleep_until(wake) => continue,
            };
            candidate.enforce();
            match happened {
                Happened::Leave => candidate.leave(),
                Happened::TurnEnded(end) => candidate.turn_ended(end),
                Happened::Stepped(result) => {
                    let taken_at =
                        step.take().map_or_else(|| self.clock.now(), |step| step.taken_at);
                    candidate.stepped(taken_at, result);
                }
            }
        }
        drop(candidate);
        (self.events)(Event::Stopped);
    }

    /// A step, and the limit that only a broken component meets.
    fn step(&self, memory: Option<Memory>, word: Option<Word>) -> Step<'_> {
        let taken_at = self.clock.now();
        let future = async move {
            select! {
                biased;
                result = self.elector.step(memory, taken_at, word) => result,
                () = self.clock.sleep_until(taken_at + STEP_LIMIT) => {
                    Err(ComponentError::new(format!("a step took more than {STEP_LIMIT:?}")))
                }
            }
        };
        Step { taken_at, future: Box::pin(future) }
    }
}

/// A step in flight. It is driven to its end whatever happens: it may have sent a release.
struct Step<'a> {
    taken_at: Duration,
    future: BoxFuture<'a, Result<Report, ComponentError>>,
}

enum Happened {
    Leave,
    TurnEnded(TurnEnd),
    Stepped(Result<Report, ComponentError>),
}

async fn finished(step: &mut Option<Step<'_>>) -> Result<Report, ComponentError> {
    match step {
        Some(step) => (&mut step.future).await,
        None => std::future::pending().await,
    }
}

async fn seen_stopped(turn: &mut Option<RunningTurn>) -> TurnEnd {
    match turn {
        Some(turn) => turn.seen_stopped().await,
        None => std::future::pending().await,
    }
}

/// What the loop knows of its candidate.
struct Candidate<'a, E, C> {
    runner: &'a Runner<E, C>,
    memory: Option<Memory>,
    /// To be told to the elector in the next step.
    word: Option<Word>,
    turn: Option<RunningTurn>,
    /// When the next step is due.
    next: Duration,
    /// Since when it is leaving.
    leaving: Option<Duration>,
    /// Whether the elector has been told so.
    said_goodbye: bool,
    left: bool,
    narrator: Narrator,
}

impl<'a, E: Elector, C: Clock> Candidate<'a, E, C> {
    fn new(runner: &'a Runner<E, C>) -> Self {
        Self {
            runner,
            memory: None,
            word: None,
            turn: None,
            next: runner.clock.now(),
            leaving: None,
            said_goodbye: false,
            left: false,
            narrator: Narrator::default(),
        }
    }

    fn now(&self) -> Duration {
        self.runner.clock.now()
    }

    fn tell(&self, event: Event) {
        (self.runner.events)(event);
    }

    /// Stops a turn whose time is over.
    fn enforce(&mut self) {
        let now = self.now();
        if let Some(turn) = &mut self.turn
            && turn.deadline().is_some_and(|deadline| deadline <= now)
        {
            turn.stop();
        }
    }

    fn is_done(&self) -> bool {
        if self.left {
            return true;
        }
        let late = self.leaving.is_some_and(|since| self.now() >= since + LEAVE_LIMIT);
        if late {
            self.tell(Event::component_trouble(format!(
                "the election could not be left within {LEAVE_LIMIT:?}; the lease, if it is held, \
                 runs out by itself"
            )));
        }
        late
    }

    /// The step that is due, if one is.
    fn next_step(&mut self) -> Option<Step<'a>> {
        // A new candidate, made by the failure of the last one: it must not win anything while
        // the turn of the last one may still run.
        if self.memory.is_none() && self.turn.is_some() {
            return None;
        }
        let due = self.now() >= self.next;
        if self.leaving.is_some() && self.turn.is_none() {
            // Says too that the turn is over; a word of its own would have another turn claimed.
            let leave = due || !self.said_goodbye;
            self.said_goodbye = true;
            return leave.then(|| self.runner.step(self.memory.clone(), Some(Word::Leave)));
        }
        let word = self.word.take();
        (due || word.is_some()).then(|| self.runner.step(self.memory.clone(), word))
    }

    /// When the loop must wake up even if nothing happens.
    fn wake_at(&self, stepping: bool) -> Duration {
        let deadline = self.turn.as_ref().and_then(RunningTurn::deadline);
        let waits = stepping || (self.memory.is_none() && self.turn.is_some());
        let step = (!waits).then_some(self.next);
        let give_up = self.leaving.map(|since| since + LEAVE_LIMIT);
        [deadline, step, give_up]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or_else(|| self.now() + STEP_LIMIT)
    }

    fn leave(&mut self) {
        self.leaving = Some(self.now());
        self.stop_turn();
    }

    fn stop_turn(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.stop();
        }
    }

    fn turn_ended(&mut self, end: TurnEnd) {
        let Some(turn) = self.turn.take() else { return };
        let elapsed = self.now().saturating_sub(turn.started);
        self.tell(Event::turn_ended(&turn.turn, &end, elapsed));
        // Without memory it was the turn of an earlier candidate.
        if self.memory.is_some() {
            self.word = Some(Word::TurnEnded(end.outcome()));
        }
    }

    fn stepped(&mut self, taken_at: Duration, result: Result<Report, ComponentError>) {
        let events = self.runner.events.clone();
        let report = match result {
            Ok(report) => report,
            Err(error) => {
                self.tell(Event::component_trouble(error.to_string()));
                self.narrator.forget(&*events);
                self.stop_turn();
                self.memory = None;
                self.word = None;
                self.next = self.now() + AFTER_FAILURE;
                return;
            }
        };
        if report.ending.is_some() {
            self.stop_turn();
        }
        self.narrator.tell(&report, &*events);
        self.memory = Some(report.memory);
        self.next = taken_at + report.again_in;
        self.left = report.standing == Standing::Left;
        if let Some(turn) = report.run {
            self.start(turn, taken_at);
        }
        if let (Standing::Leading(tenancy), Some(turn)) = (&report.standing, &self.turn)
            && turn.turn.term == tenancy.term
        {
            turn.extend(taken_at + Duration::from_nanos(tenancy.valid_for));
        }
    }

    fn start(&mut self, turn: Turn, taken_at: Duration) {
        if self.turn.is_some() {
            self.tell(Event::component_trouble("a turn was ordered while another one runs"));
            return;
        }
        let now = self.now();
        let until = taken_at + Duration::from_nanos(turn.valid_for);
        if self.leaving.is_some() || until <= now {
            // Claimed, but it will not run: nobody else may wait for it.
            self.tell(Event::turn_ended(&turn, &TurnEnd::CutOff, Duration::ZERO));
            self.word = Some(Word::TurnEnded(Outcome::CutOff));
            return;
        }
        self.tell(Event::turn_started(&turn));
        let lease = Deadline::new(self.runner.clock.reading(), until);
        let handler = self.runner.handler.clone();
        self.turn = Some(RunningTurn::start(handler, turn, lease, now));
    }
}
