//! What others can do to a process: pause it, kill it, ask it to leave.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tenure::engine::Order;
use tenure_core::{Report, Role};
use tokio::sync::{Notify, mpsc};

use super::fault::Step;
use super::history::{HistoryEvent, CandidateId};
use super::supervisor::LastWills;
use super::world::{Millis, State};

/// One process, as far as others have a say in it.
#[derive(Debug)]
pub struct Process {
    /// On which machine.
    pub machine: usize,
    /// It stands still.
    pub paused: bool,
    /// It exists no more.
    pub has_exited: bool,
    /// It was asked to leave.
    pub leaving: bool,
    /// Its next step fails, or the one that it is in.
    pub step_fails: bool,
    /// Takes orders of operators.
    pub orders: Option<mpsc::Sender<Order>>,
    /// Takes hints.
    pub hints: Arc<Notify>,
    /// Where it was last.
    pub step: Step,
    /// Requests that it waits for.
    pub pending_requests: u32,
    /// The turn of its handler.
    pub turn: Option<TurnState>,
    /// It has a supervisor, and its work is a command.
    pub supervised: bool,
    /// Until when it leads by its newest report, on its own clock.
    pub leads_until: Duration,
    /// Since when no report asks its turn to end; none: the newest does.
    pub no_wind_down_since: Option<Millis>,
    /// The newest report asks its turn to end for a successor.
    pub winds_down_for_successor: bool,
    /// What it told its supervisor.
    pub last_wills: LastWills,
    /// The term of the work that outlives it.
    pub orphaned_term: Option<u64>,
    /// The newest term that it raised.
    pub term: u64,
    /// The transfers of that term that it read.
    pub transfers: Vec<usize>,
    /// Who waits for it to go on.
    wakers: Vec<Waker>,
}

/// The turn that a process runs.
#[derive(Clone, Copy, Debug)]
pub struct TurnState {
    /// Under which term.
    pub term: u64,
    /// It has begun, and neither ended nor been interrupted.
    pub is_working: bool,
}

/// What a process may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Go on.
    Open,
    /// Stand still; the waker that asked is woken when that ends.
    Paused,
    /// Nothing, for ever.
    Exited,
}

impl Process {
    /// A process that has just been started.
    #[must_use]
    pub fn new(machine: usize, supervised: bool) -> Self {
        Self {
            machine,
            paused: false,
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

    /// What it may do now. Whoever asks is woken by every change.
    pub fn gate(&mut self, waker: &Waker) -> Gate {
        if self.has_exited {
            return Gate::Exited;
        }
        if !self.wakers.iter().any(|registered| registered.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
        if self.paused { Gate::Paused } else { Gate::Open }
    }

    /// Whoever looked at the gate last is woken first.
    pub fn reverse_wakers(&mut self) {
        self.wakers.reverse();
    }

    /// Wakes whoever looks at the gate.
    pub fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

impl State {
    /// Takes the report of a step that began at `taken_at` on the process's own clock.
    pub fn on_report(&mut self, now: Millis, candidate: CandidateId, report: &Report, started_at: Duration) {
        let process = &mut self.processes[candidate];
        process.leads_until = match &report.role {
            Role::Leading(leadership) => started_at + leadership.valid_for,
            _ => Duration::ZERO,
        };
        process.no_wind_down_since = process.no_wind_down_since.or(Some(now)).filter(|_| !report.wind_down);
        process.last_wills.on_report(report, started_at);
        let winds_down = report.wind_down && report.successor.is_some();
        if std::mem::replace(&mut process.winds_down_for_successor, winds_down) != winds_down {
            self.note(now, HistoryEvent::WindDown(candidate, winds_down));
        }
    }

    /// The process stands still from now on.
    pub fn pause(&mut self, now: Millis, candidate: CandidateId) {
        let process = &mut self.processes[candidate];
        process.paused = true;
        let turn = process.turn.filter(|turn| turn.is_working);
        if let Some(turn) = turn {
            process.turn = Some(TurnState { is_working: false, ..turn });
            self.note(now, HistoryEvent::WorkStopped(candidate, turn.term));
        }
        self.note(now, HistoryEvent::Paused(candidate));
    }

    /// The process goes on, if it still exists.
    pub fn resume(&mut self, now: Millis, candidate: CandidateId) {
        if self.processes[candidate].has_exited {
            return;
        }
        self.processes[candidate].paused = false;
        self.note(now, HistoryEvent::Resumed(candidate));
        // The runner and the handler are threads: either may be the first to go on.
        if self.faults.once_in(2) {
            self.processes[candidate].reverse_wakers();
        }
        self.processes[candidate].wake();
    }

    /// The process ends, and nothing of it goes on.
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

    /// The process is asked to leave the election.
    pub fn request_leave(&mut self, now: Millis, candidate: CandidateId) {
        if !self.processes[candidate].leaving {
            self.processes[candidate].leaving = true;
            self.note(now, HistoryEvent::LeaveRequested(candidate));
            self.processes[candidate].wake();
        }
    }

    /// An operator tells it to hand over to the candidate of a name: to the one on the machine
    /// `successor`, if that one is able to take it and the only one of that name.
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

    /// An operator orders something. More than it can take in are lost, as with a listener: not
    /// taken in.
    pub fn order(&mut self, candidate: CandidateId, order: Order) -> bool {
        let orders = self.processes[candidate].orders.as_ref();
        orders.is_some_and(|orders| orders.try_send(order).is_ok())
    }

    /// Nothing of the process's turn is there any more.
    pub fn end_turn(&mut self, now: Millis, candidate: CandidateId) {
        let Some(turn) = self.processes[candidate].turn.take() else { return };
        if turn.is_working {
            self.note(now, HistoryEvent::WorkStopped(candidate, turn.term));
        }
        self.note(now, HistoryEvent::TurnOver(candidate, turn.term));
    }
}
