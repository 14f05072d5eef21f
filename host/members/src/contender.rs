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
const REPORTS_TO_AWAIT: u64 = 3;

/// So many orders may wait.
const ORDER_CAPACITY: usize = 8;

/// A candidate that was begun.
pub(super) struct CandidateHandle {
    status: SharedStatus,
    orders: mpsc::Sender<Order>,
    leave: watch::Sender<bool>,
    /// To whom it was ordered to hand over, and after how many reports.
    pending_handover: Option<(String, u64)>,
}

/// The place where a candidate and its member meet: the member sees the candidate's reports, and the candidate gets its orders.
/// The candidate is over when this is dropped, and all that it was [kept](Place::kept) for.
pub struct CandidateContext {
    finish_guard: Arc<FinishGuard>,
    orders: mpsc::Receiver<Order>,
    leave: watch::Receiver<bool>,
}

/// The state that a candidate showed.
#[derive(Clone)]
struct SharedStatus {
    current: Arc<Mutex<CandidateStatus>>,
    changed: Arc<Notify>,
}

/// Tells that the candidate is over when it is dropped.
struct FinishGuard(SharedStatus);

#[derive(Clone, Debug, Default)]
struct CandidateStatus {
    /// Its term, and until when it may act.
    leadership: Option<(u64, Duration)>,
    /// To whom it hands over.
    successor: Option<String>,
    reports: u64,
    /// The newest leader that is known coordinates shares.
    is_coordinated: bool,
    has_left: bool,
    is_finished: bool,
}

impl CandidateHandle {
    /// One that is to be begun at that place. `changed` is told of whatever may be news.
    pub fn new(changed: &Arc<Notify>) -> (Self, CandidateContext) {
        let status = SharedStatus { current: Arc::default(), changed: changed.clone() };
        let (orders, order_receiver) = mpsc::channel(ORDER_CAPACITY);
        let (leave, leave_receiver) = watch::channel(false);
        let context = CandidateContext { finish_guard: Arc::new(FinishGuard(status.clone())), orders: order_receiver, leave: leave_receiver };
        (Self { status, orders, leave, pending_handover: None }, context)
    }

    /// The term in which it leads at `now`.
    pub fn leading_term(&self, now: Duration) -> Option<u64> {
        self.status.lock().leadership.filter(|(_, until)| now < *until).map(|(term, _)| term)
    }

    /// Returns true if the newest leader that it knows of coordinates shares. False too as long as it knows of none.
    pub fn is_coordinated(&self) -> bool {
        self.status.lock().is_coordinated
    }

    /// The one that it was ordered to hand over to lately, or hands over to.
    pub fn successor(&self) -> Option<String> {
        let status = self.status.lock();
        let recent_handover = self.pending_handover.as_ref().filter(|(_, at)| status.reports < at + REPORTS_TO_AWAIT);
        recent_handover.map(|(to, _)| to.clone()).or_else(|| status.successor.clone())
    }

    /// The candidate has left, but a turn of it may still run.
    pub fn is_still_stopping(&self) -> bool {
        let status = self.status.lock();
        status.has_left && !status.is_finished
    }

    /// The candidate has left, and nothing of its turns runs any more.
    pub fn is_finished(&self) -> bool {
        self.status.lock().is_finished
    }

    /// Has it hand over to the candidate of that name.
    pub fn hand_over(&mut self, to: String) {
        let report_count = self.status.lock().reports;
        // Where there is no room it has not come to the orders before; it is ordered again.
        if self.orders.try_send(Order::HandOver(to.clone())).is_ok() {
            self.pending_handover = Some((to, report_count));
        }
    }

    /// Orders it to contend, or not to.
    pub fn set_ready(&self, ready: bool) {
        let _ = self.orders.try_send(Order::Ready(ready));
    }

    /// Has it leave.
    pub fn leave(&self) {
        self.leave.send_replace(true);
    }
}

impl SharedStatus {
    fn lock(&self) -> MutexGuard<'_, CandidateStatus> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of a report that is counted from `at`.
    fn update(&self, report: &Report, taken_at: Duration) {
        let leadership = match &report.role {
            Role::Leading(leading) => Some((leading.term, taken_at + leading.valid_for)),
            _ => None,
        };
        let is_coordinated = match &report.role {
            Role::Leading(_) => Some(true),
            Role::Following(Some(leader)) => Some(leader.coordinates),
            _ => None,
        };
        let mut status = self.lock();
        let term = |leadership: Option<(u64, Duration)>| leadership.map(|(term, _)| term);
        let is_coordinated = is_coordinated.unwrap_or(status.is_coordinated);
        let is_changed = term(status.leadership) != term(leadership)
            || status.successor != report.successor
            || status.is_coordinated != is_coordinated;
        status.reports += 1;
        (status.leadership, status.successor) = (leadership, report.successor.clone());
        status.is_coordinated = is_coordinated;
        drop(status);
        if is_changed {
            self.changed.notify_one();
        }
    }
}

impl CandidateContext {
    /// Returns the function that takes each report, with the instant from which its durations count.
    pub fn report_observer(&self) -> impl Fn(&Report, Duration) + Send + Sync + use<> {
        let FinishGuard(status) = &*self.finish_guard;
        let status = status.clone();
        move |report, taken_at| status.update(report, taken_at)
    }

    /// To be kept as long as a turn of the candidate may run: its share is not begun again before. See
    /// [`Runner::keeping`](tenure::engine::Runner::keeping).
    pub fn work_guard(&self) -> Arc<dyn Send + Sync> {
        self.finish_guard.clone()
    }

    /// The next order. None: the candidate is to leave.
    pub async fn next_order(&mut self) -> Option<Order> {
        let (orders, leave) = self.split();
        select! {
            biased;
            () = leave => None,
            Some(order) = orders.recv() => Some(order),
        }
    }

    /// Orders as they come, and what completes when the candidate is to leave.
    pub(super) fn split(&mut self) -> (&mut mpsc::Receiver<Order>, impl Future<Output = ()>) {
        (&mut self.orders, leave_requested(&mut self.leave))
    }
}

impl Drop for CandidateContext {
    fn drop(&mut self) {
        let FinishGuard(status) = &*self.finish_guard;
        let mut current = status.lock();
        (current.leadership, current.successor, current.has_left) = (None, None, true);
        drop(current);
        status.changed.notify_one();
    }
}

impl Drop for FinishGuard {
    fn drop(&mut self) {
        let Self(status) = self;
        status.lock().is_finished = true;
        status.changed.notify_one();
    }
}

/// Completes when it is to leave: never, if its member is gone.
async fn leave_requested(leave: &mut watch::Receiver<bool>) {
    if leave.wait_for(|leave| *leave).await.is_err() {
        pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_is_finished_once_it_left_and_its_last_turn_stopped() {
        let (contender, context) = CandidateHandle::new(&Arc::default());
        let guard = context.work_guard();
        assert!(!contender.is_still_stopping());
        drop(context);
        assert!(contender.is_still_stopping() && !contender.is_finished());
        drop(guard);
        assert!(contender.is_finished() && !contender.is_still_stopping());
    }
}
