//! Actions that can follow a state.

use super::process::Process;
use super::state::{RequestInFlight, State};
use super::time::{Instant, moment};

/// An action. Numbers are indices into the list of requests, or candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A request arrives at the store, and its response immediately at the process, if that still
    /// waits.
    Exchange(usize),
    /// A request arrives, but its response is late. A disturbance.
    DelayAnswer(usize),
    /// A request becomes late: it arrives after some time, or never. A disturbance.
    DelayRequest(usize),
    /// A request arrives, and again later. A disturbance.
    Duplicate(usize),
    /// A late response arrives.
    Deliver(usize),
    /// A resumed process takes the response that came although the request has timed out.
    TakeLateReply(usize),
    /// A resumed process takes the timeout although a response came.
    TimeOut(usize),
    /// A process crashes. A disturbance.
    Crash(usize),
    /// A process that ended restarts as a new candidate.
    Restart(usize),
    /// A process is suspended for some time. A disturbance.
    Freeze(usize),
    /// A suspended process resumes.
    Thaw(usize),
    /// A process receives a request to leave. A disturbance.
    Leave(usize),
    /// No request of a process arrives from now on. A disturbance, if leaders beat.
    CutOff(usize),
    /// Requests of a process arrive again.
    Reconnect(usize),
    /// A leader is ordered to hand over.
    HandOver(usize),
    /// Time passes until the next instant with a due event.
    Wait,
}

impl Action {
    /// Returns a short name of its kind.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Exchange(_) => "exchange",
            Self::DelayAnswer(_) => "answer delayed",
            Self::DelayRequest(_) => "request delayed",
            Self::Duplicate(_) => "request duplicated",
            Self::Deliver(_) => "late answer arrives",
            Self::TakeLateReply(_) => "answer taken after waking",
            Self::TimeOut(_) => "time-out taken after waking",
            Self::Crash(_) => "crash",
            Self::Restart(_) => "restart",
            Self::Freeze(_) => "freeze",
            Self::Thaw(_) => "thaw",
            Self::Leave(_) => "leave",
            Self::CutOff(_) => "cut off",
            Self::Reconnect(_) => "connected again",
            Self::HandOver(_) => "ordered to hand over",
            Self::Wait => "time passes",
        }
    }

    /// Returns true if it counts as a disturbance.
    pub fn is_disturbance(self) -> bool {
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
    /// Returns all actions that can follow.
    ///
    /// An action that affects only one process could also come before the other actions of the same
    /// instant. So it is only offered there, or directly after an action of that process.
    pub fn actions(&self) -> Vec<Action> {
        if let Some(ambiguous) = self.processes().find(|process| process.has_timeout_race(self.now))
        {
            return vec![
                Action::TakeLateReply(ambiguous.candidate),
                Action::TimeOut(ambiguous.candidate),
            ];
        }
        let mut actions = Vec::new();
        let may_disturb = |candidate| {
            self.disturbances_left > 0
                && self.last_candidate.is_none_or(|latest| latest == candidate)
        };
        for (index, request) in self.requests.iter().enumerate() {
            actions.push(Action::Exchange(index));
            if self.disturbances_left > 0 && request.is_awaited {
                actions.push(Action::DelayAnswer(index));
            }
            if self.disturbances_left > 0 && !request.is_late && !request.is_read() {
                actions.push(Action::Duplicate(index));
            }
            if may_disturb(request.candidate) && !request.is_late {
                actions.push(Action::DelayRequest(index));
            }
        }
        for (index, slot) in self.candidates.iter().enumerate() {
            let first = self.last_candidate.is_none();
            let Some(process) = &slot.process else {
                actions.extend(first.then_some(Action::Restart(index)));
                continue;
            };
            if first && process.has_late_reply() {
                actions.push(Action::Deliver(index));
            }
            if first && process.frozen {
                actions.push(Action::Thaw(index));
            }
            if first && slot.is_cut_off {
                actions.push(Action::Reconnect(index));
            }
            if may_disturb(index) && !slot.is_cut_off && self.scope.beats() {
                actions.push(Action::CutOff(index));
            }
            if may_disturb(index) {
                actions.push(Action::Crash(index));
            }
            if may_disturb(index) && !process.frozen {
                actions.push(Action::Freeze(index));
            }
            let is_staying = !process.frozen && process.leaving.is_none();
            if may_disturb(index) && is_staying {
                actions.push(Action::Leave(index));
            }
            let may_order =
                self.orders_left > 0 && self.last_candidate.is_none_or(|latest| latest == index);
            if may_order && is_staying && process.is_leading && process.in_flight.is_none() {
                actions.push(Action::HandOver(index));
            }
        }
        if self.next_instant().is_some() {
            actions.push(Action::Wait);
        }
        actions
    }

    /// Returns the next instant if time may pass until then.
    pub(super) fn next_instant(&self) -> Option<Instant> {
        if self.requests.iter().any(|request| !request.is_late) {
            return None;
        }
        let lease = self.oracle.lease_ends().map(|at| self.scope.instant(moment(at)));
        // A late response may arrive before any due event.
        let next_tick = self.awaits_late_reply().then_some(self.now + self.scope.bounds.tick);
        let due = self.processes().flat_map(Process::due_instants).chain(lease).chain(next_tick);
        due.filter(|at| (self.now + 1..=self.scope.bounds.seconds).contains(at)).min()
    }

    /// Returns true if a process waits for a late request or response, and has not timed out.
    fn awaits_late_reply(&self) -> bool {
        let has_late_request = |process: &Process| {
            let request =
                |sent: &RequestInFlight| sent.is_awaited && sent.candidate == process.candidate;
            process.has_late_reply() || self.requests.iter().any(request)
        };
        let is_waiting = |process: &Process| {
            process.in_flight.as_ref().is_some_and(|flight| flight.times_out_at > self.now)
        };
        self.processes().any(|process| is_waiting(process) && has_late_request(process))
    }
}
