//! World of one schedule: true time, the store, the processes, and the history.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::clock::{Rate, SimClock};
use super::compare::Comparison;
use super::condition::{BrokenSettings, Condition};
use super::coverage::Coverage;
use super::dice::Dice;
use super::fault::{Fault, Step};
use super::history::{CandidateId, Entry, History, HistoryEvent, Life};
use super::plan::{Ambush, Beginning, Plan, Trait, Version};
use super::process_state::{Gate, Process};
use super::service::Service;
use super::step_classifier::StepClassifier;

/// True time since the start of the schedule, in milliseconds. Events have this resolution.
pub type Millis = u64;

/// Time after the end of any schedule; tokio's instants are limited to some centuries.
const NEVER: Millis = 1_000_000_000;

/// State that all participants share.
pub struct World {
    started_at: Instant,
    /// Plan from the seed.
    pub plan: Plan,
    /// Seed of the [`Dice`] of candidates.
    pub seed: u64,
    /// Notified when a clock jumped: a sleep on it ends sooner.
    pub clock_jumped: Notify,
    state: Mutex<State>,
}

/// Mutable state.
pub struct State {
    /// History for the oracle.
    pub history: History,
    /// Record of the electors, if both are compared.
    pub comparison: Option<Comparison>,
    /// The service.
    pub service: Service,
    /// Started processes, by their number.
    pub processes: Vec<Process>,
    /// Running processes, by machine.
    pub running: Vec<Option<CandidateId>>,
    /// Offset of each machine's wall clock.
    pub wall_offset_ms: Vec<i64>,
    /// Advance of each machine's clock.
    pub clock_ahead_ms: Vec<Millis>,
    /// Faults that wait for a step.
    pub ambushes: Vec<Ambush>,
    /// Outages: one for each machine, and one for all together.
    pub outages: Vec<Outage>,
    /// End of a restart, during which the store is down.
    pub restart_until: Millis,
    /// Faults that last for minutes.
    pub conditions: Vec<Condition>,
    /// Broken settings of each machine.
    pub broken_settings: Vec<BrokenSettings>,
    /// The newest term.
    pub term: u64,
    /// Dice for the network.
    pub network: Dice,
    /// Dice for the strength of faults.
    pub faults: Dice,
    /// Last step of any candidate.
    pub last_step: Step,
    /// Counts of faults by step.
    pub coverage: Coverage,
    /// Time when leases last ended early.
    pub last_early_expiry: Option<Millis>,
    /// Classifier of the requests under each lease.
    pub classifier: StepClassifier,
    /// Notified when a lease was given up, or a process was killed.
    pub leadership_changed: Arc<Notify>,
    /// True once no process is restarted.
    pub is_closing: bool,
}

/// Outage of a machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outage {
    /// End of the outage.
    pub until: Millis,
    /// True if connections are refused, so that the sender notices immediately.
    pub is_refused: bool,
}

impl World {
    /// Creates the world at its start, in a runtime with paused time.
    #[must_use]
    pub fn new(seed: u64, plan: Plan) -> Arc<Self> {
        let machines = plan.machines.len();
        let service = Service::new(seed, &plan);
        let history = History {
            latency: plan.latency.most,
            calm: plan.calm,
            finale: plan.finale,
            grace: plan.grace,
            every: plan.every * 1_000_000_000,
            rules: plan.rules,
            epoch: service.epoch(),
            turn_timeout: plan.turn_timeout.map(|seconds| seconds * 1_000),
            has_rotation: plan.traits.has(Trait::Rotation),
            versioned: plan.traits.has(Trait::Versioned),
            has_initial_record: plan.beginning == Beginning::Record,
            ..History::default()
        };
        let state = State {
            history,
            comparison: None,
            service,
            processes: Vec::new(),
            running: vec![None; machines],
            wall_offset_ms: plan.machines.iter().map(|machine| machine.wall_off).collect(),
            clock_ahead_ms: vec![0; plan.machines.len()],
            ambushes: plan.ambushes.clone(),
            outages: vec![Outage::default(); machines + 1],
            restart_until: 0,
            conditions: Vec::new(),
            broken_settings: vec![BrokenSettings::default(); machines],
            term: 0,
            network: Dice::new(seed, 2),
            faults: Dice::new(seed, 3),
            last_step: Step::Poll,
            coverage: Coverage::default(),
            last_early_expiry: None,
            classifier: StepClassifier::default(),
            leadership_changed: Arc::default(),
            is_closing: false,
        };
        Arc::new(Self {
            started_at: Instant::now(),
            plan,
            seed,
            clock_jumped: Notify::new(),
            state: Mutex::new(state),
        })
    }

