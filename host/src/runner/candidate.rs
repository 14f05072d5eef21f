//! What the loop knows of its candidate, and what follows from that.

use super::event::Event;
use super::narrator::Narrator;
use super::turn::RunningTurn;
use super::{Elector, Runner, STEP_LIMIT, Step};
use crate::Deadline;
use crate::clock::Clock;
use crate::component::ComponentError;
use crate::contract::{Event as Word, Memory, Outcome, Report, Standing, Turn};
use crate::handler::TurnEnd;
use std::time::Duration;

/// The pause after a component failed.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// How long a candidate tries to leave in good order. Then its lease runs out by itself.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);

/// A candidate between two events.
pub(super) struct Candidate<'a, E, C> {
    pub(super) runner: &'a Runner<E, C>,
    memory: Option<Memory>,
    /// To be told to the elector in the next step.
    word: Option<Word>,
    pub(super) turn: Option<RunningTurn>,
    /// When the next step is due.
    next: Duration,
    /// Since when it is leaving.
    leaving: Option<Duration>,
    /// Whether the elector has been told so.
    pub(super) said_goodbye: bool,
    left: bool,
    narrator: Narrator,
}

impl<'a, E: Elector, C: Clock> Candidate<'a, E, C> {
    pub(super) fn new(runner: &'a Runner<E, C>) -> Self {
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
    pub(super) fn enforce(&mut self) {
        let now = self.now();
        if let Some(turn) = &mut self.turn
            && turn.deadline().is_some_and(|deadline| deadline <= now)
        {
            turn.stop();
        }
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    pub(super) fn is_done(&self) -> bool {
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
    pub(super) fn next_step(&mut self) -> Option<Step<'a>> {
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
            return leave.then(|| self.runner.step(self.memory.clone(), Some(Word::Leave(None))));
        }
        let word = self.word.take();
        (due || word.is_some()).then(|| self.runner.step(self.memory.clone(), word))
    }

    /// When the loop must wake up even if nothing happens.
    pub(super) fn wake_at(&self, stepping: bool) -> Duration {
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

    pub(super) fn leave(&mut self) {
        self.leaving = Some(self.now());
        self.stop_turn();
    }

    fn stop_turn(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.stop();
        }
    }

    pub(super) fn turn_ended(&mut self, end: TurnEnd) {
        let Some(turn) = self.turn.take() else { return };
        let elapsed = self.now().saturating_sub(turn.started);
        self.tell(Event::turn_ended(&turn.turn, &end, elapsed));
        // Without memory it was the turn of an earlier candidate.
        if self.memory.is_some() {
            self.word = Some(Word::TurnEnded(end.outcome()));
        }
    }

    pub(super) fn stepped(&mut self, taken_at: Duration, result: Result<Report, ComponentError>) {
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
        self.narrator.tell(&report, self.now().saturating_sub(taken_at), &*events);
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
