//! Steps of the core: begun, told what came, reported.

use std::hash::{Hash, Hasher};

use tenure_azure::name::SideBlob;
use tenure_azure::{Answer, Operation};
use tenure_core::{Ask, Beside, Event, Failure, FailureKind, Outcome, Report, Role, Step, Todo};

use super::chance::Draws;
use super::known::{Known, digest};
use super::process::{Moved, Process, Turn};
use super::scope::Scope;
use super::time::{Instant, moment, wall};

/// What the core is to be told.
#[derive(Clone, Copy, Hash)]
pub enum Word {
    CutOff,
    Leave,
    HandOver,
}

fn is_look_for_triggers(beside: &Beside) -> bool {
    const LOOK: Operation = Operation::ReadSideBlob(SideBlob::Orders);
    matches!(beside, Beside::Send(ask) if ask.operation == LOOK)
}

fn is_of_list(beside: &Beside) -> bool {
    const LIST: SideBlob = SideBlob::Candidates;
    let Beside::Send(ask) = beside else { return false };
    match &ask.operation {
        Operation::ReadSideBlob(blob) | Operation::WriteSideBlob { blob, .. } => *blob == LIST,
        _ => false,
    }
}

/// A step that waits for an answer.
#[derive(Clone)]
pub struct Flight {
    step: Step<'static>,
    began: Instant,
    operation: Operation,
    sent: Instant,
    /// When it waits no longer.
    pub until: Instant,
    pub answer: Option<Arrival>,
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

impl Process {
    fn draws(&mut self, now: Instant) -> Draws<'_> {
        Draws { candidate: self.candidate, life: self.life, now, drawn: &mut self.drawn }
    }

    /// The step that is due, if one is.
    pub(super) fn begin(&mut self, scope: &Scope, now: Instant) -> Option<(Step<'static>, u64)> {
        let due = self.next <= now;
        let word = match self.leaving {
            Some(_) if due || !self.said_goodbye => {
                self.said_goodbye = true;
                Some(Word::Leave)
            }
            Some(_) => return None,
            None => self.word.take().or_else(|| self.order.take()),
        };
        if !due && word.is_none() {
            return None;
        }
        let event = word.map(|word| match word {
            Word::CutOff => Event::TurnEnded(Outcome::CutOff.into()),
            Word::Leave => Event::Leave(None),
            Word::HandOver => Event::HandOver(scope.other(self.candidate).into()),
        });
        let state = self.state.clone();
        let history = digest(&(&state, now, word));
        let settings = &scope.settings[self.candidate];
        let state = state.as_ref().map(|state| state.as_slice());
        let step = Step::begin(settings, state, moment(now), event, &mut self.draws(now));
        Some((step, history))
    }

    pub(super) fn go_on(
        &mut self,
        scope: &Scope,
        mut step: Step<'static>,
        (began, history): (Instant, u64),
        now: Instant,
    ) -> Moved {
        match step.next(moment(now)) {
            Todo::Fetch(_) => unreachable!("the accounts of the exploration have keys"),
            Todo::Send(Ask { operation, timeout, .. }) => {
                let until = scope.instant(moment(now) + timeout);
                let asked = operation.clone();
                let (sent, answer) = (now, None);
                self.flight = Some(Flight { step, began, operation, sent, until, answer, history });
                Moved::Asks(asked)
            }
            Todo::Rest(report) => {
                // Nobody asks for turns here, and what is asked about the list of candidates is never answered.
                let others = step
                    .beside()
                    .filter(|beside| !is_look_for_triggers(beside) && !is_of_list(beside));
                assert!(others.is_none(), "so soon nothing else goes out beside the steps");
                self.stepped(scope, began, *report, now)
            }
        }
    }

    /// The step hears the answer that came, or that none did.
    pub(super) fn answered(&mut self, scope: &Scope, now: Instant, came: bool) -> Moved {
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
        if report.ending.is_some() || report.wind_down {
            self.stop_turn();
        }
        self.leads = matches!(report.role, Role::Leading(_));
        self.hands_over = report.successor.is_some();
        self.state = Some(Known::new(report.state.into_bytes()));
        self.next = scope.instant(moment(began) + report.again_in);
        if report.role == Role::Left {
            return Moved::Ended;
        }
        if let Some(turn) = report.run {
            assert!(self.turn.is_none(), "a turn was ordered while another one runs");
            let deadline = scope.instant(moment(began) + turn.valid_for);
            match self.leaving.is_some() || deadline <= now {
                true => self.word = Some(Word::CutOff),
                false => {
                    let (term, slot) = (turn.term, turn.slot.0);
                    self.turn = Some(Turn { term, slot, deadline });
                }
            }
        }
        if let (Role::Leading(leadership), Some(turn)) = (&report.role, &mut self.turn)
            && turn.term == leadership.term
        {
            turn.deadline = scope.instant(moment(began) + leadership.valid_for);
        }
        Moved::Waits
    }
}
