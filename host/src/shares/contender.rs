//! A candidate that runs beside the task that began it.

use crate::clock::BootClock;
use crate::component::{CheckError, ElectionComponent};
use crate::contract::{Report, Role};
use crate::runner::{Order, Runner};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;

/// After so many reports in which a leader names no successor, an order to hand over came to nothing. One report may be
/// of a step that was under way when it was ordered.
const REPORTS: u64 = 3;

/// A candidate of the whole, or of a share.
pub(super) struct Contender {
    seen: Seen,
    orders: mpsc::Sender<Order>,
    leave: watch::Sender<bool>,
    /// To whom it was ordered to hand over, and after how many reports.
    ordered: Option<(String, u64)>,
}

/// What it showed.
#[derive(Clone)]
struct Seen {
    now: Arc<Mutex<Shown>>,
    changed: Arc<Notify>,
}

#[derive(Clone, Debug, Default)]
struct Shown {
    /// Its term, and until when it may act.
    leads: Option<(u64, Duration)>,
    /// To whom it hands over.
    successor: Option<String>,
    reports: u64,
    is_over: bool,
}

impl Contender {
    /// Begins one. `changed` is told of whatever may be news, and `refused` of what is wrong with its settings.
    pub fn begin(
        runner: Runner<ElectionComponent, BootClock>,
        refused: impl FnOnce(CheckError) + Send + 'static,
        changed: &Arc<Notify>,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let seen = Seen { now: Arc::default(), changed: changed.clone() };
        let (orders, mut ordered) = mpsc::channel(8);
        let (leave, over) = (watch::Sender::new(false), Over(seen.clone()));
        let mut asked = leave.subscribe();
        let reported = seen.clone();
        let runner = runner.on_report(move |report, at| reported.report(report, at));
        tasks.spawn(async move {
            // However it ends.
            let _over = over;
            let leave = async {
                if asked.wait_for(|leave| *leave).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            match runner.elector().check().await {
                Ok(_) => runner.run_with(leave, &mut ordered).await,
                Err(error) => {
                    refused(error);
                    leave.await;
                }
            }
        });
        Self { seen, orders, leave, ordered: None }
    }

    /// The term in which it leads at `now`.
    pub fn leads(&self, now: Duration) -> Option<u64> {
        self.seen.now().leads.filter(|(_, until)| now < *until).map(|(term, _)| term)
    }

    /// The one that it hands over to, or was ordered to.
    pub fn gives_to(&self) -> Option<String> {
        let shown = self.seen.now();
        let ordered = self.ordered.as_ref().filter(|(_, at)| shown.reports < at + REPORTS);
        shown.successor.clone().or_else(|| ordered.map(|(to, _)| to.clone()))
    }

    /// It has left.
    pub fn is_over(&self) -> bool {
        self.seen.now().is_over
    }

    /// Has it hand over to the candidate of that name.
    pub fn hand_over(&mut self, to: String) {
        let reports = self.seen.now().reports;
        // Where there is no room it has not come to the orders before; it is ordered again.
        if self.orders.try_send(Order::HandOver(to.clone())).is_ok() {
            self.ordered = Some((to, reports));
        }
    }

    /// Has it leave.
    pub fn leave(&self) {
        self.leave.send_replace(true);
    }
}

impl Seen {
    fn now(&self) -> MutexGuard<'_, Shown> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of a report that is counted from `at`.
    fn report(&self, report: &Report, at: Duration) {
        let leads = match &report.role {
            Role::Leading(now) => Some((now.term, at + Duration::from_nanos(now.valid_for))),
            _ => None,
        };
        let mut shown = self.now();
        let term = |leads: Option<(u64, Duration)>| leads.map(|(term, _)| term);
        let is_news = term(shown.leads) != term(leads) || shown.successor != report.successor;
        shown.reports += 1;
        (shown.leads, shown.successor) = (leads, report.successor.clone());
        drop(shown);
        if is_news {
            self.changed.notify_one();
        }
    }
}

/// Says at its end that the candidate has left.
struct Over(Seen);

impl Drop for Over {
    fn drop(&mut self) {
        let mut shown = self.0.now();
        (shown.leads, shown.successor, shown.is_over) = (None, None, true);
        drop(shown);
        self.0.changed.notify_one();
    }
}
