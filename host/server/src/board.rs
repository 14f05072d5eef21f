//! The observable state of a candidate, its liveness and its readiness to lead. The runner writes
//! it and the pages read it.

use super::counters::Metrics;
use super::role::{FollowedLeader, Leader, Role};
use super::state::{MAX_FAILURES, Problem, State};
use chrono::{DateTime, Utc};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure::Event;
use tenure::status::TakeoverTime;
use tenure_core::Report;
use tokio::sync::{Notify, watch};

/// Silence after which the candidate's main loop counts as stalled: longer than the longest step.
const STALL_TIMEOUT: Duration = Duration::from_secs(150);

/// The present state of one candidate, with its newest changes and its metrics.
#[derive(Debug)]
pub struct Board {
    /// The candidate's name.
    pub(super) candidate: String,
    /// `container/blob`.
    pub(super) election: String,
    state: Mutex<State>,
    pub(super) metrics: Metrics,
    /// Time until a dead leader is replaced, according to this candidate's settings.
    replacement: Option<TakeoverTime>,
    /// Source of the credential's expiry time.
    expiry: Option<Expiry>,
    /// Signals a possible change of the view. `None` once the board is closed.
    change_sender: Mutex<Option<watch::Sender<()>>>,
    /// Notified when the leader may have changed, or an order may be waiting.
    hints: Arc<Notify>,
}

struct Expiry(Box<dyn Fn() -> Option<DateTime<Utc>> + Send + Sync>);

impl fmt::Debug for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Expiry")
    }
}

/// The state of a candidate at a moment, for service managers and locks.
#[derive(Clone, Debug)]
pub struct Summary {
    /// `container/blob`.
    pub election: String,
    /// `leading`, `following`, `undecided` or `left`.
    pub role: &'static str,
    /// The leader, if it is known.
    pub leader: Option<Leader>,
    /// The newest problem since the storage account last answered a request.
    pub problem: Option<Problem>,
    /// The problem that prevents the candidate from leading and following.
    pub blocked: Option<Problem>,
    /// True unless the loop is stalled: it runs, has ended, or has not started yet.
    pub running: bool,
    /// True once the loop has made its first step.
    pub has_stepped: bool,
    /// True if the newest request failed.
    pub failing: bool,
}

/// Readiness of a candidate, with the reason if it is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    Ready,
    NotReady(String),
}

impl Board {
    /// Creates the board of a candidate that starts now.
    #[must_use]
    pub fn new(election: &str, candidate: &str, now: Duration) -> Self {
        let state = State::new(now);
        Self {
            candidate: candidate.to_owned(),
            election: election.to_owned(),
            state: Mutex::new(state),
            metrics: Metrics::new(),
            replacement: None,
            expiry: None,
            change_sender: Mutex::new(Some(watch::Sender::new(()))),
            hints: Arc::default(),
        }
    }

    /// Makes the board show the time until a dead leader is replaced. Values on record replace
    /// those of `from_settings`.
    #[must_use]
    pub fn with_replacement(self, from_settings: TakeoverTime) -> Self {
        Self { replacement: Some(from_settings), ..self }
    }

    /// Makes this the board of an observer, whose metrics omit leadership and readiness.
    #[must_use]
    pub fn for_observer(mut self) -> Self {
        self.metrics.is_observer = true;
        self
    }

    /// Makes the board show when the credential expires. `expiry` returns the current value.
    #[must_use]
    pub fn with_expiry(
        self,
        expiry: impl Fn() -> Option<DateTime<Utc>> + Send + Sync + 'static,
    ) -> Self {
        Self { expiry: Some(Expiry(Box::new(expiry))), ..self }
    }

    /// Returns the notifier that signals a possible change of leader or a waiting order. Pass it to
    /// [`with_hints`](tenure::engine::Runner::with_hints).
    #[must_use]
    pub fn hints(&self) -> Arc<Notify> {
        self.hints.clone()
    }

    /// Signals that the view has changed.
    pub(super) fn notify_changed(&self) {
        if let Some(changed) = &*self.lock_change_sender() {
            changed.send_replace(());
        }
    }

    /// Ends all streams of this board after they have sent its last change.
    pub(super) fn close(&self) {
        *self.lock_change_sender() = None;
    }

