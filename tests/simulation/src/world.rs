//! One schedule's world: true time, the store, the processes, and everything that happened.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::clock::{Rate, SimClock};
use super::compare::Comparison;
use super::condition::{Condition, BrokenSettings};
use super::coverage::Coverage;
use super::dice::Dice;
use super::fault::{Fault, Step};
use super::gate::{Gate, Process};
use super::history::{Entry, History, Life, HistoryEvent, CandidateId};
use super::plan::{Ambush, Beginning, Plan, Trait, Version};
use super::service::Service;
use super::wire::StepClassifier;

/// True time since the beginning of the schedule, in milliseconds. Nothing happens in between.
pub type Millis = u64;

/// Later than the end of any schedule; tokio's instants go no further than some centuries.
const NEVER: Millis = 1_000_000_000;

/// What is shared by all that takes part.
pub struct World {
    started_at: Instant,
    /// What the seed decided.
    pub plan: Plan,
    /// What [`Dice`] of candidates follow from.
    pub seed: u64,
    /// Notified when a clock jumped: a sleep by it is over sooner.
    pub clock_jumped: Notify,
    state: Mutex<State>,
}

/// What changes.
pub struct State {
    /// What is told to the oracle.
    pub history: History,
    /// The record of the electors, if both are compared.
    pub comparison: Option<Comparison>,
    /// The service.
    pub service: Service,
    /// The processes that were started, by their number.
    pub processes: Vec<Process>,
    /// Those that run now, by their machine.
    pub running: Vec<Option<CandidateId>>,
    /// How far each machine's wall clock is off.
    pub wall_offset_ms: Vec<i64>,
    /// By how much the clock of each machine ran ahead.
    pub clock_ahead_ms: Vec<Millis>,
    /// Faults that wait for a step.
    pub ambushes: Vec<Ambush>,
    /// Where no request gets through, until when; all together, and each machine.
    pub outages: Vec<Outage>,
    /// The store does not listen.
    pub restart_until: Millis,
    /// What lasts for minutes.
    pub conditions: Vec<Condition>,
    /// What the settings of each machine come to.
    pub broken_settings: Vec<BrokenSettings>,
    /// The newest term.
    pub term: u64,
    /// What the network does.
    pub network: Dice,
    /// How hard faults strike.
    pub faults: Dice,
    /// Where anybody was last.
    pub last_step: Step,
    /// How often which fault struck where.
    pub coverage: Coverage,
    /// When leases last ended early.
    pub last_early_expiry: Option<Millis>,
    /// What was sent under which lease.
    pub classifier: StepClassifier,
    /// Notified when a lease was given up, or a process was killed.
    pub leadership_changed: Arc<Notify>,
    /// Nobody is started again.
    pub is_closing: bool,
}

/// A machine that is cut off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outage {
    /// Until when.
    pub until: Millis,
    /// Whether connections are refused, so that it is known at once.
    pub is_refused: bool,
}

impl World {
    /// A world at its beginning, in a runtime whose time is paused.
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

    /// True time.
    #[must_use]
    pub fn now(&self) -> Millis {
        u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(NEVER)
    }

    /// Waits until true time is `at`.
    pub async fn wait_until(&self, at: Millis) {
        sleep_until(self.started_at + Duration::from_millis(at.min(NEVER))).await;
    }

    /// Everything that changes. Never held across an `.await`, nor while a future is polled.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds to the history, now.
    pub fn note(&self, event: HistoryEvent) {
        let at = self.now();
        self.state().history.entries.push(Entry { at, event });
    }

    /// A new process on a machine, and its clock.
    pub fn start(self: &Arc<Self>, machine: usize) -> (CandidateId, SimClock) {
        let now = self.now();
        let mut state = self.state();
        let candidate = state.processes.len();
        let plan = &self.plan.machines[machine];
        let uptime = i64::try_from(Dice::new(self.seed, 1_000 + candidate as u64).between(0, 1_000_000));
        let origin = i64::try_from(now).unwrap_or(0) - uptime.unwrap_or(0);
        let rate = Rate { zero_at: origin, nanos_per_ms: plan.nanos_per_ms };
        let supervised = self.plan.traits.has(Trait::Supervised);
        state.processes.push(Process::new(machine, supervised));
        state.running[machine] = Some(candidate);
        let (every, delay) = self.plan.timer(machine);
        let mut periods = plan.periods();
        // The account tells that it keeps versions: nobody beats.
        periods.failover = periods.failover.filter(|_| !self.plan.traits.has(Trait::Versioned));
        let older = plan.version == Version::Older;
        state.history.lives.push(Life { machine, rate, periods, every, delay, is_older_version: older });
        state.note_faults_at_start(now, candidate);
        if plan.timings.is_some() {
            state.coverage.add_trait(Trait::Timings);
        }
        state.history.entries.push(Entry { at: now, event: HistoryEvent::Started(candidate) });
        (candidate, SimClock { world: self.clone(), rate, machine })
    }

    /// What a machine's wall clock shows, in milliseconds since 1970.
    #[must_use]
    pub fn wall(&self, machine: usize) -> u64 {
        let now = self.now();
        let state = self.state();
        let wall = state.history.epoch / 1_000_000 + now;
        wall.saturating_add_signed(state.wall_offset_ms[machine])
    }

    /// Whether a process may go on; if it stands still, `waker` is woken when it does no longer.
    pub fn gate(&self, candidate: CandidateId, waker: &Waker) -> Gate {
        self.state().processes[candidate].gate(waker)
    }

    /// Completes as soon as the process does not stand still.
    pub async fn wait_until_running(&self, candidate: CandidateId) {
        std::future::poll_fn(|cx| match self.gate(candidate, cx.waker()) {
            Gate::Open => std::task::Poll::Ready(()),
            Gate::Paused | Gate::Exited => std::task::Poll::Pending,
        })
        .await;
    }
}

impl State {
    /// Adds to the history.
    pub fn note(&mut self, at: Millis, event: HistoryEvent) {
        self.history.entries.push(Entry { at, event });
    }

    /// Adds a fault to history and coverage.
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
