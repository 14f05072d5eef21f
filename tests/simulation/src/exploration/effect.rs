//! What follows from an action.

use std::fmt;

use super::action::Action;
use super::oracle::Violation;
use super::process::Push;
use super::state::{Note, Sent, State};
use super::step::Arrival;

impl State {
    /// The state after an action; one of [`State::actions`].
    #[must_use]
    pub fn after(&self, action: Action) -> Self {
        let mut state = self.clone();
        state.act(action);
        state.judge_work(state.now);
        state
    }

    /// The invariant that was broken last.
    pub fn broken(&self) -> Option<&Violation> {
        self.broken.as_ref()
    }

    fn act(&mut self, action: Action) {
        self.left -= u8::from(action.disturbs());
        self.orders -= u8::from(matches!(action, Action::HandOver(_)));
        match action {
            Action::Exchange(place) => {
                let sent = self.requests.remove(place);
                self.arrive(&sent, false, "");
            }
            Action::DelayAnswer(place) => {
                let sent = self.requests.remove(place);
                self.arrive(&sent, true, "; the answer is late");
            }
            Action::DelayRequest(place) => {
                let sent = &mut self.requests[place];
                sent.late = true;
                self.note = Note {
                    who: sent.from,
                    what: sent.operation.name(),
                    and: "; the request is late",
                    ..Note::default()
                };
                self.sort();
            }
            Action::Duplicate(place) => {
                let again = &mut self.requests[place];
                let sent = again.clone();
                (again.awaited, again.late) = (false, true);
                self.sort();
                self.arrive(&sent, false, "; it will arrive again");
            }
            Action::Deliver(candidate) => self.happen(candidate, action, Push::Delivered),
            Action::TakeLate(candidate) => {
                self.happen(candidate, action, Push::Torn { answer: true });
            }
            Action::TimeOut(candidate) => {
                self.happen(candidate, action, Push::Torn { answer: false });
            }
            Action::Leave(candidate) => self.happen(candidate, action, Push::Leave),
            Action::HandOver(candidate) => self.happen(candidate, action, Push::HandOver),
            Action::Freeze(candidate) => {
                self.happen(candidate, action, Push::Freeze);
                self.delay(candidate);
            }
            Action::CutOff(candidate) => {
                self.note(candidate, action);
                self.candidates[candidate].cut_off = true;
                self.requests.retain(|request| request.from != candidate || request.late);
            }
            Action::Connect(candidate) => {
                self.note(candidate, action);
                self.candidates[candidate].cut_off = false;
            }
            Action::Thaw(candidate) => {
                self.happen(candidate, action, Push::Wake);
                // Whatever the host does not stop before anything else works now.
                self.judge_work(self.now);
                self.push(candidate, Push::GoOn);
            }
            Action::Crash(candidate) => {
                self.note(candidate, action);
                self.end(candidate);
            }
            Action::Restart(candidate) => {
                self.note(candidate, action);
                self.restart(candidate);
            }
            Action::Wait => self.wait(),
        }
    }

    fn note(&mut self, candidate: usize, action: Action) {
        self.note = Note { who: candidate, what: action.kind(), ..Note::default() };
    }

    fn happen(&mut self, candidate: usize, action: Action, push: Push) {
        self.note(candidate, action);
        self.push(candidate, push);
    }

    fn arrive(&mut self, sent: &Sent, late: bool, and: &'static str) {
        self.note = Note { who: sent.from, what: sent.operation.name(), and, ..Note::default() };
        let reply = self.handle(sent);
        self.latest = Some(sent.from);
        self.note.status = Some(reply.0);
        if sent.awaited {
            self.push(sent.from, Push::Answer(Arrival { reply, late }));
        }
    }

    fn wait(&mut self) {
        let Some(next) = self.next_instant() else { return };
        self.judge_work(next - 1);
        (self.now, self.latest, self.note) = (next, None, Note::default());
        (0..self.candidates.len()).for_each(|candidate| self.push(candidate, Push::Instant));
    }
}

impl fmt::Display for State {
    /// What happened last, and whose handler runs now.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Note { who, what, and, status, .. } = self.note;
        write!(f, "{:>3} s  {}: {what}", self.now, self.scope.name(who))?;
        match status {
            Some(status) => write!(f, ", answered {status}{and}")?,
            None => write!(f, "{and}")?,
        }
        for process in self.processes() {
            if let Some(turn) = process.turn {
                let how = if process.works() { "works" } else { "is frozen in its work" };
                let (name, until) = (self.scope.name(process.candidate), turn.deadline);
                write!(f, " [{name} {how} under term {}, until {until} s]", turn.term)?;
            }
        }
        Ok(())
    }
}
