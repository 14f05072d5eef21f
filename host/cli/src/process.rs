//! The elections of a process, which come and go while others work.

use super::candidacy::{Candidacy, Front};
use super::configuration::Configuration;
use super::descriptors;
use super::judged::{Shared, leave_wills};
use super::log::{Log, Whose};
use super::supervisor::{self, Link};
use super::telemetry::Telemetry;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenure::engine::{Leave, Order, Task, Tasks};
use tenure::{Class, Event};
use tenure_clock::Clock as _;
use tenure_core::ProblemClass;
use tenure_members::Place;
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
    pub short: AtomicBool,
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
        place: Option<&Place>,
    ) -> Option<Handle> {
        if let Some(detail) = descriptors::make_room(self.roster.count() + 1)
            && !self.short.swap(true, Ordering::Relaxed)
        {
            self.log.event(&Event::Note { detail });
        }
        configuration.default_address(self.address);
        configuration.host_on_record().iter().for_each(|host| self.hosts.add(host));
        if let Some(link) = &self.link {
            leave_wills(std::slice::from_mut(&mut configuration), Some(link));
        }
        let whose = configuration.whose();
        let log = self.log.of(&whose);
        let front = Front::new(&configuration, &self.shared.clock);
        let board = front.board.clone();
        let judged = self.shared.judge(&mut configuration, log.clone(), front).await;
        let why = match judged {
            Ok(Some(candidacy)) if configuration.complaints.is_empty() => {
                self.roster.add(board);
                candidacy.begin(&[]);
                return Some(self.begin(candidacy, whose, Duration::ZERO, place));
            }
            Ok(_) => configuration.complaints.iter().map(ToString::to_string).collect(),
            Err(problem) => vec![problem],
        };
        let class = Class::Election(ProblemClass::Configuration);
        for why in why {
            let detail = format!("this election was not added: {why}");
            log.event(&Event::Problem { class, detail });
        }
        None
    }

    /// Has a candidate contend after `wait`. It is on the roster. One with a place leaves only when its handle says so.
    pub(super) fn begin(
        &self,
        candidacy: Candidacy,
        whose: Whose,
        wait: Duration,
        place: Option<&Place>,
    ) -> Handle {
        candidacy.board.begins(self.shared.clock.now());
        let witness = self.telemetry.witness(&whose);
        let supervisor = self.link.clone().map(|link| {
            let of = supervisor::add(&link, &whose);
            (link, of)
        });
        let (roster, board, changed) =
            (self.roster.clone(), candidacy.board.clone(), self.changed.clone());
        let (orders, is_placed) = (candidacy.order.clone(), place.is_some());
        let mut contender = candidacy.contender(
            self.shared.clock.clone(),
            &self.changed,
            &self.watcher,
            supervisor.clone(),
            witness,
            place,
        );
        // A task of its own, so that what happens in one election is no work for the others.
        let task = self.tasks.add(|leave| async move {
            let asked = async |leave: Leave| match is_placed {
                true => leave.asked_itself().await,
                false => leave.asked().await,
            };
            let _ = timeout(wait, asked(leave.clone())).await;
            contender.run(pin!(asked(leave.clone()))).await;
            contender.end().await;
            // At the end of the process it is shown that all have left.
            if leave.is_alone() {
                roster.remove(&board);
                if let Some((link, of)) = supervisor {
                    link.remove(of);
                }
                changed.notify_one();
            }
        });
        Handle { task, orders }
    }

    /// Ends what still runs, and sends what a collector is to have, if it takes it within `patience`.
    pub(super) async fn end(&self, patience: Duration) {
        self.tasks.abort().await;
        self.telemetry.end(patience).await;
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
        self.task.ended().await;
    }

    /// Gives its candidate an order.
    pub(super) async fn order(&self, order: Order) {
        // One that has left obeys nobody.
        let _ = self.orders.send(order).await;
    }
}
