//! Simulation of candidates in virtual time.
//!
//! Runs the shipped runner against the embedded store, with faults that a seed chooses. The runner
//! is driven by the pure core or by the shipped component.
//!
//! - Each schedule runs on its own single-threaded tokio runtime with paused time. That clock is
//!   the only source of time. It jumps to the next timer when no task can run.
//! - True time has a resolution of one millisecond. Each process reads it through a slightly wrong
//!   clock.
//! - The seed alone determines a schedule. Each purpose has its own dice, no order depends on
//!   chance, and no state survives a schedule.
//! - A handler sends its request in the instant in which it checked its deadline, so assumption A4
//!   of the protocol holds by construction.
//! - [`oracle`] checks the [`history`]: the store's operations in order, the requests on the wire,
//!   and the spans in which handlers worked.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "only tests use this")]

pub mod campaign;
pub mod clock;
pub mod compare;
pub mod condition;
pub mod coverage;
pub mod dice;
pub mod elector;
pub mod exploration;
pub mod fault;
mod finale;
pub mod handler;
pub mod hints;
pub mod history;
mod hostile;
pub mod hunt;
pub mod injection;
mod invocations;
pub mod last_run;
mod native;
pub mod network;
pub mod oracle;
pub mod plan;
pub mod process;
pub mod process_state;
pub mod request_outcome;
pub mod service;
pub mod step_classifier;
pub mod supervisor;
mod token;
pub mod trace;
mod transfers;
mod triggers;
mod variables;
pub mod world;

use std::collections::BTreeSet;
use std::sync::Arc;

use compare::Comparison;
use coverage::Coverage;
pub use elector::Fidelity;
use fault::Step;
use history::{History, HistoryEvent};
use oracle::Violation;
use plan::{Class, Plan, Rules, Traits};
use tenure_core::mutants::{self, Mutant};
use world::World;

/// Requests consist of small strings: the C library's allocator would take half of the run time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Result of one schedule.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Seed of the schedule.
    pub seed: u64,
    /// Class of the schedule: the assumptions that held.
    pub class: Class,
    /// Features of the schedule other than its faults.
    pub traits: Traits,
    /// Number of terms before the calm that a different candidate won than the term before.
    pub takeovers: u64,
    /// Counts of the schedule's slots.
    pub slots: Slots,
    /// Duration in virtual milliseconds.
    pub virtual_ms: u64,
    /// Longest lease, in milliseconds.
    pub longest_lease: u64,
    /// Pairs of fault and step that occurred.
    pub coverage: Coverage,
    /// Rule violations that the oracle found.
    pub violations: Vec<Violation>,
    /// Complete history of the schedule.
    pub history: History,
    /// One line for each input and output of an elector, if `records_comparison` is set.
    pub record: Vec<String>,
}

impl Outcome {
    /// Returns true if the schedule is meaningful: three candidates, ten leases, a takeover and two
    /// faults.
    #[must_use]
    pub fn is_meaningful(&self) -> bool {
        let machines = self.history.lives.iter().map(|life| life.machine + 1).max();
        machines >= Some(3)
            && self.virtual_ms >= 10 * self.longest_lease
            && self.takeovers >= 1
            && self.coverage.fault_count() >= 2
    }
}

/// Options of a run.
#[derive(Clone)]
pub struct Options {
    /// Implementation of the candidates.
    pub fidelity: Fidelity,
    /// Seeded bug in the candidates' core; only the native core can have one.
    pub mutant: Option<Mutant>,
    /// Topic of the schedules.
    pub topic: Topic,
    /// Restricts the pure core's draws to features of the component, and records inputs and outputs
    /// of electors.
    pub records_comparison: bool,
}

/// Topic of the schedules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Topic {
    /// All faults, at all steps.
    #[default]
    Faults,
    /// A long run of slots with these rules.
    Timetable(Rules),
    /// A long run of slots with these rules, run by invocations of one turn each.
    Invocations(Rules),
}

impl From<Fidelity> for Options {
    fn from(fidelity: Fidelity) -> Self {
        Self { fidelity, mutant: None, topic: Topic::Faults, records_comparison: false }
    }
}

