//! A coordinating candidate or one of a share, as the member knows it that began it, and the place that it is given.

use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure::engine::Order;
use tenure_core::{Report, Role};
use tokio::select;
use tokio::sync::{Notify, mpsc, watch};

/// After so many reports in which a leader names no successor, an order to hand over came to nothing. One report may be
/// of a step that was under way when it was ordered.
const REPORTS: u64 = 3;

/// So many orders may wait.
const ORDERS: usize = 8;

/// A candidate that was begun.
pub(super) struct Contender {
    seen: Seen,
    orders: mpsc::Sender<Order>,
    leave: watch::Sender<bool>,
    /// To whom it was ordered to hand over, and after how many reports.
    ordered: Option<(String, u64)>,
}

/// The place where a candidate and its member meet: the member sees the candidate's reports, and the candidate gets its orders.
/// The candidate is over when this is dropped, and all that it was [kept](Place::kept) for.
pub struct Place {
    over: Arc<Over>,
    orders: mpsc::Receiver<Order>,
    leave: watch::Receiver<bool>,
}

/// The state that a candidate showed.
#[derive(Clone)]
struct Seen {
    now: Arc<Mutex<Shown>>,
    changed: Arc<Notify>,
}

/// Tells that the candidate is over when it is dropped.
struct Over(Seen);

#[derive(Clone, Debug, Default)]
struct Shown {
    /// Its term, and until when it may act.
    leads: Option<(u64, Duration)>,
    /// To whom it hands over.
    successor: Option<String>,
    reports: u64,
    /// The newest leader that is known coordinates shares.
    coordinated: bool,
    has_left: bool,
    is_over: bool,
}

impl Contender {
    /// One that is to be begun at that place. `changed` is told of whatever may be news.
    pub fn new(changed: &Arc<Notify>) -> (Self, Place) {
        let seen = Seen { now: Arc::default(), changed: changed.clone() };
        let (orders, ordered) = mpsc::channel(ORDERS);
        let (leave, asked) = watch::channel(false);
        let place = Place { over: Arc::new(Over(seen.clone())), orders: ordered, leave: asked };
        (Self { seen, orders, leave, ordered: None }, place)
    }

    /// The term in which it leads at `now`.
    pub fn leads(&self, now: Duration) -> Option<u64> {
        self.seen.now().leads.filter(|(_, until)| now < *until).map(|(term, _)| term)
    }

    /// Returns true if the newest leader that it knows of coordinates shares. False too as long as it knows of none.
    pub fn is_coordinated(&self) -> bool {
        self.seen.now().coordinated
    }

    /// The one that it was ordered to hand over to lately, or hands over to.
    pub fn gives_to(&self) -> Option<String> {
        let shown = self.seen.now();
        let ordered = self.ordered.as_ref().filter(|(_, at)| shown.reports < at + REPORTS);
        ordered.map(|(to, _)| to.clone()).or_else(|| shown.successor.clone())
    }

    /// The candidate has left, but a turn of it may still run.
    pub fn lingers(&self) -> bool {
        let shown = self.seen.now();
        shown.has_left && !shown.is_over
    }

    /// The candidate has left, and nothing of its turns runs any more.
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

    /// Orders it to contend, or not to.
    pub fn contend(&self, contends: bool) {
        let _ = self.orders.try_send(Order::Ready(contends));
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
            Role::Leading(now) => Some((now.term, at + now.valid_for)),
            _ => None,
        };
        let coordinated = match &report.role {
            Role::Leading(_) => Some(true),
            Role::Following(Some(leader)) => Some(leader.coordinates),
            _ => None,
        };
        let mut shown = self.now();
        let term = |leads: Option<(u64, Duration)>| leads.map(|(term, _)| term);
        let coordinated = coordinated.unwrap_or(shown.coordinated);
        let is_news = term(shown.leads) != term(leads)
            || shown.successor != report.successor
            || shown.coordinated != coordinated;
        shown.reports += 1;
        (shown.leads, shown.successor) = (leads, report.successor.clone());
        shown.coordinated = coordinated;
        drop(shown);
        if is_news {
            self.changed.notify_one();
        }
    }
}

impl Place {
    /// Returns the function that takes each report, with the instant from which its durations count.
    pub fn shows(&self) -> impl Fn(&Report, Duration) + Send + Sync + use<> {
        let Over(seen) = &*self.over;
        let seen = seen.clone();
        move |report, taken_at| seen.report(report, taken_at)
    }

    /// To be kept as long as a turn of the candidate may run: its share is not begun again before. See
    /// [`Runner::keeping`](tenure::engine::Runner::keeping).
    pub fn kept(&self) -> Arc<dyn Send + Sync> {
        self.over.clone()
    }

    /// The next order. None: the candidate is to leave.
    pub async fn next(&mut self) -> Option<Order> {
        let (orders, leave) = self.both();
        select! {
            biased;
            () = leave => None,
            Some(order) = orders.recv() => Some(order),
        }
    }

    /// Orders as they come, and what completes when the candidate is to leave.
    pub(super) fn both(&mut self) -> (&mut mpsc::Receiver<Order>, impl Future<Output = ()>) {
        (&mut self.orders, is_to_leave(&mut self.leave))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Over(seen) = &*self.over;
        let mut shown = seen.now();
        (shown.leads, shown.successor, shown.has_left) = (None, None, true);
        drop(shown);
        seen.changed.notify_one();
    }
}

impl Drop for Over {
    fn drop(&mut self) {
        let Self(seen) = self;
        seen.now().is_over = true;
        seen.changed.notify_one();
    }
}

/// Completes when it is to leave: never, if its member is gone.
async fn is_to_leave(leave: &mut watch::Receiver<bool>) {
    if leave.wait_for(|leave| *leave).await.is_err() {
        pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_is_over_when_it_has_left_and_its_last_turn_has_stopped() {
        let (contender, place) = Contender::new(&Arc::default());
        let turn = place.kept();
        assert!(!contender.lingers());
        drop(place);
        assert!(contender.lingers() && !contender.is_over());
        drop(turn);
        assert!(contender.is_over() && !contender.lingers());
    }
}