    fn lock_change_sender(&self) -> MutexGuard<'_, Option<watch::Sender<()>>> {
        self.change_sender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a receiver of changes to the view.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        let changed = self.lock_change_sender();
        changed
            .as_ref()
            .map_or_else(|| watch::Sender::new(()).subscribe(), watch::Sender::subscribe)
    }

    /// Locks the whole state.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the board with the report of a step that began at `started_at`.
    pub fn on_step(&self, report: &Report, started_at: Duration, now: Duration) {
        for exchange in &report.exchanges {
            self.metrics.on_exchange(exchange);
        }
        if let Some(turn) = &report.run {
            self.metrics.on_claimed(turn);
        }
        self.state().on_step(&self.candidate, report, started_at, now);
        self.notify_changed();
    }

    /// Updates the board with an event of the runner that happened at `now`.
    pub fn on_event(&self, event: &Event, now: Duration) {
        // The report of the same step already contained the renewal.
        if let Event::Renewed { .. } = event {
            return;
        }
        self.metrics.on_event(event);
        self.state().on_event(&self.candidate, event, now);
        self.notify_changed();
    }

    /// Returns the role at `now`. A leadership whose validity has ended is `Undecided`, even before
    /// an event reports its end.
    pub(super) fn role(&self, now: Duration) -> Role {
        match &self.state().role {
            Role::Leading { until, .. } if now >= *until => Role::Undecided,
            role => role.clone(),
        }
    }

    /// Returns the state at `now`.
    pub fn summary(&self, now: Duration) -> Summary {
        let (role, running) = (self.role(now), self.is_running(now));
        let state = self.state();
        Summary {
            election: self.election.clone(),
            leader: role.leader(&self.candidate),
            role: match role {
                Role::Leading { .. } => "leading",
                Role::Following(_) => "following",
                Role::Undecided => "undecided",
                Role::Left => "left",
            },
            problem: state.problem.clone(),
            blocked: state.blocked.clone(),
            running,
            has_stepped: state.has_stepped,
            failing: state.failures > 0,
        }
    }

    /// Returns when the credential expires, if known.
    pub(super) fn credential_expires(&self) -> Option<DateTime<Utc>> {
        self.expiry.as_ref().and_then(|Expiry(expiry)| expiry())
    }

    /// Returns the time until a dead leader is replaced: the leader in `state`, or the next one if
    /// none is known.
    pub(super) fn replacement(&self, state: &State) -> Option<TakeoverTime> {
        let from_settings = self.replacement?;
        Some(match &state.role {
            Role::Leading { .. } => TakeoverTime { promise: state.promise, ..from_settings },
            Role::Following(Some(leader)) => TakeoverTime {
                promise: state.promise,
                is_watched: leader.address.as_deref().is_some_and(TakeoverTime::may_be_watched),
                ..from_settings
            },
            _ => from_settings,
        })
    }

    /// Returns the leader that this candidate follows, if that leader published an address.
    pub(super) fn followed_leader(&self) -> Option<FollowedLeader> {
        match self.state().role.clone() {
            Role::Following(Some(Leader { name, term, address: Some(address), .. })) => {
                Some(FollowedLeader { name, term, address })
            }
            _ => None,
        }
    }

    /// Returns true unless the loop is stalled: it runs, has ended, or has not started yet.
    pub(super) fn is_running(&self, now: Duration) -> bool {
        self.stall(now).is_none()
    }

    /// Describes a stalled loop. Returns `None` if it runs, has ended, or has not started yet.
    pub(super) fn stall(&self, now: Duration) -> Option<String> {
        let state = self.state();
        let silence = now.saturating_sub(state.last_active);
        let is_stalled =
            !state.start_delayed && state.role != Role::Left && silence >= STALL_TIMEOUT;
        is_stalled.then(|| {
            let seconds = silence.as_secs();
            format!("this candidate has made no step for {seconds} s: its main loop is stalled")
        })
    }

    /// Exempts the loop from the check for stalls until [`start`](Self::start), because components
    /// may have to be compiled first.
    pub fn delay_start(&self) {
        self.state().start_delayed = true;
    }

    /// Records that the loop of the candidate starts now.
    pub fn start(&self, now: Duration) {
        let mut state = self.state();
        (state.start_delayed, state.last_active) = (false, now);
    }

    /// Returns true if the candidate has just started: no request has succeeded or failed yet.
    pub(super) fn is_new(&self) -> bool {
        let state = self.state();
        !state.answered && state.failures == 0 && state.role != Role::Left
    }

    /// Returns `Ready` if the candidate could lead: the storage account answers and permits it.
    pub(super) fn readiness(&self, now: Duration) -> Readiness {
        if let Some(stall) = self.stall(now) {
            return Readiness::NotReady(stall);
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

    /// Returns `Ready` if the candidate could lead and its process can work.
    pub(super) fn participation(&self, now: Duration) -> Readiness {
        if self.state().ready.as_ref().is_some_and(|ready| !*ready.borrow()) {
            return Readiness::NotReady("the process is not ready yet (--ready-cmd)".to_owned());
        }
        self.readiness(now)
    }
}
