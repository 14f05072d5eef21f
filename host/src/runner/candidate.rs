//! State of the runner's candidate, and its reactions to events.

use super::Order;
use super::event::{Event, ProblemKind};
use super::event_emitter::EventEmitter;
use super::turn::{RunningTurn, STOP_WARNING_DELAY};
use super::{Elector, ElectorError, Runner, STEP_LIMIT, Step};
use crate::handler::TurnEnd;
use crate::status::{ServiceTime, TurnSummary, wall_clock};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenure_clock::Clock;
use tenure_core::{
    BackgroundReply, Event as StepInput, Failure, Outcome, ProblemClass, Report, Request, Response,
    Role, State, Turn, TurnResult, Turns,
};
use tokio::runtime::Handle;

/// True once a difference of the clock was reported. All candidates of a process share this,
/// because they have the same clock.
static CLOCK_IS_REPORTED: AtomicBool = AtomicBool::new(false);

/// Pause after a failed step.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Time limit for releasing the lease when the candidate leaves and no work runs, and for the work
/// to stop before that. After this limit, the lease is left to expire.
///
/// Time that its steps spend in the queue does not count. If thousands of candidates leave at once,
/// the last ones wait long in the queue.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);

/// A candidate between two events.
pub(super) struct Candidate<'a, E, C> {
    pub(super) runner: &'a Runner<E, C>,
    state: Option<State>,
    /// Result of the ended turn. The next step takes it before all other inputs.
    turn_result: Option<TurnResult>,
    /// Other inputs, one for each step.
    queued_inputs: VecDeque<StepInput>,
    /// True if a hint is to be sent to the elector: the leader may have changed, or the orders of a
    /// leader. It is sent after all other inputs, once for any number of hints.
    has_hint: bool,
    /// False after an order not to contend.
    may_contend: bool,
    /// True if this process can work.
    is_ready: bool,
    pub(super) turn: Option<RunningTurn>,
    /// Turns of the election according to the last report of the record.
    turns: Option<Turns>,
    /// Instant at which the next step is due.
    next_step_at: Duration,
    /// Instant at which the running step was requested.
    pub(super) step_sent_at: Option<Duration>,
    /// Time that steps spent in the queue since the candidate began to leave.
    queue_time: Duration,
    /// Instant of the request to leave, or of the end of the last turn if that was later.
    leaving_since: Option<Duration>,
    /// True if the elector was asked to leave.
    pub(super) leave_sent: bool,
    has_left: bool,
    emitter: EventEmitter,
    service_time: ServiceTime,
}

impl<'a, E: Elector, C: Clock> Candidate<'a, E, C> {
    pub(super) fn new(runner: &'a Runner<E, C>) -> Self {
        let is_ready = runner.is_ready();
        Self {
            runner,
            state: None,
            turn_result: None,
            // Sent with the first step, so that the candidate does not contend until it is ready.
            queued_inputs: (!is_ready).then_some(StepInput::Ready(false)).into_iter().collect(),
            has_hint: false,
            may_contend: true,
            is_ready,
            turn: None,
            turns: None,
            next_step_at: runner.clock.now(),
            step_sent_at: None,
            queue_time: Duration::ZERO,
            leaving_since: None,
            leave_sent: false,
            has_left: false,
            emitter: EventEmitter::default(),
            service_time: ServiceTime::default(),
        }
    }

    fn now(&self) -> Duration {
        self.runner.clock.now()
    }

    fn emit(&self, event: Event) {
        (self.runner.events)(event);
    }

    /// Stops a turn that is out of time, and reports a turn that does not stop.
    pub(super) fn enforce(&mut self) {
        let now = self.now();
        let Some(turn) = &mut self.turn else { return };
        turn.enforce_deadline(now);
        if turn.take_stop_warning(now) {
            self.emit_work_problem(format!(
                "the handler was asked to stop {STOP_WARNING_DELAY:?} ago and is still running; until it stops, the lease is \
                 not released, and this process wins no new term. A handler that computes or blocks for long must \
                 check now and then whether its deadline has passed"
            ));
        }
    }

