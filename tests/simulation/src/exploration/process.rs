//! A candidate's process: as much of the host as it takes to run the core.
//!
//! As the runner does it: the deadline comes before anything else; steps never overlap; a turn is
//! stopped when its leadership ends, and seen stopped at once; whoever leaves gives up after 10 s.

use tenure_azure::Operation;

use super::known::Known;
use super::scope::{Flaw, Scope};
use super::step::{Arrival, Flight, Word};
use super::time::Instant;

/// How long the host tries to leave in good order.
const LEAVE_LIMIT: Instant = 10;

/// No process makes as many moves at one instant without an answer from outside.
const MOST_MOVES: u32 = 32;

/// A process that runs, or would if it were not frozen.
#[derive(Clone, Hash)]
pub struct Process {
    pub candidate: usize,
    pub life: u8,
    pub frozen: bool,
    /// Since when.
    pub leaving: Option<Instant>,
    pub(super) said_goodbye: bool,
    pub state: Option<Known<Vec<u8>>>,
    /// When the next step is due.
    pub(super) next: Instant,
    pub(super) word: Option<Word>,
    /// What an operator ordered, to be told after that.
    pub(super) order: Option<Word>,
    /// By its newest report.
    pub leads: bool,
    /// It has an order to hand over, by its newest report.
    pub hands_over: bool,
    pub turn: Option<Turn>,
    pub flight: Option<Flight>,
    pub(super) drawn: u8,
}

/// A turn that runs.
#[derive(Clone, Copy, Hash)]
pub struct Turn {
    pub term: u64,
    pub slot: u64,
    pub deadline: Instant,
}

/// What happens to a process.
#[derive(Clone, Hash)]
pub enum Push {
    /// It starts, or goes on with what is due.
    GoOn,
    /// Another instant has come.
    Instant,
    Answer(Arrival),
    /// The answer that was late is here.
    Delivered,
    /// Of a request that has timed out, the answer is seen first, or the time-out.
    Torn {
        answer: bool,
    },
    Leave,
    /// An operator has it hand over to the other one.
    HandOver,
    Freeze,
    /// It wakes up and stops what must be stopped.
    Wake,
}

/// What follows.
#[derive(Clone)]
pub enum Moved {
    /// It waits, for time or for somebody else.
    Waits,
    /// It asks the store for something, and waits for the answer.
    Asks(Operation),
    /// It has ended.
    Ended,
}

impl Process {
    pub fn new(candidate: usize, life: u8, now: Instant, state: Option<Known<Vec<u8>>>) -> Self {
        Self {
            candidate,
            life,
            frozen: false,
            leaving: None,
            said_goodbye: false,
            state,
            next: now,
            word: None,
            order: None,
            leads: false,
            hands_over: false,
            turn: None,
            flight: None,
            drawn: 0,
        }
    }

    /// Whether its handler does anything.
    pub fn works(&self) -> bool {
        !self.frozen && self.turn.is_some()
    }

    /// Whether an answer is on its way.
    pub fn is_answered_late(&self) -> bool {
        self.answer().is_some_and(|answer| answer.late)
    }

    fn answer(&self) -> Option<&Arrival> {
        self.flight.as_ref()?.answer.as_ref()
    }

    /// An answer came, but only after the request had timed out: which of the two the
    /// process sees first is open.
    pub fn is_torn(&self, now: Instant) -> bool {
        let out_of_time = self.flight.as_ref().is_some_and(|flight| flight.until <= now);
        !self.frozen && out_of_time && self.answer().is_some_and(|answer| !answer.late)
    }

    /// When something is due, frozen or not.
    pub fn instants(&self) -> impl Iterator<Item = Instant> {
        let step = self.flight.as_ref().map_or(self.next, |flight| flight.until);
        let leave = self.leaving.map(|since| since + LEAVE_LIMIT);
        [Some(step), leave, self.turn.map(|turn| turn.deadline)].into_iter().flatten()
    }

    /// Lets something happen to it; then it does all that is due and touches nobody else.
    pub fn pushed(&mut self, scope: &Scope, now: Instant, push: Push) -> Moved {
        match push {
            Push::GoOn => {}
            Push::Instant => self.drawn = 0,
            Push::Answer(answer) => {
                if let Some(flight) = &mut self.flight {
                    flight.answer = Some(answer);
                }
            }
            Push::Delivered => {
                if let Some(answer) = self.flight.as_mut().and_then(|f| f.answer.as_mut()) {
                    answer.late = false;
                }
            }
            Push::Torn { answer } => {
                let moved = self.answered(scope, now, answer);
                if !matches!(moved, Moved::Waits) {
                    return moved;
                }
            }
            Push::Leave => {
                self.leaving = Some(now);
                self.stop_turn();
            }
            Push::HandOver => self.order = Some(Word::HandOver),
            Push::Freeze => self.frozen = true,
            Push::Wake => {
                self.frozen = false;
                self.enforce(scope, now);
                return Moved::Waits;
            }
        }
        self.settle(scope, now)
    }

    /// Stops a turn whose time is over: the host does it before anything else.
    pub(super) fn enforce(&mut self, scope: &Scope, now: Instant) {
        if scope.flaw != Some(Flaw::NoDeadline)
            && self.turn.is_some_and(|turn| turn.deadline <= now)
        {
            self.stop_turn();
        }
    }

    pub(super) fn stop_turn(&mut self) {
        if self.turn.take().is_some() {
            self.word = Some(Word::CutOff);
        }
    }

    fn settle(&mut self, scope: &Scope, now: Instant) -> Moved {
        for _ in 0..MOST_MOVES {
            if self.frozen || self.is_torn(now) {
                return Moved::Waits;
            }
            self.enforce(scope, now);
            if self.leaving.is_some_and(|since| since + LEAVE_LIMIT <= now) {
                return Moved::Ended;
            }
            let moved = match (&self.flight, self.answer()) {
                (Some(_), Some(answer)) if !answer.late => self.answered(scope, now, true),
                (Some(flight), _) if flight.until <= now => self.answered(scope, now, false),
                (Some(_), _) => return Moved::Waits,
                (None, _) => match self.begin(scope, now) {
                    None => return Moved::Waits,
                    Some((step, history)) => self.go_on(scope, step, (now, history), now),
                },
            };
            if !matches!(moved, Moved::Waits) {
                return moved;
            }
        }
        panic!("{} does not come to rest", scope.name(self.candidate));
    }
}
