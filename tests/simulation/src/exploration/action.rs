//! What can happen next.

use super::process::Process;
use super::state::{Sent, State};
use super::time::{Instant, moment};

/// One thing that can happen. Numbers are places in the list of requests, or candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A request arrives at the store, and its answer at once at the process, if that still waits.
    Exchange(usize),
    /// A request arrives, but its answer is late. A disturbance.
    DelayAnswer(usize),
    /// A request will be late: arrive after some time, or never. A disturbance.
    DelayRequest(usize),
    /// A request arrives, and again later. A disturbance.
    Duplicate(usize),
    /// A late answer arrives.
    Deliver(usize),
    /// A process that woke up takes the answer that came although the request has timed out.
    TakeLate(usize),
    /// A process that woke up takes the time-out although an answer came.
    TimeOut(usize),
    /// A process ends without a word. A disturbance.
    Crash(usize),
    /// A process that ended starts again, as a new candidate.
    Restart(usize),
    /// A process does nothing for some time. A disturbance.
    Freeze(usize),
    /// It goes on.
    Thaw(usize),
    /// A process is asked to leave. A disturbance.
    Leave(usize),
    /// Nothing that a process sends arrives from now on. A disturbance, where leaders beat.
    CutOff(usize),
    /// It arrives again.
    Connect(usize),
    /// A leader is told to hand over.
    HandOver(usize),
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
            Self::CutOff(_) => "cut off",
            Self::Connect(_) => "connected again",
            Self::HandOver(_) => "told to hand over",
            Self::Wait => "time passes",
        }
    }

    /// Whether it counts as a disturbance.
    pub fn disturbs(self) -> bool {
        matches!(
            self,
            Self::DelayAnswer(_)
                | Self::DelayRequest(_)
                | Self::Duplicate(_)
                | Self::Crash(_)
                | Self::Freeze(_)
                | Self::Leave(_)
                | Self::CutOff(_)
        )
    }
}

impl State {
    /// All that can happen next.
    ///
    /// What touches one process alone can as well happen before anything that others do at the same
    /// instant. So it happens only there, or directly after that process did something.
    pub fn actions(&self) -> Vec<Action> {
        if let Some(torn) = self.processes().find(|process| process.is_torn(self.now)) {
            return vec![Action::TakeLate(torn.candidate), Action::TimeOut(torn.candidate)];
        }
        let mut actions = Vec::new();
        let may_disturb =
            |candidate| self.left > 0 && self.latest.is_none_or(|latest| latest == candidate);
        for (place, request) in self.requests.iter().enumerate() {
            actions.push(Action::Exchange(place));
            if self.left > 0 && request.awaited {
                actions.push(Action::DelayAnswer(place));
            }
            if self.left > 0 && !request.late && !request.is_look() {
                actions.push(Action::Duplicate(place));
            }
            if may_disturb(request.from) && !request.late {
                actions.push(Action::DelayRequest(place));
            }
        }
        for (number, place) in self.candidates.iter().enumerate() {
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
            if first && place.cut_off {
                actions.push(Action::Connect(number));
            }
            if may_disturb(number) && !place.cut_off && self.scope.beats() {
                actions.push(Action::CutOff(number));
            }
            if may_disturb(number) {
                actions.push(Action::Crash(number));
            }
            if may_disturb(number) && !process.frozen {
                actions.push(Action::Freeze(number));
            }
            let stays = !process.frozen && process.leaving.is_none();
            if may_disturb(number) && stays {
                actions.push(Action::Leave(number));
            }
            let ordered = self.orders > 0 && self.latest.is_none_or(|latest| latest == number);
            if ordered && stays && process.leads && process.flight.is_none() {
                actions.push(Action::HandOver(number));
            }
        }
        if self.next_instant().is_some() {
            actions.push(Action::Wait);
        }
        actions
    }

    /// When time may pass, the instant until which it does.
    pub(super) fn next_instant(&self) -> Option<Instant> {
        if self.requests.iter().any(|request| !request.late) {
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
}
