//! A candidate's process: the core and as much of the host as it takes to run it.
//!
//! As the runner does it: the deadline comes before anything else; steps never overlap; a turn is
//! stopped when its tenancy ends, and seen stopped at once; whoever leaves gives up after 10 s.

use std::hash::{Hash, Hasher};

use tenure_guest::azure::{Answer, Operation};
use tenure_guest::election::{
    Ask, Event, Failure, FailureKind, Outcome, Report, Standing, Step, Todo,
};

use super::chance::Draws;
use super::known::{Known, digest};
use super::scope::{Flaw, Scope};
use super::time::{Instant, moment, wall};

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
    said_goodbye: bool,
    pub memory: Option<Known<Vec<u8>>>,
    /// When the next step is due.
    next: Instant,
    word: Option<Word>,
    pub turn: Option<Turn>,
    pub flight: Option<Flight>,
    drawn: u8,
}

/// What the core is to be told.
#[derive(Clone, Copy, Hash)]
enum Word {
    CutOff,
    Leave,
}

/// A turn that runs.
#[derive(Clone, Copy, Hash)]
pub struct Turn {
    pub term: u64,
    pub deadline: Instant,
}

/// A step that waits for an answer.
#[derive(Clone)]
pub struct Flight {
    step: Step<'static>,
    began: Instant,
    operation: Operation,
    sent: Instant,
    /// When it waits no longer.
    until: Instant,
    answer: Option<Arrival>,
    /// Of all that the step was told: the same history makes the same step.
    history: u64,
}

/// An answer: its status and headers.
pub type Reply = Known<(u16, Vec<(String, String)>)>;

/// An answer that has not been taken.
#[derive(Clone, Hash)]
pub struct Arrival {
    pub reply: Reply,
    /// It is still on its way.
    pub late: bool,
}

impl Hash for Flight {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.history, self.until, &self.answer).hash(state);
    }
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
    pub fn new(candidate: usize, life: u8, now: Instant, memory: Option<Known<Vec<u8>>>) -> Self {
        Self {
            candidate,
            life,
            frozen: false,
            leaving: None,
            said_goodbye: false,
            memory,
            next: now,
            word: None,
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
    pub fn pushed(&mut self, scope: &'static Scope, now: Instant, push: Push) -> Moved {
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
    fn enforce(&mut self, scope: &Scope, now: Instant) {
        if scope.flaw != Some(Flaw::NoDeadline)
            && self.turn.is_some_and(|turn| turn.deadline <= now)
        {
            self.stop_turn();
        }
    }

    fn stop_turn(&mut self) {
        if self.turn.take().is_some() {
            self.word = Some(Word::CutOff);
        }
    }

    fn settle(&mut self, scope: &'static Scope, now: Instant) -> Moved {
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

    fn draws(&mut self, now: Instant) -> Draws<'_> {
        Draws { candidate: self.candidate, life: self.life, now, drawn: &mut self.drawn }
    }

    /// The step that is due, if one is.
    fn begin(&mut self, scope: &'static Scope, now: Instant) -> Option<(Step<'static>, u64)> {
        let due = self.next <= now;
        let word = match self.leaving {
            Some(_) if due || !self.said_goodbye => {
                self.said_goodbye = true;
                Some(Word::Leave)
            }
            Some(_) => return None,
            None => self.word.take(),
        };
        if !due && word.is_none() {
            return None;
        }
        let event = word.map(|word| match word {
            Word::CutOff => Event::TurnEnded(Outcome::CutOff),
            Word::Leave => Event::Leave,
        });
        let memory = self.memory.clone();
        let history = digest(&(&memory, now, word));
        let settings = &scope.settings[self.candidate];
        let memory = memory.as_ref().map(|memory| memory.as_slice());
        let step = Step::begin(settings, memory, moment(now), event, &mut self.draws(now));
        Some((step, history))
    }

    fn go_on(
        &mut self,
        scope: &Scope,
        mut step: Step<'static>,
        (began, history): (Instant, u64),
        now: Instant,
    ) -> Moved {
        match step.next(moment(now)) {
            Todo::Send(Ask { operation, timeout }) => {
                let until = scope.instant(moment(now) + timeout);
                let asked = operation.clone();
                let (sent, answer) = (now, None);
                self.flight = Some(Flight { step, began, operation, sent, until, answer, history });
                Moved::Asks(asked)
            }
            Todo::Rest(report) => self.stepped(scope, began, *report, now),
        }
    }

    /// The step hears the answer that came, or that none did.
    fn answered(&mut self, scope: &Scope, now: Instant, came: bool) -> Moved {
        let Some(mut flight) = self.flight.take() else { return Moved::Waits };
        let answer = flight.answer.filter(|_| came);
        let history = digest(&(flight.history, now, &answer));
        let reply = match answer {
            None => Err(Failure { kind: FailureKind::Timeout, detail: String::new() }),
            Some(answer) => {
                let (status, headers) = &*answer.reply;
                let headers = headers.iter().map(|(n, v)| (n.clone(), v.clone().into_bytes()));
                let headers: Vec<_> = headers.collect();
                Ok(Answer::read(&flight.operation, *status, &headers))
            }
        };
        let (sent, at) = (moment(flight.sent), moment(now));
        flight.step.answered(sent, at, wall(now), reply, &mut self.draws(now));
        self.go_on(scope, flight.step, (flight.began, history), now)
    }

    fn stepped(&mut self, scope: &Scope, began: Instant, report: Report, now: Instant) -> Moved {
        self.enforce(scope, now);
        if report.ending.is_some() {
            self.stop_turn();
        }
        self.memory = Some(Known::new(report.memory));
        self.next = scope.instant(moment(began) + report.again_in);
        if report.standing == Standing::Left {
            return Moved::Ended;
        }
        if let Some(turn) = report.run {
            assert!(self.turn.is_none(), "a turn was ordered while another one runs");
            let deadline = scope.instant(moment(began) + turn.valid_for);
            match self.leaving.is_some() || deadline <= now {
                true => self.word = Some(Word::CutOff),
                false => self.turn = Some(Turn { term: turn.term, deadline }),
            }
        }
        if let (Standing::Leading(tenancy), Some(turn)) = (&report.standing, &mut self.turn)
            && turn.term == tenancy.term
        {
            turn.deadline = scope.instant(moment(began) + tenancy.valid_for);
        }
        Moved::Waits
    }
}
