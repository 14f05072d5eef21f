//! A candidate's process: as much of the host as it takes to run the core.
//!
//! As the runner does it: the deadline comes before anything else; steps never overlap; a turn is
//! stopped when its leadership ends, and seen stopped at once; whoever leaves gives up after 10 s.

use tenure_azure::Operation;

use super::known::Hashed;
use super::scope::{Flaw, Scope};
use super::step::{Arrival, Flight, StepInput};
use super::time::Instant;

/// How long the host tries to leave in good order.
const LEAVE_LIMIT: Instant = 10;

/// No process makes as many moves at one instant without an answer from outside.
const MAX_MOVES: u32 = 32;

/// A process that runs, or would if it were not frozen.
#[derive(Clone, Hash)]
pub struct Process {
    pub candidate: usize,
    pub life: u8,
    pub frozen: bool,
    /// Since when.
    pub leaving: Option<Instant>,
    pub(super) leave_sent: bool,
    pub state: Option<Hashed<Vec<u8>>>,
    /// When the next step is due.
    pub(super) next_step_at: Instant,
    pub(super) pending_input: Option<StepInput>,
    /// What an operator ordered, to be told after that.
    pub(super) pending_order: Option<StepInput>,
    /// By its newest report.
    pub is_leading: bool,
    /// It has an order to hand over, by its newest report.
    pub is_handing_over: bool,
    pub turn: Option<Turn>,
    pub in_flight: Option<Flight>,
    pub(super) draw_count: u8,
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
    Continue,
    /// Another instant has come.
    Instant,
    Answer(Arrival),
    /// The answer that was late is here.
    LateReplyArrived,
    /// Of a request that has timed out, the answer is seen first, or the time-out.
    TimeoutRace {
        reply_first: bool,
    },
    Leave,
    /// An operator has it hand over to the other one.
    HandOver,
    Freeze,
    /// It wakes up and stops what must be stopped.
    Thaw,
}

/// What follows.
#[derive(Clone)]
pub enum Progress {
    /// It waits, for time or for somebody else.
    Waiting,
    /// It asks the store for something, and waits for the answer.
    SendRequest(Operation),
    /// It has ended.
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

    /// Whether its handler does anything.
    pub fn is_working(&self) -> bool {
        !self.frozen && self.turn.is_some()
    }

    /// Whether an answer is on its way.
    pub fn has_late_reply(&self) -> bool {
        self.answer().is_some_and(|answer| answer.is_late)
    }

    fn answer(&self) -> Option<&Arrival> {
        self.in_flight.as_ref()?.answer.as_ref()
    }

    /// An answer came, but only after the request had timed out: which of the two the
    /// process sees first is open.
    pub fn has_timeout_race(&self, now: Instant) -> bool {
        let timed_out = self.in_flight.as_ref().is_some_and(|flight| flight.times_out_at <= now);
        !self.frozen && timed_out && self.answer().is_some_and(|answer| !answer.is_late)
    }

    /// When something is due, frozen or not.
    pub fn due_instants(&self) -> impl Iterator<Item = Instant> {
        let step = self.in_flight.as_ref().map_or(self.next_step_at, |flight| flight.times_out_at);
        let leave = self.leaving.map(|since| since + LEAVE_LIMIT);
        [Some(step), leave, self.turn.map(|turn| turn.deadline)].into_iter().flatten()
    }

    /// Lets something happen to it; then it does all that is due and touches nobody else.
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

    /// Stops a turn whose time is over: the host does it before anything else.
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