    fn emit_work_problem(&self, detail: String) {
        self.emit(Event::Problem { class: ProblemKind::Election(ProblemClass::Work), detail });
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving_since.is_some()
    }

    pub(super) fn is_done(&self) -> bool {
        if self.has_left {
            return true;
        }
        if self.give_up_at().is_none_or(|at| self.now() < at) {
            return false;
        }
        match self.turn {
            Some(_) => self.emit_work_problem(format!(
                "the handler did not stop within {LEAVE_LIMIT:?}, so the lease is not released, but expires"
            )),
            None => self.emit(Event::Problem {
                class: ProblemKind::Election(ProblemClass::Unreachable),
                detail: format!(
                    "this candidate could not leave the election in {LEAVE_LIMIT:?}, because the account did not answer; if \
                     it holds the lease, the lease expires"
                ),
            }),
        }
        true
    }

    /// Returns the instant at which the candidate leaves without a release.
    fn give_up_at(&self) -> Option<Duration> {
        let leaving_since = self.leaving_since?;
        let since = match &self.turn {
            Some(turn) => turn.stop_ordered_at()?.max(leaving_since),
            None => leaving_since + self.queue_time(),
        };
        Some(since + LEAVE_LIMIT)
    }

    /// Returns the time that steps spent in the queue since the candidate began to leave, including
    /// the running step.
    fn queue_time(&self) -> Duration {
        let (Some(leaving_since), Some(step_sent_at)) = (self.leaving_since, self.step_sent_at)
        else {
            return self.queue_time;
        };
        let queue_time = self.runner.elector.queue_time();
        let started_at = queue_time.map_or_else(|| self.now(), |waited| step_sent_at + waited);
        self.queue_time + started_at.saturating_sub(step_sent_at.max(leaving_since))
    }