    /// Returns the true time.
    #[must_use]
    pub fn now(&self) -> Millis {
        u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(NEVER)
    }

    /// Waits until true time is `at`.
    pub async fn wait_until(&self, at: Millis) {
        sleep_until(self.started_at + Duration::from_millis(at.min(NEVER))).await;
    }

    /// Returns the mutable state. Callers must not hold it across an `.await`, or while a future is
    /// polled.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event to the history, now.
    pub fn note(&self, event: HistoryEvent) {
        let at = self.now();
        self.state().history.entries.push(Entry { at, event });
    }

    /// Starts a process on a machine, and returns its id and its clock.
    pub fn start(self: &Arc<Self>, machine: usize) -> (CandidateId, SimClock) {
        let now = self.now();
        let mut state = self.state();
        let candidate = state.processes.len();
        let plan = &self.plan.machines[machine];
        let uptime =
            i64::try_from(Dice::new(self.seed, 1_000 + candidate as u64).between(0, 1_000_000));
        let origin = i64::try_from(now).unwrap_or(0) - uptime.unwrap_or(0);
        let rate = Rate { zero_at: origin, nanos_per_ms: plan.nanos_per_ms };
        let supervised = self.plan.traits.has(Trait::Supervised);
        state.processes.push(Process::new(machine, supervised));
        state.running[machine] = Some(candidate);
        let (every, delay) = self.plan.timer(machine);
        let mut periods = plan.periods();
        // The account reports that it keeps versions, so no candidate beats.
        periods.failover = periods.failover.filter(|_| !self.plan.traits.has(Trait::Versioned));
        let older = plan.version == Version::Older;
        state.history.lives.push(Life {
            machine,
            rate,
            periods,
            every,
            delay,
            is_older_version: older,
        });
        state.note_faults_at_start(now, candidate);
        if plan.timings.is_some() {
            state.coverage.add_trait(Trait::Timings);
        }
        state.history.entries.push(Entry { at: now, event: HistoryEvent::Started(candidate) });
        (candidate, SimClock { world: self.clone(), rate, machine })
    }

    /// Returns a machine's wall clock, in milliseconds since 1970.
    #[must_use]
    pub fn wall(&self, machine: usize) -> u64 {
        let now = self.now();
        let state = self.state();
        let wall = state.history.epoch / 1_000_000 + now;
        wall.saturating_add_signed(state.wall_offset_ms[machine])
    }

    /// Returns the permission of a process; if it is suspended, `waker` is woken when it resumes.
    pub fn gate(&self, candidate: CandidateId, waker: &Waker) -> Gate {
        self.state().processes[candidate].gate(waker)
    }

    /// Waits until the process is not suspended.
    pub async fn wait_until_running(&self, candidate: CandidateId) {
        std::future::poll_fn(|cx| match self.gate(candidate, cx.waker()) {
            Gate::Open => std::task::Poll::Ready(()),
            Gate::Paused | Gate::Exited => std::task::Poll::Pending,
        })
        .await;
    }
}

impl State {
    /// Adds an event to the history.
    pub fn note(&mut self, at: Millis, event: HistoryEvent) {
        self.history.entries.push(Entry { at, event });
    }

    /// Adds a fault to the history and the coverage.
    pub fn record_fault(
        &mut self,
        at: Millis,
        fault: Fault,
        step: Step,
        candidate: Option<CandidateId>,
        until: Millis,
    ) {
        self.coverage.add(fault, step);
        self.note(at, HistoryEvent::FaultInjected(fault, candidate, until));
    }
}
