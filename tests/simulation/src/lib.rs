//! Candidates in virtual time: the runner that ships, driven by the pure core or by the component
//! that ships, against the embedded store, with faults that a seed chooses.
//!
//! - A schedule runs on a tokio runtime of its own, on one thread, with its time paused: the one
//!   source of time for all that takes part. It jumps to the next timer when nothing else can run.
//! - True time has whole milliseconds. A process sees it through a clock that is a little wrong.
//! - What happens follows from the seed alone: each purpose has dice of its own, nothing is
//!   ordered by chance, and nothing is kept from one schedule to the next.
//! - A handler's request leaves in the same instant in which it looked at its deadline, so the
//!   protocol's A4 holds here by construction.
//! - [`oracle`] judges the [`history`]: the store's operations in its order, the wire, and the
//!   spans in which handlers worked.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "only tests use this")]

pub mod campaign;
pub mod clock;
pub mod compare;
pub mod condition;
pub mod coverage;
pub mod dice;
pub mod elector;
pub mod exploration;
pub mod fate;
pub mod fault;
mod finale;
pub mod gate;
pub mod handler;
pub mod hints;
pub mod history;
mod hostile;
pub mod hunt;
mod invocations;
pub mod last_run;
mod native;
pub mod network;
pub mod oracle;
pub mod plan;
pub mod process;
pub mod service;
pub mod strike;
pub mod supervisor;
mod token;
pub mod trace;
mod transfers;
mod triggers;
mod variables;
pub mod wire;
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

/// Requests are made of small strings: with the allocator of the C library, a half of the time
/// would go there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What came of one schedule.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// Which assumptions held.
    pub class: Class,
    /// What it had beside its faults.
    pub traits: Traits,
    /// Terms that another candidate won than the one before, until the calm.
    pub takeovers: u64,
    /// What became of its slots.
    pub slots: Slots,
    /// Virtual time, in milliseconds.
    pub virtual_ms: u64,
    /// The longest lease, in milliseconds.
    pub longest_lease: u64,
    /// What struck where.
    pub coverage: Coverage,
    /// What must not happen, and did.
    pub violations: Vec<Violation>,
    /// Everything that happened.
    pub history: History,
    /// A line for each input and output of an elector, if `compares` is set.
    pub record: Vec<String>,
}

impl Outcome {
    /// Whether the schedule proves anything: three candidates, ten leases, a takeover, two
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

/// What to run.
#[derive(Clone)]
pub struct Options {
    /// What the candidates are made of.
    pub fidelity: Fidelity,
    /// The seeded bug that their core has; only the native one can have any.
    pub mutant: Option<Mutant>,
    /// What the schedules are about.
    pub topic: Topic,
    /// Draws for the pure core only what the component can have too, and records inputs and outputs of electors.
    pub records_comparison: bool,
}

/// What schedules are about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Topic {
    /// Every fault, at every step.
    #[default]
    Faults,
    /// A long run of slots with these rules.
    Timetable(Rules),
    /// The same, of invocations that are one turn each.
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
/// The machine cannot make a runtime.
#[must_use]
pub fn run(seed: u64, options: &Options) -> Outcome {
    let fidelity = &options.fidelity;
    // Also forgets what a seeded bug knew of the schedule before.
    mutants::activate(options.mutant);
    let plan = match options.topic {
        Topic::Faults => Plan::from_seed(seed, matches!(fidelity, Fidelity::Native) && !options.records_comparison),
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
    // The futures of the processes end with the runtime; what they tell then is not part of it.
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
    tokio::spawn(strike::inject_timed_faults(world.clone()));
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
    tokio::spawn(strike::inject_timed_faults(world.clone()));
    world.wait_until(world.plan.finale + world.plan.final_duration).await;
    world.note(HistoryEvent::ScheduleEnded);
}

fn takeovers(history: &History) -> u64 {
    let wins = history.wins();
    let is_takeover_before_calm = |win: &&[history::Win]| win[1].at < history.calm && win[0].candidate != win[1].candidate;
    wins.windows(2).filter(is_takeover_before_calm).count() as u64
}

/// What became of slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Slots that were claimed.
    pub claimed: u64,
    /// Slots that had a turn.
    pub run: u64,
    /// Turns.
    pub turns: u64,
    /// Slots that had more than one.
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
