//! Effects of actions.

use std::fmt;

use super::action::Action;
use super::oracle::Violation;
use super::process::Push;
use super::state::{Note, RequestInFlight, State};
use super::step::Arrival;

impl State {
    /// Returns the state after an action from [`State::actions`].
    #[must_use]
    pub fn after(&self, action: Action) -> Self {
        let mut state = self.clone();
        state.apply(action);
        state.check_work(state.now);
        state
    }

    /// Returns the invariant violation of the last action.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    fn apply(&mut self, action: Action) {
        self.disturbances_left -= u8::from(action.is_disturbance());
        self.orders_left -= u8::from(matches!(action, Action::HandOver(_)));
        match action {
            Action::Exchange(index) => {
                let in_flight = self.requests.remove(index);
                self.deliver(&in_flight, false, "");
            }
            Action::DelayAnswer(index) => {
                let in_flight = self.requests.remove(index);
                self.deliver(&in_flight, true, "; the answer is late");
            }
            Action::DelayRequest(index) => {
                let in_flight = &mut self.requests[index];
                in_flight.is_late = true;
                self.note = Note {
                    candidate: in_flight.candidate,
                    action: in_flight.operation.name(),
                    detail: "; the request is late",
                    ..Note::default()
                };
                self.sort_requests();
            }
            Action::Duplicate(index) => {
                let duplicate = &mut self.requests[index];
                let in_flight = duplicate.clone();
                (duplicate.is_awaited, duplicate.is_late) = (false, true);
                self.sort_requests();
                self.deliver(&in_flight, false, "; it will arrive again");
            }
            Action::Deliver(candidate) => {
                self.apply_push(candidate, action, Push::LateReplyArrived)
            }
            Action::TakeLateReply(candidate) => {
                self.apply_push(candidate, action, Push::TimeoutRace { reply_first: true });
            }
            Action::TimeOut(candidate) => {
                self.apply_push(candidate, action, Push::TimeoutRace { reply_first: false });
            }
            Action::Leave(candidate) => self.apply_push(candidate, action, Push::Leave),
            Action::HandOver(candidate) => self.apply_push(candidate, action, Push::HandOver),
            Action::Freeze(candidate) => {
                self.apply_push(candidate, action, Push::Freeze);
                self.delay_requests(candidate);
            }
            Action::CutOff(candidate) => {
                self.set_note(candidate, action);
                self.candidates[candidate].is_cut_off = true;
                self.requests.retain(|request| request.candidate != candidate || request.is_late);
            }
            Action::Reconnect(candidate) => {
                self.set_note(candidate, action);
                self.candidates[candidate].is_cut_off = false;
            }
            Action::Thaw(candidate) => {
                self.apply_push(candidate, action, Push::Thaw);
                // From here on, any handler that the host did not stop first is working.
                self.check_work(self.now);
                self.push(candidate, Push::Continue);
            }
            Action::Crash(candidate) => {
                self.set_note(candidate, action);
                self.end_process(candidate);
            }
            Action::Restart(candidate) => {
                self.set_note(candidate, action);
                self.restart(candidate);
            }
            Action::Wait => self.advance_time(),
        }
    }

    fn set_note(&mut self, candidate: usize, action: Action) {
        self.note = Note { candidate, action: action.kind(), ..Note::default() };
    }

    fn apply_push(&mut self, candidate: usize, action: Action, push: Push) {
        self.set_note(candidate, action);
        self.push(candidate, push);
    }

    fn deliver(&mut self, in_flight: &RequestInFlight, late: bool, detail: &'static str) {
        self.note = Note {
            candidate: in_flight.candidate,
            action: in_flight.operation.name(),
            detail,
            ..Note::default()
        };
        let reply = self.handle(in_flight);
        self.last_candidate = Some(in_flight.candidate);
        self.note.status = Some(reply.0);
        if in_flight.is_awaited {
            self.push(in_flight.candidate, Push::Answer(Arrival { reply, is_late: late }));
        }
    }

    fn advance_time(&mut self) {
        let Some(next) = self.next_instant() else { return };
        self.check_work(next - 1);
        (self.now, self.last_candidate, self.note) = (next, None, Note::default());
        (0..self.candidates.len()).for_each(|candidate| self.push(candidate, Push::Instant));
    }
}

impl fmt::Display for State {
    /// Formats the last event and the working handlers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Note { candidate, action, detail, status, .. } = self.note;
        write!(f, "{:>3} s  {}: {action}", self.now, self.scope.name(candidate))?;
        match status {
            Some(status) => write!(f, ", answered {status}{detail}")?,
            None => write!(f, "{detail}")?,
        }
        for process in self.processes() {
            if let Some(turn) = process.turn {
                let activity = if process.is_working() { "works" } else { "is frozen in its work" };
                let (name, until) = (self.scope.name(process.candidate), turn.deadline);
                write!(f, " [{name} {activity} under term {}, until {until} s]", turn.term)?;
            }
        }
        Ok(())
    }
}
