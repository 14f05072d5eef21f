//! What the loop knows of its candidate, and what follows from that.

use super::event::{Class, Event};
use super::narrator::Narrator;
use super::order::Order;
use super::turn::{RunningTurn, STUBBORN};
use super::{Elector, ElectorError, Runner, STEP_LIMIT, Step};
use crate::handler::TurnEnd;
use crate::status::{Outlook, ServiceTime, wall};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenure_clock::Clock;
use tenure_core::{
    Event as Word, Failure, Outcome, ProblemClass, Report, Request, Response, Role, State, Told,
    Turn, TurnResult, Turns,
};
use tokio::runtime::Handle;

/// All candidates of a process have the same clock.
static CLOCK_IS_REPORTED: AtomicBool = AtomicBool::new(false);

/// The pause after a step failed.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// How long a candidate without work tries to leave in good order, and how long it waits for work
/// that was ordered to stop. Then its lease runs out by itself. What its steps wait for those of others does not count:
/// of thousands that leave at a time, the last ones wait for long.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);

/// A candidate between two events.
pub(super) struct Candidate<'a, E, C> {
    pub(super) runner: &'a Runner<E, C>,
    state: Option<State>,
    /// To be told to the elector in the next step.
    word: Option<Word>,
    /// To be told after that, one in each step.
    orders: VecDeque<Word>,
    /// Somebody said that the leader may have changed. Told last of all, once however often it was said.
    hinted: bool,
    /// False: it was ordered not to contend.
    may_contend: bool,
    /// True if its process can work.
    ready: bool,
    pub(super) turn: Option<RunningTurn>,
    /// How turns go by the record, as it was told last.
    turns: Option<Turns>,
    /// When the next step is due.
    next: Duration,
    /// When the step in flight was asked for.
    pub(super) asked: Option<Duration>,
    /// How long steps waited for those of others since it is leaving.
    queued: Duration,
    /// Since when it is leaving: it was asked to, or its last turn is over.
    leaving: Option<Duration>,
    /// Whether the elector has been told so.
    pub(super) said_goodbye: bool,
    left: bool,
    narrator: Narrator,
    service_time: ServiceTime,
}

impl<'a, E: Elector, C: Clock> Candidate<'a, E, C> {
    pub(super) fn new(runner: &'a Runner<E, C>) -> Self {
        let ready = runner.is_ready();
        Self {
            runner,
            state: None,
            word: None,
            // With the first step, so that it does not contend meanwhile.
            orders: (!ready).then_some(Word::Ready(false)).into_iter().collect(),
            hinted: false,
            may_contend: true,
            ready,
            turn: None,
            turns: None,
            next: runner.clock.now(),
            asked: None,
            queued: Duration::ZERO,
            leaving: None,
            said_goodbye: false,
            left: false,
            narrator: Narrator::default(),
            service_time: ServiceTime::default(),
        }
    }

    fn now(&self) -> Duration {
        self.runner.clock.now()
    }

    fn tell(&self, event: Event) {
        (self.runner.events)(event);
    }

    /// Stops a turn whose time is over, and tells of one that does not stop.
    pub(super) fn enforce(&mut self) {
        let now = self.now();
        let Some(turn) = &mut self.turn else { return };
        turn.enforce(now);
        if turn.is_stubborn(now) {
            self.tell_work(format!(
                "the handler was told to stop {STUBBORN:?} ago and is still running; until it stops, the lease is \
                 not released, and this process wins no new term. A handler that computes or blocks for long must \
                 check now and then whether its deadline has passed"
            ));
        }
    }

