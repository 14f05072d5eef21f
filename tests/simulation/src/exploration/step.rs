//! Steps of the core: start, input, report.

use std::hash::{Hash, Hasher};

use tenure_azure::blob::SideBlob;
use tenure_azure::{Answer, Operation};
use tenure_core::{
    BackgroundRequest, Event, Failure, FailureKind, Outcome, Report, Role, SignedRequest, Step,
    StepAction,
};

use super::draws::Draws;
use super::hashed::{Hashed, digest};
use super::process::{Process, Progress, Turn};
use super::scope::Scope;
use super::time::{Instant, moment, wall_time};

/// Input for the core.
#[derive(Clone, Copy, Hash)]
pub enum StepInput {
    CutOff,
    Leave,
    HandOver,
}

fn is_trigger_poll(background_request: &BackgroundRequest) -> bool {
    const READ_ORDERS: Operation = Operation::ReadSideBlob(SideBlob::Orders);
    matches!(background_request, BackgroundRequest::Send(ask) if ask.operation == READ_ORDERS)
}

fn is_candidate_list_request(background_request: &BackgroundRequest) -> bool {
    const LIST: SideBlob = SideBlob::Candidates;
    let BackgroundRequest::Send(ask) = background_request else { return false };
    match &ask.operation {
        Operation::ReadSideBlob(blob) | Operation::WriteSideBlob { blob, .. } => *blob == LIST,
        _ => false,
    }
}

/// A step that waits for a response.
#[derive(Clone)]
pub struct Flight {
    step: Step<'static>,
    started_at: Instant,
    operation: Operation,
    sent_at: Instant,
    /// Time of the timeout.
    pub times_out_at: Instant,
    pub answer: Option<Arrival>,
    /// Digest of all inputs of the step: equal inputs produce equal steps.
    input_digest: u64,
}

/// Response with its status and headers.
pub type Reply = Hashed<(u16, Vec<(String, String)>)>;

/// Response that was not processed yet.
#[derive(Clone, Hash)]
pub struct Arrival {
    pub reply: Reply,
    /// True while it is in transit.
    pub is_late: bool,
}

impl Hash for Flight {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.input_digest, self.times_out_at, &self.answer).hash(state);
    }
}

impl Process {
    fn draws(&mut self, now: Instant) -> Draws<'_> {
        Draws { candidate: self.candidate, life: self.life, now, draw_count: &mut self.draw_count }
    }

    /// Starts the step that is due, if there is one.
    pub(super) fn begin_step(
        &mut self,
        scope: &Scope,
        now: Instant,
    ) -> Option<(Step<'static>, u64)> {
        let due = self.next_step_at <= now;
        let input = match self.leaving {
            Some(_) if due || !self.leave_sent => {
                self.leave_sent = true;
                Some(StepInput::Leave)
            }
            Some(_) => return None,
            None => self.pending_input.take().or_else(|| self.pending_order.take()),
        };
        if !due && input.is_none() {
            return None;
        }
        let event = input.map(|input| match input {
            StepInput::CutOff => Event::TurnEnded(Outcome::CutOff.into()),
            StepInput::Leave => Event::Leave(None),
            StepInput::HandOver => Event::HandOver(scope.other_name(self.candidate).into()),
        });
        let state = self.state.clone();
        let history = digest(&(&state, now, input));
        let settings = &scope.settings[self.candidate];
        let state = state.as_ref().map(|state| state.as_slice());
        let step = Step::new(settings, state, moment(now), event, &mut self.draws(now));
        Some((step, history))
    }

    pub(super) fn drive_step(
        &mut self,
        scope: &Scope,
        mut step: Step<'static>,
        (started_at, history): (Instant, u64),
        now: Instant,
    ) -> Progress {
        match step.next(moment(now)) {
            StepAction::Fetch(_) => unreachable!("the accounts of the exploration have keys"),
            StepAction::Send(SignedRequest { operation, timeout, .. }) => {
                let until = scope.instant(moment(now) + timeout);
                let request = operation.clone();
                let (sent, answer) = (now, None);
                self.in_flight = Some(Flight {
                    step,
                    started_at,
                    operation,
                    sent_at: sent,
                    times_out_at: until,
                    answer,
                    input_digest: history,
                });
                Progress::SendRequest(request)
            }
            StepAction::Done(report) => {
                // Outsiders request no turns here, and requests about the list of candidates get no
                // response.
                let unexpected = step.take_background().filter(|background_request| {
                    !is_trigger_poll(background_request)
                        && !is_candidate_list_request(background_request)
                });
                assert!(unexpected.is_none(), "so soon nothing else goes out beside the steps");
                self.apply_report(scope, started_at, *report, now)
            }
        }
    }

    /// Passes the response to the step, or its absence.
    pub(super) fn on_reply(&mut self, scope: &Scope, now: Instant, reply_came: bool) -> Progress {
        let Some(mut flight) = self.in_flight.take() else { return Progress::Waiting };
        let answer = flight.answer.filter(|_| reply_came);
        let history = digest(&(flight.input_digest, now, &answer));
        let reply = match answer {
            None => Err(Failure { kind: FailureKind::Timeout, detail: String::new() }),
            Some(answer) => {
                let (status, headers) = &*answer.reply;
                let headers = headers.iter().map(|(n, v)| (n.clone(), v.clone().into_bytes()));
                let headers: Vec<_> = headers.collect();
                Ok(Answer::from_parts(&flight.operation, *status, &headers))
            }
        };
        let (sent, at) = (moment(flight.sent_at), moment(now));
        flight.step.on_answer(sent, at, wall_time(now), reply, &mut self.draws(now));
        self.drive_step(scope, flight.step, (flight.started_at, history), now)
    }

    fn apply_report(
        &mut self,
        scope: &Scope,
        started_at: Instant,
        report: Report,
        now: Instant,
    ) -> Progress {
        self.enforce_deadline(scope, now);
        if report.ending.is_some() || report.wind_down {
            self.stop_turn();
        }
        self.is_leading = matches!(report.role, Role::Leading(_));
        self.is_handing_over = report.successor.is_some();
        self.state = Some(Hashed::new(report.state.into_bytes()));
        self.next_step_at = scope.instant(moment(started_at) + report.again_in);
        if report.role == Role::Left {
            return Progress::Ended;
        }
        if let Some(turn) = report.run {
            assert!(self.turn.is_none(), "a turn was ordered while another one runs");
            let deadline = scope.instant(moment(started_at) + turn.valid_for);
            match self.leaving.is_some() || deadline <= now {
                true => self.pending_input = Some(StepInput::CutOff),
                false => {
                    let (term, slot) = (turn.term, turn.slot.0);
                    self.turn = Some(Turn { term, slot, deadline });
                }
            }
        }
        if let (Role::Leading(leadership), Some(turn)) = (&report.role, &mut self.turn)
            && turn.term == leadership.term
        {
            turn.deadline = scope.instant(moment(started_at) + leadership.valid_for);
        }
        Progress::Waiting
    }
}