    /// Returns the next step if one is due.
    pub(super) fn next_step(&mut self) -> Option<Step<'a>> {
        // This is a new candidate after a failure. It must not win while the turn of the failed one
        // may still run.
        if self.state.is_none() && self.turn.is_some() {
            return None;
        }
        let is_due = self.now() >= self.next_step_at;
        if self.leaving_since.is_some() && self.turn.is_none() {
            if self.leave_sent {
                // The release may wait for a token that a background request fetches.
                if let Some(answer) = self.queued_inputs.pop_front() {
                    return Some(self.runner.step(self.state.clone(), Some(answer)));
                }
                if !is_due {
                    return None;
                }
            }
            self.leave_sent = true;
            // Carries the end of the turn, because a separate step for that would claim another
            // turn.
            let turn_result = self.turn_result.take();
            return Some(self.runner.step(self.state.clone(), Some(StepInput::Leave(turn_result))));
        }
        // A candidate without state gets its inputs only when its first step is due.
        let may_send = is_due || self.state.is_some();
        let input = match self.turn_result.take().map(StepInput::TurnEnded) {
            None if may_send => {
                let hint = || std::mem::take(&mut self.has_hint).then_some(StepInput::Hint);
                self.queued_inputs.pop_front().or_else(hint)
            }
            input => input,
        };
        (is_due || input.is_some()).then(|| self.runner.step(self.state.clone(), input))
    }

    /// Returns the instant at which the loop must wake up without other events.
    pub(super) fn wake_at(&self, stepping: bool) -> Duration {
        let turn = self.turn.as_ref().and_then(RunningTurn::wake_at);
        let must_wait = stepping || (self.state.is_none() && self.turn.is_some());
        let step = (!must_wait).then_some(self.next_step_at);
        // Before a step is first polled, the elector still returns the queue time of the previous
        // step. That may have been long, so the wait is bounded.
        let end = self.give_up_at().map(|at| at.min(self.now() + LEAVE_LIMIT));
        [turn, step, end].into_iter().flatten().min().unwrap_or_else(|| self.now() + STEP_LIMIT)
    }

    pub(super) fn leave(&mut self) {
        let now = self.now();
        // Emitted before anything is released.
        self.emit(Event::Leaving { grace: self.runner.grace_period() });
        self.leaving_since = Some(now);
        // Replies to background requests remain useful.
        self.queued_inputs.retain(|input| matches!(input, StepInput::BackgroundReply(_)));
        if let Some(turn) = &mut self.turn {
            turn.set_grace(now.saturating_add(self.runner.grace_period()));
        }
        self.enforce();
    }

    /// Queues an order as the input of a step.
    pub(super) fn on_order(&mut self, order: Order) {
        if self.leaving_since.is_some() {
            return;
        }
        self.emit(Event::Ordered { order: order.to_string() });
        self.queued_inputs.push_back(match order {
            Order::Resign => StepInput::Resign,
            Order::HandOver(to) => StepInput::HandOver(to),
            Order::Ready(is_ready) => {
                self.may_contend = is_ready;
                StepInput::Ready(self.is_contending())
            }
        });
    }

    pub(super) fn on_hint(&mut self) {
        self.has_hint = true;
    }

    /// Returns true if the candidate waits for its process to become ready.
    pub(super) fn awaits_ready(&self) -> bool {
        !self.is_ready && self.leaving_since.is_none()
    }

    /// Records that the process can work from now on.
    pub(super) fn on_ready(&mut self) {
        self.is_ready = true;
        self.queued_inputs.push_back(StepInput::Ready(self.is_contending()));
        let detail = match self.is_contending() {
            true => "ready, so this candidate now contends",
            false => "ready, but ordered not to contend",
        };
        self.emit(Event::Note { detail: detail.to_owned() });
    }

    /// Returns true if the candidate may contend. An elector without state assumes true.
    fn is_contending(&self) -> bool {
        self.may_contend && self.is_ready
    }

    /// Prepares to give up leadership after the running turn, at the latest at `limit` if it is
    /// handed over.
    fn wind_down(&mut self, limit: Option<Duration>) {
        let end = self.now().saturating_add(self.runner.grace_period());
        if let Some(turn) = &mut self.turn {
            let end = turn.grace().unwrap_or(end);
            turn.set_grace(limit.map_or(end, |limit| end.min(limit)));
        }
        self.enforce();
    }

    /// Stops the turn, because leadership is over.
    fn stop_turn(&mut self) {
        let now = self.now();
        if let Some(turn) = &mut self.turn {
            turn.stop(now, TurnEnd::CutOff);
        }
    }

    pub(super) fn on_turn_ended(&mut self, end: TurnEnd) {
        let Some(turn) = self.turn.take() else { return };
        let (now, end) = (self.now(), turn.final_end(end));
        if self.leaving_since.is_some() {
            (self.leaving_since, self.queue_time) = (Some(now), Duration::ZERO);
        }
        let elapsed = now.saturating_sub(turn.started);
        let reason = end.detail().map(str::to_owned);
        let result = TurnResult { outcome: end.outcome(), reason };
        let other_turns = self.other_turns();
        self.emit(Event::TurnEnded { turn: turn.turn.clone(), end, elapsed, other_turns });
        // Without state, the turn belonged to an earlier candidate.
        if self.state.is_some() {
            self.turn_result = Some(result);
        }
    }

    /// Compares this machine's clock with the service's time in a report that was taken `age` ago.
    fn compare_clocks(&mut self, report: &Report, age: Duration, events: &dyn Fn(Event)) {
        self.service_time.update(report, age);
        if let Some(difference) = &self.service_time.difference
            && !CLOCK_IS_REPORTED.swap(true, Ordering::Relaxed)
        {
            let class = ProblemKind::Election(ProblemClass::Clock);
            events(Event::Problem { class, detail: difference.to_string() });
        }
    }

    /// Returns a summary of the other turns when one ends.
    fn other_turns(&self) -> Box<TurnSummary> {
        let turns = self.turns.as_ref();
        let summary = turns.map(|turns| TurnSummary::new(self.service_time.now(), turns));
        Box::new(TurnSummary { last_turn: None, ..summary.unwrap_or_default() })
    }

    /// Takes the reply to a background request.
    pub(super) fn on_background_reply(&mut self, reply: Result<Response, Failure>) {
        // A candidate without state did not send the request.
        if self.state.is_some() {
            self.queued_inputs.push_front(StepInput::BackgroundReply(BackgroundReply {
                result: reply,
                received_at: wall_clock(),
            }));
        }
    }

    /// Takes the result of a step and applies it. Returns the background request to send.
    pub(super) fn on_step_result(
        &mut self,
        taken_at: Duration,
        result: Result<Report, ElectorError>,
    ) -> Option<Request> {
        let events = self.runner.events.clone();
        self.queue_time = self.queue_time();
        self.step_sent_at = None;
        if let Some(late) = self.runner.elector.lateness() {
            let cause = format!("a step of this leader began {late:.1?} late");
            self.emit(Event::overload(&cause));
        }
        let report = match result {
            Ok(report) => report,
            Err(error) => {
                self.emit(Event::component_problem(error.to_string()));
                self.emitter.end_leadership(&*events);
                self.stop_turn();
                self.state = None;
                self.turn_result = None;
                self.queued_inputs.clear();
                let must_wait = !self.is_contending() && self.leaving_since.is_none();
                self.queued_inputs.extend(must_wait.then_some(StepInput::Ready(false)));
                self.next_step_at = self.now() + RETRY_DELAY;
                return None;
            }
        };
        if report.ending.is_some() {
            self.stop_turn();
        }
        if report.wind_down {
            let limit = report.wind_down_limit.map(|limit| taken_at.saturating_add(limit));
            self.wind_down(limit);
        } else if let (None, Some(turn)) = (self.leaving_since, &mut self.turn) {
            // No successor took over, so the turn continues as long as its candidate leads.
            turn.clear_grace();
        }
        (self.runner.reports)(&report, taken_at);
        let age = self.now().saturating_sub(taken_at);
        self.turns = report.turns.clone().or(self.turns.take());
        self.compare_clocks(&report, age, &*events);
        let now = self.service_time.now();
        self.emitter.emit(&report, self.turns.as_ref(), now, age, &*events);
        self.state = Some(report.state);
        self.next_step_at = taken_at.saturating_add(report.again_in);
        self.has_left = report.role == Role::Left;
        if let Some(turn) = report.run {
            self.start_turn(turn, taken_at);
        }
        if let (Role::Leading(leadership), Some(turn)) = (&report.role, &mut self.turn)
            && turn.turn.term == leadership.term
        {
            turn.extend(taken_at + leadership.valid_for);
        }
        if report.background.is_some() {
            // The election has abandoned its previous request. The reply to that one would be taken
            // for the reply to the new request.
            self.queued_inputs.retain(|input| !matches!(input, StepInput::BackgroundReply(_)));
        }
        report.background
    }

    fn start_turn(&mut self, turn: Turn, taken_at: Duration) {
        if self.turn.is_some() {
            self.emit(Event::component_problem("a turn was ordered while another one runs"));
            return;
        }
        let now = self.now();
        let valid_until = taken_at + turn.valid_for;
        if self.leaving_since.is_some() || valid_until <= now {
            // The turn was claimed but will not run. It must not delay others and does not count as
            // an attempt.
            let (end, elapsed, other_turns) = (TurnEnd::CutOff, Duration::ZERO, self.other_turns());
            self.emit(Event::TurnEnded { turn, end, elapsed, other_turns });
            let result = TurnResult { outcome: Outcome::NotStarted, reason: None };
            self.turn_result = Some(result);
            return;
        }
        self.emit(Event::TurnStarted { turn: turn.clone() });
        let (handler, clock) = (self.runner.handler.clone(), self.runner.clock.handle());
        let runtime = self.runner.turn_runtime.clone().unwrap_or_else(Handle::current);
        self.turn = Some(RunningTurn::start(&runtime, handler, turn, valid_until, clock));
    }
}
