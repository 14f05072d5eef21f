//! A member's handle to a candidate that it started, and the candidate's side of it.

use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure::engine::Order;
use tenure_core::{Report, Role};
use tokio::select;
use tokio::sync::{Notify, mpsc, watch};

/// Number of reports without a successor after which a requested handover counts as failed. One
/// report may belong to a step that was under way when the handover was requested.
const REPORTS_TO_AWAIT: u64 = 3;

/// Capacity of the queue of orders.
const ORDER_CAPACITY: usize = 8;

/// Member's handle to a running candidate.
pub(super) struct CandidateHandle {
    status: SharedStatus,
    orders: mpsc::Sender<Order>,
    leave: watch::Sender<bool>,
    /// Successor of the last requested handover, and the report count at that time.
    pending_handover: Option<(String, u64)>,
}

/// Candidate's side of its connection to the member.
///
/// The member observes the candidate's reports, and the candidate receives the member's orders. The
/// candidate is finished when this context and all its [guards](CandidateContext::work_guard) are
/// dropped.
pub struct CandidateContext {
    finish_guard: Arc<FinishGuard>,
    orders: mpsc::Receiver<Order>,
    leave: watch::Receiver<bool>,
}

/// State that a candidate reported, shared with its member.
#[derive(Clone)]
struct SharedStatus {
    current: Arc<Mutex<CandidateStatus>>,
    changed: Arc<Notify>,
}

/// Guard that marks the candidate as finished when it is dropped.
struct FinishGuard(SharedStatus);

#[derive(Clone, Debug, Default)]
struct CandidateStatus {
    /// Term of the candidate and the end of its validity, while it leads.
    leadership: Option<(u64, Duration)>,
    /// Candidate to which this one is handing over.
    successor: Option<String>,
    /// Number of reports so far.
    reports: u64,
    /// True if the newest known leader coordinates shares.
    is_coordinated: bool,
    has_left: bool,
    is_finished: bool,
}

impl CandidateHandle {
    /// Creates the handle to a candidate that is to be started, and the candidate's context.
    /// Notifies `changed` of state changes.
    pub fn new(changed: &Arc<Notify>) -> (Self, CandidateContext) {
        let status = SharedStatus { current: Arc::default(), changed: changed.clone() };
        let (orders, order_receiver) = mpsc::channel(ORDER_CAPACITY);
        let (leave, leave_receiver) = watch::channel(false);
        let context = CandidateContext {
            finish_guard: Arc::new(FinishGuard(status.clone())),
            orders: order_receiver,
            leave: leave_receiver,
        };
        (Self { status, orders, leave, pending_handover: None }, context)
    }

    /// Returns the term in which the candidate leads at `now`.
    pub fn leading_term(&self, now: Duration) -> Option<u64> {
        self.status.lock().leadership.filter(|(_, until)| now < *until).map(|(term, _)| term)
    }

    /// Returns true if the newest leader that the candidate has known coordinates shares, even if
    /// it now knows none. Returns false until it has known one.
    pub fn is_coordinated(&self) -> bool {
        self.status.lock().is_coordinated
    }

    /// Returns the successor of a recently requested or running handover.
    pub fn successor(&self) -> Option<String> {
        let status = self.status.lock();
        let recent_handover =
            self.pending_handover.as_ref().filter(|(_, at)| status.reports < at + REPORTS_TO_AWAIT);
        recent_handover.map(|(to, _)| to.clone()).or_else(|| status.successor.clone())
    }

    /// Returns true if the candidate has left but a turn of it may still run.
    pub fn is_still_stopping(&self) -> bool {
        let status = self.status.lock();
        status.has_left && !status.is_finished
    }

    /// Returns true if the candidate has left and all its turns have stopped.
    pub fn is_finished(&self) -> bool {
        self.status.lock().is_finished
    }

    /// Orders the candidate to hand over to candidate `to`.
    pub fn hand_over(&mut self, to: String) {
        let report_count = self.status.lock().reports;
        // If the queue is full the member repeats the order later.
        if self.orders.try_send(Order::HandOver(to.clone())).is_ok() {
            self.pending_handover = Some((to, report_count));
        }
    }

    /// Orders the candidate to contend, or not to contend.
    pub fn set_ready(&self, ready: bool) {
        // The queue has room. The member gives each of the two orders at most once in a cool-down,
        // and orders only a leader not to contend. A leader runs, so it has taken earlier orders.
        let _ = self.orders.try_send(Order::Ready(ready));
    }

    /// Asks the candidate to leave.
    pub fn leave(&self) {
        self.leave.send_replace(true);
    }
}

impl SharedStatus {
    fn lock(&self) -> MutexGuard<'_, CandidateStatus> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a report whose durations count from `taken_at`.
    fn update(&self, report: &Report, taken_at: Duration) {
        let leadership = match &report.role {
            Role::Leading(leading) => Some((leading.term, taken_at + leading.valid_for)),
            _ => None,
        };
        let is_coordinated = match &report.role {
            // The member reads this only from the candidate of the coordinating election, which
            // coordinates when it leads.
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
    /// Returns the function that takes each report, with the instant from which its durations
    /// count.
    pub fn report_observer(&self) -> impl Fn(&Report, Duration) + Send + Sync + use<> {
        let FinishGuard(status) = &*self.finish_guard;
        let status = status.clone();
        move |report, taken_at| status.update(report, taken_at)
    }

    /// Returns a guard to hold while a turn of the candidate may run. Its share is not started
    /// again before the guard is dropped.
    ///
    /// See [`Runner::hold_until_stopped`](tenure::engine::Runner::hold_until_stopped).
    pub fn work_guard(&self) -> Arc<dyn Send + Sync> {
        self.finish_guard.clone()
    }

    /// Waits for the next order. Returns `None` when the candidate is to leave.
    pub async fn next_order(&mut self) -> Option<Order> {
        let (orders, leave) = self.split();
        select! {
            biased;
            () = leave => None,
            Some(order) = orders.recv() => Some(order),
        }
    }

    /// Returns the queue of orders, and a future that completes when the candidate is to leave.
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

/// Waits until the candidate is to leave. Never completes if the member has dropped its handle.
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
        let (handle, context) = CandidateHandle::new(&Arc::default());
        let guard = context.work_guard();
        assert!(!handle.is_still_stopping());
        drop(context);
        assert!(handle.is_still_stopping() && !handle.is_finished());
        drop(guard);
        assert!(handle.is_finished() && !handle.is_still_stopping());
    }
}