    fn tell_work(&self, detail: String) {
        self.tell(Event::Problem { class: Class::Election(ProblemClass::Work), detail });
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    pub(super) fn is_done(&self) -> bool {
        if self.left {
            return true;
        }
        if self.give_up_at().is_none_or(|at| self.now() < at) {
            return false;
        }
        match self.turn {
            Some(_) => self.tell_work(format!(
                "the handler did not stop within {LEAVE_LIMIT:?}, so the lease is not released, but expires"
            )),
            None => self.tell(Event::Problem {
                class: Class::Election(ProblemClass::Unreachable),
                detail: format!(
                    "the election could not be left within {LEAVE_LIMIT:?}, since the storage account did not answer; if \
                     this candidate holds the lease, that expires"
                ),
            }),
        }
        true
    }

    /// When to leave without a release.
    fn give_up_at(&self) -> Option<Duration> {
        let leaving = self.leaving?;
        let since = match &self.turn {
            Some(turn) => turn.ordered_at()?.max(leaving),
            None => leaving + self.queued(),
        };
        Some(since + LEAVE_LIMIT)
    }

    /// How long steps have waited for those of others since it is leaving, the one in flight included.
    fn queued(&self) -> Duration {
        let (Some(leaving), Some(asked)) = (self.leaving, self.asked) else { return self.queued };
        let waited = self.runner.elector.waited();
        let began = waited.map_or_else(|| self.now(), |waited| asked + waited);
        self.queued + began.saturating_sub(asked.max(leaving))
    }

    /// The step that is due, if one is.
    pub(super) fn next_step(&mut self) -> Option<Step<'a>> {
        // A new candidate, made by the failure of the last one: it must not win anything while
        // the turn of the last one may still run.
        if self.state.is_none() && self.turn.is_some() {
            return None;
        }
        let due = self.now() >= self.next;
        if self.leaving.is_some() && self.turn.is_none() {
            if self.said_goodbye {
                // The release may wait for a token that was asked for beside the steps.
                if let Some(answer) = self.orders.pop_front() {
                    return Some(self.runner.step(self.state.clone(), Some(answer)));
                }
                if !due {
                    return None;
                }
            }
            self.said_goodbye = true;
            // Brings the end of the turn; a word of its own would have another turn claimed.
            let result = match self.word.take() {
                Some(Word::TurnEnded(result)) => Some(result),
                _ => None,
            };
            return Some(self.runner.step(self.state.clone(), Some(Word::Leave(result))));
        }
        // One that begins anew, after a failure, is told when it is its time.
        let told = due || self.state.is_some();
        let word = match self.word.take() {
            None if told => {
                let hint = || std::mem::take(&mut self.hinted).then_some(Word::Hint);
                self.orders.pop_front().or_else(hint)
            }
            word => word,
        };
        (due || word.is_some()).then(|| self.runner.step(self.state.clone(), word))
    }

    /// When the loop must wake up even if nothing happens.
    pub(super) fn wake_at(&self, stepping: bool) -> Duration {
        let turn = self.turn.as_ref().and_then(RunningTurn::wake_at);
        let waits = stepping || (self.state.is_none() && self.turn.is_some());
        let step = (!waits).then_some(self.next);
        let told = !waits && !self.orders.is_empty() && self.state.is_some();
        let step = if told { Some(self.now()) } else { step };
        // A step that was not polled yet does not know how long it waits.
        let end = self.give_up_at().map(|at| at.min(self.now() + LEAVE_LIMIT));
        [turn, step, end].into_iter().flatten().min().unwrap_or_else(|| self.now() + STEP_LIMIT)
    }

    pub(super) fn leave(&mut self) {
        let now = self.now();
        // Before anything is given up.
        self.tell(Event::Leaving { grace: self.runner.time_to_end() });
        self.leaving = Some(now);
        // What went out beside the steps stays answered.
        self.orders.retain(|word| matches!(word, Word::Answered(_)));
        if let Some(turn) = &mut self.turn {
            turn.give_grace(now.saturating_add(self.runner.time_to_end()));
        }
        self.enforce();
    }

    /// Takes an order, to be told in a step of its own.
    pub(super) fn ordered(&mut self, order: Order) {
        if self.leaving.is_some() {
            return;
        }
        self.tell(Event::Ordered { order: order.to_string() });
        self.orders.push_back(match order {
            Order::Resign => Word::Resign,
            Order::HandOver(to) => Word::HandOver(to),
            Order::Ready(ready) => {
                self.may_contend = ready;
                Word::Ready(self.contends())
            }
        });
    }

    pub(super) fn hinted(&mut self) {
        self.hinted = true;
    }

    /// Whether it waits for its process.
    pub(super) fn gets_ready(&self) -> bool {
        !self.ready && self.leaving.is_none()
    }

    /// Its process can work from now on.
    pub(super) fn becomes_ready(&mut self) {
        self.ready = true;
        self.orders.push_back(Word::Ready(self.contends()));
        let detail = match self.contends() {
            true => "ready, so this candidate now contends",
            false => "ready, but ordered not to contend",
        };
        self.tell(Event::Note { detail: detail.to_owned() });
    }

    /// Returns true if it may contend. A new elector does not know that.
    fn contends(&self) -> bool {
        self.may_contend && self.ready
    }

    /// The leadership is about to be given up, after the turn that runs; by `limit` if it is handed over.
    fn wind_down(&mut self, limit: Option<Duration>) {
        let end = self.now().saturating_add(self.runner.time_to_end());
        if let Some(turn) = &mut self.turn {
            let end = turn.grace().unwrap_or(end);
            turn.give_grace(limit.map_or(end, |limit| end.min(limit)));
        }
        self.enforce();
    }

    /// The leadership is over.
    fn stop_turn(&mut self) {
        let now = self.now();
        if let Some(turn) = &mut self.turn {
            turn.stop(now, TurnEnd::CutOff);
        }
    }

