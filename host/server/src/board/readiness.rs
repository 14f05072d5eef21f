//! Liveness of a candidate's loop, and its readiness to lead.

use super::super::role::Role;
use super::Board;
use serde::Serialize;
use std::time::Duration;
use tenure_core as contract;
use tenure_core::ProblemClass;
use tokio::sync::watch;

/// Silence after which the loop counts as stalled: longer than the longest step.
const STALL_TIMEOUT: Duration = Duration::from_secs(150);

/// Failed requests in a row after which the candidate is not ready. The first one may have met a
/// dead connection.
pub(super) const MAX_FAILURES: u32 = 2;

/// A problem of a candidate.
#[derive(Clone, Debug, Serialize)]
pub struct Problem {
    /// The class as the WIT names it, or `component`.
    pub class: &'static str,
    /// A description, with advice.
    pub detail: String,
}

impl Problem {
    pub(super) fn new(problem: &contract::Problem) -> Self {
        Self { class: problem.class.name(), detail: problem.detail.clone() }
    }
}

/// Returns true if a candidate with such a problem cannot win while it lasts.
pub(super) fn prevents_leading(class: ProblemClass) -> bool {
    match class {
        ProblemClass::Configuration
        | ProblemClass::UnusableBlob
        | ProblemClass::ForeignLease
        | ProblemClass::Refused
        | ProblemClass::Clock
        | ProblemClass::Unreachable
        | ProblemClass::Unavailable
        | ProblemClass::Nonsense => true,
        ProblemClass::LeaseLost
        | ProblemClass::Schedule
        | ProblemClass::Work
        | ProblemClass::Order => false,
    }
}

/// Readiness of a candidate, with the reason if it is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    NotReady(String),
}

impl Board {
    /// Returns true if the loop runs, has ended, or has not started yet.
    pub(crate) fn is_running(&self, now: Duration) -> bool {
        let state = self.state();
        state.start_delayed
            || state.role == Role::Left
            || now.saturating_sub(state.last_active) < STALL_TIMEOUT
    }

    /// Makes probes wait for [`start`](Self::start), because components may have to be compiled
    /// first.
    pub fn delay_start(&self) {
        self.state().start_delayed = true;
    }

    /// Records that the loop of the candidate starts now.
    pub fn start(&self, now: Duration) {
        let mut state = self.state();
        (state.start_delayed, state.last_active) = (false, now);
    }

    /// Returns true if the candidate has just started: no request has succeeded or failed yet.
    pub(crate) fn is_new(&self) -> bool {
        let state = self.state();
        !state.answered && state.failures == 0 && state.role != Role::Left
    }

    /// Returns ready if the candidate could lead: the storage account answers and permits it.
    pub(crate) fn readiness(&self, now: Duration) -> Readiness {
        if !self.is_running(now) {
            return Readiness::NotReady("the loop is stalled".to_owned());
        }
        let state = self.state();
        if state.role == Role::Left {
            return Readiness::NotReady("it has left the election".to_owned());
        }
        let is_answering = state.answered && state.failures < MAX_FAILURES;
        if is_answering && state.blocked.is_none() {
            return Readiness::Ready;
        }
        let reason =
            match state.problem.as_ref().filter(|_| !is_answering).or(state.blocked.as_ref()) {
                Some(Problem { class, detail }) => format!("{class}: {detail}"),
                None if state.answered => "the storage account does not answer".to_owned(),
                None => "the storage account has not answered yet".to_owned(),
            };
        Readiness::NotReady(reason)
    }

    /// Shows the process as not ready until `ready` is true. See
    /// [`Runner::when_ready`](tenure::engine::Runner::when_ready).
    pub fn when_ready(&self, ready: watch::Receiver<bool>) {
        self.state().ready = Some(ready);
    }

    /// Returns ready if the candidate could lead and its process can work.
    pub(crate) fn participation(&self, now: Duration) -> Readiness {
        if self.state().ready.as_ref().is_some_and(|ready| !*ready.borrow()) {
            return Readiness::NotReady("the process is not ready yet (--ready-cmd)".to_owned());
        }
        self.readiness(now)
    }
}
