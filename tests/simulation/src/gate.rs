//! What others can do to a process: pause it, kill it, ask it to leave.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tenure::engine::Order;
use tenure_core::{Report, Role};
use tokio::sync::{Notify, mpsc};

use super::fault::Step;
use super::history::{What, Who};
use super::supervisor::Told;
use super::world::{Millis, State};

/// One process, as far as others have a say in it.
#[derive(Debug)]
pub struct Process {
    /// On which machine.
    pub machine: usize,
    /// It stands still.
    pub paused: bool,
    /// It exists no more.
    pub over: bool,
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
    pub waiting: u32,
    /// The turn of its handler.
    pub turn: Option<TurnState>,
    /// It has a supervisor, and its work is a command.
    pub supervised: bool,
    /// Until when it leads by its newest report, on its own clock.
    pub leads_until: Duration,
    /// Since when no report asks its turn to end; none: the newest does.
    pub runs_on: Option<Millis>,
    /// The newest report asks its turn to end for a successor.
    pub gives_way: bool,
    /// What it told its supervisor.
    pub told: Told,
    /// The term of the work that outlives it.
    pub orphan: Option<u64>,
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
    pub works: bool,
}

/// What a process may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Go on.
    Open,
    /// Stand still; the waker that asked is woken when that ends.
    Paused,
    /// Nothing, for ever.
    Over,
}

impl Process {
    /// A process that has just been started.
    #[must_use]
    pub fn on(machine: usize, supervised: bool) -> Self {
        Self {
            machine,
            paused: false,
            over: false,
            leaving: false,
            step_fails: false,
            orders: None,
            hints: Arc::default(),
            step: Step::Look,
            waiting: 0,
            turn: None,
            supervised,
            leads_until: Duration::ZERO,
            runs_on: Some(0),
            gives_way: false,
            told: Told::default(),
            orphan: None,
            term: 0,
            transfers: Vec::new(),
            wakers: Vec::new(),
        }
    }

    /// What it may do now. Whoever asks is woken by every change.
    pub fn gate(&mut self, waker: &Waker) -> Gate {
        if self.over {
            return Gate::Over;
        }
        if !self.wakers.iter().any(|known| known.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
        if self.paused { Gate::Paused } else { Gate::Open }
    }

    /// Whoever looked at the gate last is woken first.
    pub fn turn_wakers(&mut self) {
        self.wakers.reverse();
    }

    /// Wakes whoever looks at the gate.
    pub fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

impl State {
    /// Takes the report of a step that began at `taken_at` on the process's own clock.
    pub fn reports(&mut self, now: Millis, who: Who, report: &Report, taken_at: Duration) {
        let process = &mut self.processes[who];
        process.leads_until = match &report.role {
            Role::Leading(leadership) => taken_at + leadership.valid_for,
            _ => Duration::ZERO,
        };
        process.runs_on = process.runs_on.or(Some(now)).filter(|_| !report.wind_down);
        process.told.stepped(report, taken_at);
        let gives_way = report.wind_down && report.successor.is_some();
        if std::mem::replace(&mut process.gives_way, gives_way) != gives_way {
            self.note(now, What::WindsDown(who, gives_way));
        }
    }

    /// The process stands still from now on.
    pub fn pause(&mut self, now: Millis, who: Who) {
        let process = &mut self.processes[who];
        process.paused = true;
        let turn = process.turn.filter(|turn| turn.works);
        if let Some(turn) = turn {
            process.turn = Some(TurnState { works: false, ..turn });
            self.note(now, What::Rests(who, turn.term));
        }
        self.note(now, What::Paused(who));
    }

    /// The process goes on, if it still exists.
    pub fn resume(&mut self, now: Millis, who: Who) {
        if self.processes[who].over {
            return;
        }
        self.processes[who].paused = false;
        self.note(now, What::Resumed(who));
        // The runner and the handler are threads: either may be the first to go on.
        if self.faults.once_in(2) {
            self.processes[who].turn_wakers();
        }
        self.processes[who].wake();
    }

    /// The process ends, and nothing of it goes on.
    pub fn kill(&mut self, now: Millis, who: Who) {
        let process = &mut self.processes[who];
        if process.supervised && process.turn.is_some_and(|turn| turn.works) {
            process.orphan = process.turn.take().map(|turn| turn.term);
        }
        self.end_turn(now, who);
        self.note(now, What::Killed(who));
        let process = &mut self.processes[who];
        process.over = true;
        process.wake();
        self.news.notify_one();
    }

    /// The process is asked to leave the election.
    pub fn tell_to_leave(&mut self, now: Millis, who: Who) {
        if !self.processes[who].leaving {
            self.processes[who].leaving = true;
            self.note(now, What::ToldToLeave(who));
            self.processes[who].wake();
        }
    }

    /// An operator tells it to hand over to the candidate of a name: to the one on the machine
    /// `successor`, if that one is able to take it and the only one of that name.
    pub fn tell_to_hand_over(
        &mut self,
        now: Millis,
        who: Who,
        name: usize,
        successor: Option<usize>,
    ) {
        if self.order(who, Order::HandOver(format!("m{name}"))) {
            self.note(now, What::ToldToHandOver(who, name, successor));
        }
    }

    /// An operator orders something. More than it can take in are lost, as with a listener: not
    /// taken in.
    pub fn order(&mut self, who: Who, order: Order) -> bool {
        let orders = self.processes[who].orders.as_ref();
        orders.is_some_and(|orders| orders.try_send(order).is_ok())
    }

    /// Nothing of the process's turn is there any more.
    pub fn end_turn(&mut self, now: Millis, who: Who) {
        let Some(turn) = self.processes[who].turn.take() else { return };
        if turn.works {
            self.note(now, What::Rests(who, turn.term));
        }
        self.note(now, What::TurnOver(who, turn.term));
    }
}
