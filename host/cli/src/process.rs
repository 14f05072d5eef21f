//! The elections of a process, which come and go while others work.

use super::candidacy::{Candidacy, Front};
use super::configuration::Configuration;
use super::descriptors;
use super::judged::{Shared, leave_wills};
use super::log::{Log, LogContext};
use super::supervisor::{self, Link};
use super::telemetry::Telemetry;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenure::engine::{LeaveSignal, Order, Task, Tasks};
use tenure::{ProblemKind, Event};
use tenure_clock::Clock as _;
use tenure_core::ProblemClass;
use tenure_members::CandidateContext;
use tenure_server::{Hosts, Roster, Watcher};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

/// What the candidates of this process have in common, and who they are.
pub(super) struct Process {
    pub shared: Shared,
    pub tasks: Tasks,
    pub roster: Roster,
    /// The names by which the listener may be asked.
    pub hosts: Hosts,
    /// Hears of everything that becomes different.
    pub changed: Arc<Notify>,
    pub watcher: Arc<Watcher>,
    pub telemetry: Telemetry,
    /// None: there is no supervisor.
    pub link: Option<Arc<Link>>,
    /// Where it listens.
    pub address: Option<SocketAddr>,
    pub log: Log,
    /// It was told that there are too few descriptors.
    pub has_warned_of_descriptors: AtomicBool,
}

/// An election that was added. It goes on when this is dropped.
pub(super) struct Handle {
    task: Task,
    orders: mpsc::Sender<Order>,
}

impl Process {
    /// Adds an election while others work, with a place for its candidate where it is one of shares. None: it cannot
    /// begin, and why was told as a problem of it.
    pub(super) async fn add(
        &self,
        mut configuration: Configuration,
        place: Option<&CandidateContext>,
    ) -> Option<Handle> {
        if let Some(detail) = descriptors::raise_limit(self.roster.count() + 1)
            && !self.has_warned_of_descriptors.swap(true, Ordering::Relaxed)
        {
            self.log.event(&Event::Note { detail });
        }
        configuration.default_address(self.address);
        configuration.recorded_host().iter().for_each(|host| self.hosts.add(host));
        if let Some(link) = &self.link {
            leave_wills(std::slice::from_mut(&mut configuration), Some(link));
        }
        let context = configuration.log_context();
        let log = self.log.for_candidate(&context);
        let front = Front::new(&configuration, &self.shared.clock);
        let board = front.board.clone();
        let prepared = self.shared.prepare(&mut configuration, log.clone(), front).await;
        let reasons = match prepared {
            Ok(Some(candidacy)) if configuration.complaints.is_empty() => {
                self.roster.add(board);
                candidacy.log_start(&[]);
                return Some(self.start(candidacy, context, Duration::ZERO, place));
            }
            Ok(_) => configuration.complaints.iter().map(ToString::to_string).collect(),
            Err(problem) => vec![problem],
        };
        let class = ProblemKind::Election(ProblemClass::Configuration);
        for reason in reasons {
            let detail = format!("this election was not added: {reason}");
            log.event(&Event::Problem { class, detail });
        }
        None
    }

    /// Has a candidate contend after `wait`. It is on the roster. One with a place leaves only when its handle says so.
    pub(super) fn start(
        &self,
        candidacy: Candidacy,
        context: LogContext,
        wait: Duration,
        place: Option<&CandidateContext>,
    ) -> Handle {
        candidacy.board.start(self.shared.clock.now());
        let telemetry = self.telemetry.for_candidate(&context);
        let supervisor = self.link.clone().map(|link| {
            let number = supervisor::add(&link, &context);
            (link, number)
        });
        let (roster, board, changed) =
            (self.roster.clone(), candidacy.board.clone(), self.changed.clone());
        let (orders, is_placed) = (candidacy.order.clone(), place.is_some());
        let mut contender = candidacy.into_contender(
            self.shared.clock.clone(),
            &self.changed,
            &self.watcher,
            supervisor.clone(),
            telemetry,
            place,
        );
        // A task of its own, so that what happens in one election is no work for the others.
        let task = self.tasks.add(|leave| async move {
            let leave_requested = async |leave: LeaveSignal| match is_placed {
                true => leave.requested_for_task().await,
                false => leave.requested().await,
            };
            let _ = timeout(wait, leave_requested(leave.clone())).await;
            contender.run(pin!(leave_requested(leave.clone()))).await;
            contender.end().await;
            // At the end of the process it is shown that all have left.
            if leave.is_for_task_only() {
                roster.remove(&board);
                if let Some((link, number)) = supervisor {
                    link.remove_candidate(number);
                }
                changed.notify_one();
            }
        });
        Handle { task, orders }
    }

    /// Ends what still runs, and sends what a collector is to have, if it takes it within `patience`.
    pub(super) async fn shut_down(&self, patience: Duration) {
        self.tasks.abort().await;
        self.telemetry.shut_down(patience).await;
    }
}

impl Handle {
    /// Leaves the election: stops its work, and releases its lease. Completes when that is over; dropped before, it
    /// goes on.
    pub(super) async fn remove(mut self) {
        self.task.leave();
        self.ended().await;
    }

    /// Completes when it has left.
    pub(super) async fn ended(&mut self) {
        self.task.join().await;
    }

    /// Gives its candidate an order.
    pub(super) async fn order(&self, order: Order) {
        // One that has left obeys nobody.
        let _ = self.orders.send(order).await;
    }
}
