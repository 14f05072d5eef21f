//! State of a process, and the actions of outsiders on it: pause, kill, ask to leave.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tenure::engine::Order;
use tenure_core::{Report, Role};
use tokio::sync::{Notify, mpsc};

use super::fault::Step;
use super::history::{CandidateId, HistoryEvent};
use super::supervisor::LastWills;
use super::world::{Millis, State};

/// State of one process, as far as outsiders can change it.
#[derive(Debug)]
pub struct Process {
    /// Machine of the process.
    pub machine: usize,
    /// True while the process is suspended.
    pub paused: bool,
    /// Start of its newest suspension.
    paused_at: Millis,
    /// Total duration of its ended suspensions.
    pub suspended_for: Millis,
    /// True once the process has exited.
    pub has_exited: bool,
    /// True once the process received a request to leave.
    pub leaving: bool,
    /// True if its current or next step must fail.
    pub step_fails: bool,
    /// Channel for operators' orders.
    pub orders: Option<mpsc::Sender<Order>>,
    /// Notified of hints.
    pub hints: Arc<Notify>,
    /// Last protocol step.
    pub step: Step,
    /// Number of requests without a response.
    pub pending_requests: u32,
    /// Turn of its handler.
    pub turn: Option<TurnState>,
    /// True if the process has a supervisor, and its work is a command.
    pub supervised: bool,
    /// End of its leadership by its newest report, on its own clock.
    pub leads_until: Duration,
    /// Time since when no report asks its turn to end; `None` if the newest report does.
    pub no_wind_down_since: Option<Millis>,
    /// True if the newest report asks its turn to end for a successor.
    pub winds_down_for_successor: bool,
    /// Last wills that it sent to its supervisor.
    pub last_wills: LastWills,
    /// Term of the work that outlives it.
    pub orphaned_term: Option<u64>,
    /// Newest term that it raised.
    pub term: u64,
    /// Transfers of that term that it read.
    pub transfers: Vec<usize>,
    /// Wakers of tasks that wait for it to resume.
    wakers: Vec<Waker>,
}

/// Turn that a process runs.
#[derive(Clone, Copy, Debug)]
pub struct TurnState {
    /// Term of the turn.
    pub term: u64,
    /// True if the turn has started and was neither ended nor interrupted.
    pub is_working: bool,
}

/// Permission for a process to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The process may run.
    Open,
    /// The process must wait; the caller's waker is woken when that changes.
    Paused,
    /// The process never runs again.
    Exited,
}

impl Process {
    /// Creates the state of a process that has just started.
    #[must_use]
    pub fn new(machine: usize, supervised: bool) -> Self {
        Self {
            machine,
            paused: false,
            paused_at: 0,
            suspended_for: 0,
            has_exited: false,
            leaving: false,
            step_fails: false,
            orders: None,
            hints: Arc::default(),
            step: Step::Poll,
            pending_requests: 0,
            turn: None,
            supervised,
            leads_until: Duration::ZERO,
            no_wind_down_since: Some(0),
            winds_down_for_successor: false,
            last_wills: LastWills::default(),
            orphaned_term: None,
            term: 0,
            transfers: Vec::new(),
            wakers: Vec::new(),
        }
    }

