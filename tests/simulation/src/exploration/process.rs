//! Process of a candidate: the part of the host that the core needs.
//!
//! It follows the runner: the deadline comes before all other work, and steps never overlap. A turn
//! is stopped when its leadership ends, and stops immediately. A leaving candidate gives up after
//! 10 s.

use tenure_azure::Operation;

use super::hashed::Hashed;
use super::scope::{Flaw, Scope};
use super::step::{Arrival, Flight, StepInput};
use super::time::Instant;

/// Time that the host allows for a graceful leave.
const LEAVE_LIMIT: Instant = 10;

/// Limit of the moves of a process at one instant without external input.
const MAX_MOVES: u32 = 32;

/// A process that runs, or is frozen.
#[derive(Clone, Hash)]
pub struct Process {
    pub candidate: usize,
    pub life: u8,
    pub frozen: bool,
    /// Time of the request to leave.
    pub leaving: Option<Instant>,
    pub(super) leave_sent: bool,
    pub state: Option<Hashed<Vec<u8>>>,
    /// Instant of the next step.
    pub(super) next_step_at: Instant,
    pub(super) pending_input: Option<StepInput>,
    /// Order of an operator, passed to the core after the pending input.
    pub(super) pending_order: Option<StepInput>,
    /// True if it leads by its newest report.
    pub is_leading: bool,
    /// True if its newest report has an order to hand over.
    pub is_handing_over: bool,
    pub turn: Option<Turn>,
    pub in_flight: Option<Flight>,
    pub(super) draw_count: u8,
}

/// A running turn.
#[derive(Clone, Copy, Hash)]
pub struct Turn {
    pub term: u64,
    pub slot: u64,
    pub deadline: Instant,
}

/// Event that a process receives.
#[derive(Clone, Hash)]
pub enum Push {
    /// The process starts, or continues with due work.
    Continue,
    /// A new instant has begun.
    Instant,
    Answer(Arrival),
    /// The late response arrived.
    LateReplyArrived,
    /// A request timed out and a response came: the process sees one of the two first.
    TimeoutRace {
        reply_first: bool,
    },
    Leave,
    /// An operator orders it to hand over to the other candidate.
    HandOver,
    Freeze,
    /// The process resumes and enforces its deadlines.
    Thaw,
}

/// Result of an event.
#[derive(Clone)]
pub enum Progress {
    /// The process waits for time to pass or for another candidate.
    Waiting,
    /// The process sends a request to the store, and waits for the response.
    SendRequest(Operation),
    /// The process has ended.
    Ended,
}

impl Process {
    pub fn new(candidate: usize, life: u8, now: Instant, state: Option<Hashed<Vec<u8>>>) -> Self {
        Self {
            candidate,
            life,
            frozen: false,
            leaving: None,
            leave_sent: false,
            state,
            next_step_at: now,
            pending_input: None,
            pending_order: None,
            is_leading: false,
            is_handing_over: false,
            turn: None,
            in_flight: None,
            draw_count: 0,
        }
    }

    /// Returns true if its handler is working.
    pub fn is_working(&self) -> bool {
        !self.frozen && self.turn.is_some()
    }

    /// Returns true if a late response is in transit.
    pub fn has_late_reply(&self) -> bool {
        self.answer().is_some_and(|answer| answer.is_late)
    }

    fn answer(&self) -> Option<&Arrival> {
        self.in_flight.as_ref()?.answer.as_ref()
    }

    /// Returns true if a response came after the request had timed out. The process may see either
    /// of the two first.
    pub fn has_timeout_race(&self, now: Instant) -> bool {
        let timed_out = self.in_flight.as_ref().is_some_and(|flight| flight.times_out_at <= now);
        !self.frozen && timed_out && self.answer().is_some_and(|answer| !answer.is_late)
    }

    /// Returns the instants at which it has due work, frozen or not.
    pub fn due_instants(&self) -> impl Iterator<Item = Instant> {
        let step = self.in_flight.as_ref().map_or(self.next_step_at, |flight| flight.times_out_at);
        let leave = self.leaving.map(|since| since + LEAVE_LIMIT);
        [Some(step), leave, self.turn.map(|turn| turn.deadline)].into_iter().flatten()
    }

    /// Handles an event, and then all due work that affects no other process.
    pub fn on_push(&mut self, scope: &Scope, now: Instant, push: Push) -> Progress {
        match push {
            Push::Continue => {}
            Push::Instant => self.draw_count = 0,
            Push::Answer(answer) => {
                if let Some(flight) = &mut self.in_flight {
                    flight.answer = Some(answer);
                }
            }
            Push::LateReplyArrived => {
                if let Some(answer) = self.in_flight.as_mut().and_then(|f| f.answer.as_mut()) {
                    answer.is_late = false;
                }
            }
            Push::TimeoutRace { reply_first: answer } => {
                let progress = self.on_reply(scope, now, answer);
                if !matches!(progress, Progress::Waiting) {
                    return progress;
                }
            }
            Push::Leave => {
                self.leaving = Some(now);
                self.stop_turn();
            }
            Push::HandOver => self.pending_order = Some(StepInput::HandOver),
            Push::Freeze => self.frozen = true,
            Push::Thaw => {
                self.frozen = false;
                self.enforce_deadline(scope, now);
                return Progress::Waiting;
            }
        }
        self.run_until_idle(scope, now)
    }

    /// Stops a turn whose deadline has passed. The host does this before all other work.
    pub(super) fn enforce_deadline(&mut self, scope: &Scope, now: Instant) {
        if scope.flaw != Some(Flaw::NoDeadline)
            && self.turn.is_some_and(|turn| turn.deadline <= now)
        {
            self.stop_turn();
        }
    }

    pub(super) fn stop_turn(&mut self) {
        if self.turn.take().is_some() {
            self.pending_input = Some(StepInput::CutOff);
        }
    }

    fn run_until_idle(&mut self, scope: &Scope, now: Instant) -> Progress {
        for _ in 0..MAX_MOVES {
            if self.frozen || self.has_timeout_race(now) {
                return Progress::Waiting;
            }
            self.enforce_deadline(scope, now);
            if self.leaving.is_some_and(|since| since + LEAVE_LIMIT <= now) {
                return Progress::Ended;
            }
            let progress = match (&self.in_flight, self.answer()) {
                (Some(_), Some(answer)) if !answer.is_late => self.on_reply(scope, now, true),
                (Some(flight), _) if flight.times_out_at <= now => self.on_reply(scope, now, false),
                (Some(_), _) => return Progress::Waiting,
                (None, _) => match self.begin_step(scope, now) {
                    None => return Progress::Waiting,
                    Some((step, history)) => self.drive_step(scope, step, (now, history), now),
                },
            };
            if !matches!(progress, Progress::Waiting) {
                return progress;
            }
        }
        panic!("{} does not come to rest", scope.name(self.candidate));
    }
}
