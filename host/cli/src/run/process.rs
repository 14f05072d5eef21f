//! The elections of a process, which can be added and removed while others run.

use super::candidacy::{Candidacy, CandidateFront};
use super::startup::{Shared, enable_last_wills, raise_descriptor_limit};
use crate::configuration::Configuration;
use crate::output::log::{Log, LogContext};
use crate::output::telemetry::Telemetry;
use crate::supervisor::{self, Link};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenure::engine::{LeaveSignal, Order, Task, Tasks};
use tenure::{Event, ProblemKind};
use tenure_clock::Clock as _;
use tenure_core::ProblemClass;
use tenure_members::CandidateContext;
use tenure_server::{Hosts, Roster, Watcher};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

/// A process that runs elections: its candidates, and the state that they share.
pub(crate) struct Process {
    pub shared: Shared,
    pub tasks: Tasks,
    pub roster: Roster,
    /// The host names by which clients may address the listener.
    pub hosts: Hosts,
    /// Notified of each change of the visible state.
    pub changed: Arc<Notify>,
    pub watcher: Arc<Watcher>,
    pub telemetry: Telemetry,
    /// None without a supervisor.
    pub link: Option<Arc<Link>>,
    /// Address of the listener. None without a listener.
    pub address: Option<SocketAddr>,
    pub log: Log,
    pub has_warned_of_descriptors: AtomicBool,
}

/// Handle to a candidate that was started. Dropping it does not end the candidate.
pub(crate) struct Handle {
    task: Task,
    orders: mpsc::Sender<Order>,
}

impl Process {
    /// Adds an election while others run. `member_side` connects the candidate of a share with its
    /// member; other candidates have none. If the election cannot start, reports the problem and
    /// returns none.
    pub(crate) async fn add(
        &self,
        mut configuration: Configuration,
        member_side: Option<&CandidateContext>,
    ) -> Option<Handle> {
        if let Some(detail) = raise_descriptor_limit(self.roster.count() + 1)
            && !self.has_warned_of_descriptors.swap(true, Ordering::Relaxed)
        {
            self.log.event(&Event::Note { detail });
        }
        configuration.default_address(self.address);
        configuration.recorded_host().iter().for_each(|host| self.hosts.add(host));
        if let Some(link) = &self.link {
            enable_last_wills(std::slice::from_mut(&mut configuration), Some(link));
        }
        let context = configuration.log_context();
        let log = self.log.for_candidate(&context);
        let front = CandidateFront::new(&configuration, &self.shared.clock);
        let board = front.board.clone();
        let prepared = self.shared.prepare(&mut configuration, log.clone(), front).await;
        let reasons = match prepared {
            Ok(Some(candidacy)) if configuration.complaints.is_empty() => {
                self.roster.add(board);
                candidacy.log_start(&[]);
                return Some(self.start(candidacy, context, Duration::ZERO, member_side));
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

    /// Starts a candidate of the roster after `wait`. `member_side` connects a share's candidate or
    /// the coordinating candidate with its member. Such a candidate leaves only when its handle
    /// requests it: its member first hands the shares over when the process leaves.
    pub(crate) fn start(
        &self,
        candidacy: Candidacy,
        context: LogContext,
        wait: Duration,
        member_side: Option<&CandidateContext>,
    ) -> Handle {
        candidacy.board.start(self.shared.clock.now());
        let telemetry = self.telemetry.for_candidate(&context);
        let supervisor = self.link.clone().map(|link| {
            let number = supervisor::add(&link, &context);
            (link, number)
        });
        let (roster, board, changed) =
            (self.roster.clone(), candidacy.board.clone(), self.changed.clone());
        let (orders, has_member) = (candidacy.order.clone(), member_side.is_some());
        let mut contender = candidacy.into_contender(
            self.shared.clock.clone(),
            &self.changed,
            &self.watcher,
            supervisor.clone(),
            telemetry,
            member_side,
        );
        // Each candidate has its own task, so that events of one election cost the others no work.
        let task = self.tasks.add(|leave| async move {
            let leave_requested = async |leave: LeaveSignal| match has_member {
                true => leave.requested_for_task().await,
                false => leave.requested().await,
            };
            let _ = timeout(wait, leave_requested(leave.clone())).await;
            contender.run(pin!(leave_requested(leave.clone()))).await;
            contender.end().await;
            // When the whole process ends, the roster still shows all candidates, as having left.
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

    /// Ends the remaining tasks, and sends the last telemetry, for `patience` at most.
    pub(crate) async fn shut_down(&self, patience: Duration) {
        self.tasks.abort().await;
        self.telemetry.shut_down(patience).await;
    }
}

impl Handle {
    /// Leaves the election: stops its work, and releases its lease. Dropping this future does not
    /// stop that.
    pub(crate) async fn remove(mut self) {
        self.task.leave();
        self.ended().await;
    }

    /// Waits until the candidate has left.
    pub(crate) async fn ended(&mut self) {
        self.task.join().await;
    }

    pub(crate) async fn order(&self, order: Order) {
        // A candidate that has left ignores orders.
        let _ = self.orders.send(order).await;
    }
}