/// Runs the schedule of one seed, on this thread.
///
/// # Panics
/// If the machine cannot create a runtime.
#[must_use]
pub fn run(seed: u64, options: &Options) -> Outcome {
    let fidelity = &options.fidelity;
    // This also clears the state of the mutant from the schedule before.
    mutants::activate(options.mutant);
    let plan = match options.topic {
        Topic::Faults => Plan::from_seed(
            seed,
            matches!(fidelity, Fidelity::Native) && !options.records_comparison,
        ),
        Topic::Timetable(rules) => Plan::timetable(seed, rules),
        Topic::Invocations(rules) => Plan::invocations(seed, rules),
    };
    let (class, traits) = (plan.class, plan.traits);
    let longest_lease = plan.machines.iter().map(|machine| machine.lease * 1_000).max();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let (mut history, coverage, record) = runtime.block_on(async {
        let world = World::new(seed, plan);
        world.state().comparison = options.records_comparison.then(Comparison::default);
        match options.topic {
            Topic::Invocations(_) => run_invocations(&world).await,
            _ => run_schedule(&world, fidelity).await,
        }
        let mut state = world.state();
        let record = state.comparison.take().unwrap_or_default().record;
        (std::mem::take(&mut state.history), state.coverage.clone(), record)
    });
    // The futures of the processes end with the runtime. Events after that are not part of the
    // history.
    drop(runtime);
    history.entries.shrink_to_fit();
    let lasted = history.entries.last().map_or(0, |entry| entry.at);
    let violations = match options.topic {
        Topic::Invocations(_) => oracle::check_slots(&history),
        _ => oracle::check(&history, class),
    };
    Outcome {
        seed,
        class,
        traits,
        takeovers: takeovers(&history),
        slots: Slots::from_history(&history),
        virtual_ms: lasted,
        longest_lease: longest_lease.unwrap_or(0),
        coverage,
        violations,
        history,
        record,
    }
}

async fn run_schedule(world: &Arc<World>, fidelity: &Fidelity) {
    for machine in 0..world.plan.machines.len() {
        tokio::spawn(process::machine(world.clone(), machine, fidelity.clone()));
    }
    tokio::spawn(injection::inject_timed_faults(world.clone()));
    tokio::spawn(hints::send_hints(world.clone()));
    tokio::spawn(triggers::run_commands(world.clone()));
    tokio::spawn(transfers::run_commands(world.clone()));
    world.wait_until(world.plan.finale).await;
    finale::run(world).await;
}

async fn run_invocations(world: &Arc<World>) {
    for machine in 0..world.plan.machines.len() {
        tokio::spawn(invocations::replica(world.clone(), machine));
    }
    tokio::spawn(injection::inject_timed_faults(world.clone()));
    world.wait_until(world.plan.finale + world.plan.final_duration).await;
    world.note(HistoryEvent::ScheduleEnded);
}

fn takeovers(history: &History) -> u64 {
    let wins = history.wins();
    let is_takeover_before_calm =
        |win: &&[history::Win]| win[1].at < history.calm && win[0].candidate != win[1].candidate;
    wins.windows(2).filter(is_takeover_before_calm).count() as u64
}

/// Counts of slots and turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Claimed slots.
    pub claimed: u64,
    /// Slots with a turn.
    pub run: u64,
    /// Turns.
    pub turns: u64,
    /// Slots with more than one turn.
    pub repeated: u64,
}

impl Slots {
    fn from_history(history: &History) -> Self {
        let claims = history.writes().filter(|(_, _, request, _)| request.step == Step::Claim);
        let claimed: BTreeSet<u64> = claims.map(|(.., write)| write.slot).collect();
        let (mut run, mut repeated, mut turns) = (BTreeSet::new(), BTreeSet::new(), 0);
        for entry in &history.entries {
            if let HistoryEvent::TurnBegan { slot, .. } = entry.event {
                turns += 1;
                if !run.insert(slot) {
                    repeated.insert(slot);
                }
            }
        }
        let [claimed, run, repeated] = [&claimed, &run, &repeated].map(|slots| slots.len() as u64);
        Self { claimed, run, turns, repeated }
    }
}

impl std::ops::AddAssign for Slots {
    fn add_assign(&mut self, other: Self) {
        self.claimed += other.claimed;
        self.run += other.run;
        self.turns += other.turns;
        self.repeated += other.repeated;
    }
}
