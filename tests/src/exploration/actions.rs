//! What can happen next, and what follows.

use std::fmt;

use super::oracle::Violation;
use super::process::{Process, Push};
use super::state::{Note, Sent, State};
use super::step::Arrival;
use super::time::{Instant, moment};

/// One thing that can happen. Numbers are places in the list of requests, or candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A request arrives at the store, and its answer at once at the process, if that still waits.
    Exchange(u8),
    /// A request arrives, but its answer is late. A disturbance.
    DelayAnswer(u8),
    /// A request will be late: arrive after some time, or never. A disturbance.
    DelayRequest(u8),
    /// A request arrives, and again later. A disturbance.
    Duplicate(u8),
    /// A late answer arrives.
    Deliver(u8),
    /// A process that woke up takes the answer that came although the request has timed out.
    TakeLate(u8),
    /// A process that woke up takes the time-out although an answer came.
    TimeOut(u8),
    /// A process ends without a word. A disturbance.
    Crash(u8),
    /// A process that ended starts again, as a new candidate.
    Restart(u8),
    /// A process does nothing for some time. A disturbance.
    Freeze(u8),
    /// It goes on.
    Thaw(u8),
    /// A process is asked to leave. A disturbance.
    Leave(u8),
    /// Time passes until the next instant at which something is due.
    Wait,
}

impl Action {
    /// Its kind, in a word or two.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Exchange(_) => "exchange",
            Self::DelayAnswer(_) => "answer delayed",
            Self::DelayRequest(_) => "request delayed",
            Self::Duplicate(_) => "request duplicated",
            Self::Deliver(_) => "late answer arrives",
            Self::TakeLate(_) => "answer taken after waking",
            Self::TimeOut(_) => "time-out taken after waking",
            Self::Crash(_) => "crash",
            Self::Restart(_) => "restart",
            Self::Freeze(_) => "freeze",
            Self::Thaw(_) => "thaw",
            Self::Leave(_) => "leave",
            Self::Wait => "time passes",
        }
    }
}

impl State {
    /// All that can happen next.
    ///
    /// What touches one process alone can as well happen before anything that others do at the same
    /// instant. So it happens only there, or directly after that process did something.
    pub fn actions(&self) -> Vec<Action> {
        if let Some(torn) = self.processes().find(|process| process.is_torn(self.now)) {
            let candidate = torn.candidate as u8;
            return vec![Action::TakeLate(candidate), Action::TimeOut(candidate)];
        }
        let mut actions = Vec::new();
        let may_disturb = |candidate| {
            self.left > 0 && self.latest.is_none_or(|latest| latest == usize::from(candidate))
        };
        for (place, request) in (0..).zip(&self.requests) {
            actions.push(Action::Exchange(place));
            if self.left > 0 && request.awaited {
                actions.push(Action::DelayAnswer(place));
            }
            if self.left > 0 && !request.late && !request.is_look() {
                actions.push(Action::Duplicate(place));
            }
            if may_disturb(request.from as u8) && !request.late {
                actions.push(Action::DelayRequest(place));
            }
        }
        for (number, place) in (0..).zip(&self.candidates) {
            let first = self.latest.is_none();
            let Some(process) = &place.process else {
                actions.extend(first.then_some(Action::Restart(number)));
                continue;
            };
            if first && process.is_answered_late() {
                actions.push(Action::Deliver(number));
            }
            if first && process.frozen {
                actions.push(Action::Thaw(number));
            }
            if may_disturb(number) {
                actions.push(Action::Crash(number));
            }
            if may_disturb(number) && !process.frozen {
                actions.push(Action::Freeze(number));
            }
            if may_disturb(number) && !process.frozen && process.leaving.is_none() {
                actions.push(Action::Leave(number));
            }
        }
        if self.next_instant().is_some() {
            actions.push(Action::Wait);
        }
        actions
    }

    /// When time may pass, the instant until which it does.
    fn next_instant(&self) -> Option<Instant> {
        let prompt = self.requests.iter().any(|request| !request.late);
        if prompt {
            return None;
        }
        let lease = self.oracle.lease_ends().map(|at| self.scope.instant(moment(at)));
        // An answer that is late may arrive before anything is due.
        let soon = self.awaits_late().then_some(self.now + self.scope.bounds.tick);
        let due = self.processes().flat_map(Process::instants).chain(lease).chain(soon);
        due.filter(|at| (self.now + 1..=self.scope.bounds.seconds).contains(at)).min()
    }

    /// Whether a process waits for what is late, and has not waited long enough.
    fn awaits_late(&self) -> bool {
        let late = |process: &Process| {
            let request = |sent: &Sent| sent.awaited && sent.from == process.candidate;
            process.is_answered_late() || self.requests.iter().any(request)
        };
        let waits = |process: &Process| {
            process.flight.as_ref().is_some_and(|flight| flight.until > self.now)
        };
        self.processes().any(|process| waits(process) && late(process))
    }

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
        let disturbs = matches!(
            action,
            Action::DelayAnswer(_)
                | Action::DelayRequest(_)
                | Action::Duplicate(_)
                | Action::Crash(_)
                | Action::Freeze(_)
                | Action::Leave(_)
        );
        self.left -= u8::from(disturbs);
        match action {
            Action::Exchange(place) => {
                let sent = self.requests.remove(place.into());
                self.arrive(&sent, false, "");
            }
            Action::DelayAnswer(place) => {
                let sent = self.requests.remove(place.into());
                self.arrive(&sent, true, "; the answer is late");
            }
            Action::DelayRequest(place) => {
                let sent = &mut self.requests[usize::from(place)];
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
                let again = &mut self.requests[usize::from(place)];
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
            Action::Freeze(candidate) => {
                self.happen(candidate, action, Push::Freeze);
                self.delay(candidate.into());
            }
            Action::Thaw(candidate) => {
                self.happen(candidate, action, Push::Wake);
                // Whatever the host does not stop before anything else works now.
                self.judge_work(self.now);
                self.push(candidate.into(), Push::GoOn);
            }
            Action::Crash(candidate) => {
                self.note(candidate, action);
                self.end(candidate.into());
            }
            Action::Restart(candidate) => {
                self.note(candidate, action);
                self.restart(candidate.into());
            }
            Action::Wait => self.wait(),
        }
    }

    fn note(&mut self, candidate: u8, action: Action) {
        self.note = Note { who: candidate.into(), what: action.kind(), ..Note::default() };
    }

    fn happen(&mut self, candidate: u8, action: Action, push: Push) {
        self.note(candidate, action);
        self.push(candidate.into(), push);
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