    pub(super) fn turn_ended(&mut self, end: TurnEnd) {
        let Some(turn) = self.turn.take() else { return };
        let (now, end) = (self.now(), turn.judge(end));
        if self.leaving.is_some() {
            (self.leaving, self.queued) = (Some(now), Duration::ZERO);
        }
        let elapsed = now.saturating_sub(turn.started);
        let reason = end.detail().map(str::to_owned);
        let result = TurnResult { outcome: end.outcome(), reason };
        let before = self.before();
        self.tell(Event::TurnEnded { turn: turn.turn.clone(), end, elapsed, before });
        // Without state it was the turn of an earlier candidate.
        if self.state.is_some() {
            self.word = Some(Word::TurnEnded(result));
        }
    }

    /// Compares this machine's clock with the service's time in a report whose instant was `ago` before now.
    fn compare_clocks(&mut self, report: &Report, ago: Duration, events: &dyn Fn(Event)) {
        self.service_time.update(report, ago);
        if let Some(difference) = &self.service_time.difference
            && !CLOCK_IS_REPORTED.swap(true, Ordering::Relaxed)
        {
            let class = Class::Election(ProblemClass::Clock);
            events(Event::Problem { class, detail: difference.to_string() });
        }
    }

    /// What is known of other turns when one ends.
    fn before(&self) -> Box<Outlook> {
        let turns = self.turns.as_ref();
        let outlook = turns.map(|turns| Outlook::at(self.service_time.now(), turns));
        Box::new(Outlook { last_turn: None, ..outlook.unwrap_or_default() })
    }

    /// Takes the answer to a request that went out beside the steps.
    pub(super) fn answered(&mut self, answer: Result<Response, Failure>) {
        // A candidate that began anew did not ask.
        if self.state.is_some() {
            self.orders.push_front(Word::Answered(Told { reply: answer, at: wall() }));
        }
    }

    /// Takes the result of a step, and obeys it. The request to send beside the next ones.
    pub(super) fn stepped(
        &mut self,
        taken_at: Duration,
        result: Result<Report, ElectorError>,
    ) -> Option<Request> {
        let events = self.runner.events.clone();
        self.queued = self.queued();
        self.asked = None;
        if let Some(late) = self.runner.elector.late() {
            let what =
                format!("a step of this candidate, which has the lease, began {late:.1?} late");
            self.tell(Event::overload(&what));
        }
        let report = match result {
            Ok(report) => report,
            Err(error) => {
                self.tell(Event::component_problem(error.to_string()));
                self.narrator.forget(&*events);
                self.stop_turn();
                self.state = None;
                self.word = None;
                self.orders.clear();
                let waits = !self.contends() && self.leaving.is_none();
                self.orders.extend(waits.then_some(Word::Ready(false)));
                self.next = self.now() + AFTER_FAILURE;
                return None;
            }
        };
        if report.ending.is_some() {
            self.stop_turn();
        }
        if report.wind_down {
            let limit = report.wind_down_limit.map(|limit| taken_at.saturating_add(limit));
            self.wind_down(limit);
        } else if let (None, Some(turn)) = (self.leaving, &mut self.turn) {
            // Nobody came to take over: it goes on as long as it leads.
            turn.take_back_grace();
        }
        (self.runner.reports)(&report, taken_at);
        let ago = self.now().saturating_sub(taken_at);
        self.turns = report.turns.clone().or(self.turns.take());
        self.compare_clocks(&report, ago, &*events);
        let now = self.service_time.now();
        self.narrator.tell(&report, self.turns.as_ref(), now, ago, &*events);
        self.state = Some(report.state);
        self.next = taken_at.saturating_add(report.again_in);
        self.left = report.role == Role::Left;
        if let Some(turn) = report.run {
            self.start(turn, taken_at);
        }
        if let (Role::Leading(leadership), Some(turn)) = (&report.role, &mut self.turn)
            && turn.turn.term == leadership.term
        {
            turn.extend(taken_at + leadership.valid_for);
        }
        if report.background.is_some() {
            // The election has given up the request before: its answer would be taken for this one's.
            self.orders.retain(|word| !matches!(word, Word::Answered(_)));
        }
        report.background
    }

    fn start(&mut self, turn: Turn, taken_at: Duration) {
        if self.turn.is_some() {
            self.tell(Event::component_problem("a turn was ordered while another one runs"));
            return;
        }
        let now = self.now();
        let until = taken_at + turn.valid_for;
        if self.leaving.is_some() || until <= now {
            // Claimed, but it will not run: nobody else may wait for it, and it is no attempt.
            let (end, elapsed, before) = (TurnEnd::CutOff, Duration::ZERO, self.before());
            self.tell(Event::TurnEnded { turn, end, elapsed, before });
            let result = TurnResult { outcome: Outcome::NotStarted, reason: None };
            self.word = Some(Word::TurnEnded(result));
            return;
        }
        self.tell(Event::TurnStarted { turn: turn.clone() });
        let (handler, clock) = (self.runner.handler.clone(), self.runner.clock.reading());
        let runtime = self.runner.turns.clone().unwrap_or_else(Handle::current);
        self.turn = Some(RunningTurn::start(&runtime, handler, turn, until, clock));
    }
}