    /// Returns the current permission. Every change wakes `waker`.
    pub fn gate(&mut self, waker: &Waker) -> Gate {
        if self.has_exited {
            return Gate::Exited;
        }
        if !self.wakers.iter().any(|registered| registered.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
        if self.paused { Gate::Paused } else { Gate::Open }
    }

    /// Reverses the order of wakers: the last caller of `gate` is woken first.
    pub fn reverse_wakers(&mut self) {
        self.wakers.reverse();
    }

    /// Wakes all callers of `gate`.
    pub fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

impl State {
    /// Applies the report of a step that began at `started_at` on the process's own clock.
    pub fn on_report(
        &mut self,
        now: Millis,
        candidate: CandidateId,
        report: &Report,
        started_at: Duration,
    ) {
        let process = &mut self.processes[candidate];
        process.leads_until = match &report.role {
            Role::Leading(leadership) => started_at + leadership.valid_for,
            _ => Duration::ZERO,
        };
        process.no_wind_down_since =
            process.no_wind_down_since.or(Some(now)).filter(|_| !report.wind_down);
        process.last_wills.on_report(report, started_at);
        let winds_down = report.wind_down && report.successor.is_some();
        if std::mem::replace(&mut process.winds_down_for_successor, winds_down) != winds_down {
            self.note(now, HistoryEvent::WindDown(candidate, winds_down));
        }
    }

    /// Suspends the process.
    pub fn pause(&mut self, now: Millis, candidate: CandidateId) {
        let process = &mut self.processes[candidate];
        (process.paused, process.paused_at) = (true, now);
        let turn = process.turn.filter(|turn| turn.is_working);
        if let Some(turn) = turn {
            process.turn = Some(TurnState { is_working: false, ..turn });
            self.note(now, HistoryEvent::WorkStopped(candidate, turn.term));
        }
        self.note(now, HistoryEvent::Paused(candidate));
    }

    /// Resumes the process, if it still exists.
    pub fn resume(&mut self, now: Millis, candidate: CandidateId) {
        if self.processes[candidate].has_exited {
            return;
        }
        let process = &mut self.processes[candidate];
        process.paused = false;
        process.suspended_for += now - process.paused_at;
        self.note(now, HistoryEvent::Resumed(candidate));
        // The runner and the handler are threads: either may resume first.
        if self.faults.once_in(2) {
            self.processes[candidate].reverse_wakers();
        }
        self.processes[candidate].wake();
    }

    /// Ends the process and all of its tasks.
    pub fn kill(&mut self, now: Millis, candidate: CandidateId) {
        let process = &mut self.processes[candidate];
        if process.supervised && process.turn.is_some_and(|turn| turn.is_working) {
            process.orphaned_term = process.turn.take().map(|turn| turn.term);
        }
        self.end_turn(now, candidate);
        self.note(now, HistoryEvent::Killed(candidate));
        let process = &mut self.processes[candidate];
        process.has_exited = true;
        process.wake();
        self.leadership_changed.notify_one();
    }

    /// Asks the process to leave the election.
    pub fn request_leave(&mut self, now: Millis, candidate: CandidateId) {
        if !self.processes[candidate].leaving {
            self.processes[candidate].leaving = true;
            self.note(now, HistoryEvent::LeaveRequested(candidate));
            self.processes[candidate].wake();
        }
    }

    /// Gives an operator's order to hand over to the candidate of a name.
    ///
    /// The order means the candidate on machine `successor`, if that one can take over and its name
    /// is unique.
    pub fn order_handover(
        &mut self,
        now: Millis,
        candidate: CandidateId,
        name: usize,
        successor: Option<usize>,
    ) {
        if self.order(candidate, Order::HandOver(format!("m{name}"))) {
            self.note(now, HistoryEvent::HandoverOrdered(candidate, name, successor));
        }
    }

    /// Gives an operator's order. Returns false if the queue is full and the order is lost, as with
    /// a listener.
    pub fn order(&mut self, candidate: CandidateId, order: Order) -> bool {
        let orders = self.processes[candidate].orders.as_ref();
        orders.is_some_and(|orders| orders.try_send(order).is_ok())
    }

    /// Removes the last trace of the process's turn.
    pub fn end_turn(&mut self, now: Millis, candidate: CandidateId) {
        let Some(turn) = self.processes[candidate].turn.take() else { return };
        if turn.is_working {
            self.note(now, HistoryEvent::WorkStopped(candidate, turn.term));
        }
        self.note(now, HistoryEvent::TurnOver(candidate, turn.term));
    }
}
