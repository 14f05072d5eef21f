//! Whether a candidate runs, and whether it could lead.

use super::super::role::Role;
use super::Board;
use serde::Serialize;
use std::time::Duration;
use tenure_core as contract;
use tenure_core::ProblemClass;
use tokio::sync::watch;

/// A loop that was not heard of for so long stands still: longer than the longest step.
const STALL_TIMEOUT: Duration = Duration::from_secs(150);

/// So many requests in a row that came to nothing: the first may have met a connection that had died.
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

/// Whether a candidate with such a problem cannot win while it lasts.
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

/// Whether a candidate is ready, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    NotReady(String),
}

impl Board {
    /// Whether the loop runs, has come to its end, or is not to begin yet.
    pub(crate) fn is_running(&self, now: Duration) -> bool {
        let state = self.state();
        state.start_delayed || state.role == Role::Left || now.saturating_sub(state.last_active) < STALL_TIMEOUT
    }

    /// Makes probes wait for [`begins`](Self::begins): components may have to be compiled first.
    pub fn delay_start(&self) {
        self.state().start_delayed = true;
    }

    /// Tells that the loop of the candidate begins now.
    pub fn start(&self, now: Duration) {
        let mut state = self.state();
        (state.start_delayed, state.last_active) = (false, now);
    }

    /// Whether it has just begun: nothing was asked yet, or nothing came of it.
    pub(crate) fn is_new(&self) -> bool {
        let state = self.state();
        !state.answered && state.failures == 0 && state.role != Role::Left
    }

    /// Whether it could lead: the storage account answers, and lets it.
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
        let reason = match state.problem.as_ref().filter(|_| !is_answering).or(state.blocked.as_ref()) {
            Some(Problem { class, detail }) => format!("{class}: {detail}"),
            None if state.answered => "the storage account does not answer".to_owned(),
            None => "the storage account has not answered yet".to_owned(),
        };
        Readiness::NotReady(reason)
    }

    /// Shows the process as not ready until `ready` is true: see [`Runner::when_ready`](tenure::engine::Runner::when_ready).
    pub fn when_ready(&self, ready: watch::Receiver<bool>) {
        self.state().ready = Some(ready);
    }

    /// Returns whether it could lead and its process can work, and why not.
    pub(crate) fn participation(&self, now: Duration) -> Readiness {
        if self.state().ready.as_ref().is_some_and(|ready| !*ready.borrow()) {
            return Readiness::NotReady("the process is not ready yet (--ready-cmd)".to_owned());
        }
        self.readiness(now)
    }
}
