//! Simulation of a platform that owns the timer and calls the component.
//!
//! At each tick the platform starts one invocation per replica, all at about the same time, each a
//! whole turn. Nothing renews the lease during the handler and nothing stops it. So the oracle only
//! checks slots, terms, and leases.

use std::sync::Arc;
use std::time::Duration;

use tenure_clock::Clock;
use tenure_core::{
    CredentialState, OneTurn, OneTurnAction, OneTurnOutcome, Settings, Step, Turn, driver,
};

use super::clock::SimClock;
use super::dice::Dice;
use super::history::{CandidateId, HistoryEvent, trigger_number};
use super::native::{Native, StepSurroundings};
use super::process::Process;
use super::process_state::TurnState;
use super::world::{Millis, World};

/// Maximum difference between the timers of two replicas.
const MAX_TIMER_OFFSET: Millis = 1_000;

/// Duration of a turn that may outlive its lease.
const LONG_TURN_RANGE: (Millis, Millis) = (10_000, 90_000);

/// Calls the component on one machine at each tick, until the schedule ends.
pub async fn replica(world: Arc<World>, machine: usize) {
    let mut dice = Dice::new(world.seed, 600 + machine as u64);
    let interval = world.plan.every * 1_000;
    let mut tick = 0;
    loop {
        world.wait_until(tick + dice.between(0, MAX_TIMER_OFFSET)).await;
        if world.state().is_closing {
            return;
        }
        // The platform does not wait for an invocation to end.
        tokio::spawn(invoke(world.clone(), machine));
        tick += interval;
    }
}

async fn invoke(world: Arc<World>, machine: usize) {
    let (candidate, clock) = world.start(machine);
    let native = Native::new(&world, candidate, machine, &clock, |f| Settings::one_shot(f));
    let native = native.without_host();
    let invocation = Invocation { world: world.clone(), candidate, clock, native };
    let has_ended = Process::new(&world, candidate, Box::pin(invocation.run())).await;
    let now = world.now();
    let mut state = world.state();
    if has_ended {
        state.end_turn(now, candidate);
        state.processes[candidate].has_exited = true;
        state.note(now, HistoryEvent::Left(candidate));
    }
    if state.running[machine] == Some(candidate) {
        state.running[machine] = None;
    }
}

struct Invocation {
    world: Arc<World>,
    candidate: CandidateId,
    clock: SimClock,
    native: Native,
}

impl Invocation {
    /// Runs the invocation as the component does.
    async fn run(self) {
        let settings = &self.native.settings;
        let mut turn = OneTurn::new(settings, self.native.now());
        let mut credential_state = CredentialState::default();
        loop {
            let now = self.native.now();
            match turn.next(now) {
                OneTurnAction::Read => {
                    let surroundings = StepSurroundings::without_step(&self.native);
                    let observation =
                        driver::inspect(settings, &mut credential_state, &surroundings).await;
                    turn.on_read(observation, self.native.now());
                }
                OneTurnAction::Step(event) => {
                    let state = turn.state();
                    let step_start = self.native.step_start();
                    let mut step = self.native.begin(settings, state, step_start, event);
                    let surroundings = self.native.surroundings(step_start);
                    let report = driver::drive(&mut step, settings, &surroundings).await;
                    let prospect = Step::progress(&step);
                    turn.on_step(report, prospect, step_start.at, self.native.now());
                }
                OneTurnAction::Wait(until) => {
                    let remaining = until.saturating_sub(now);
                    self.clock.sleep_until(self.clock.now() + remaining).await;
                }
                OneTurnAction::Run(run) => {
                    let result = self.handle(&run).await;
                    turn.on_handler_done(result, self.native.now());
                }
                OneTurnAction::Done(turn_result) => {
                    let succeeded = turn_result.outcome == OneTurnOutcome::Succeeded;
                    if turn_result.handler_called {
                        self.world
                            .note(HistoryEvent::InvocationReturned(self.candidate, succeeded));
                    }
                    return;
                }
            }
        }
    }

    /// Runs the handler's work, which only the end of the process can stop.
    async fn handle(&self, turn: &Turn) -> Result<(), String> {
        let Self { world, candidate, clock, .. } = self;
        let (term, slot, attempt) = (turn.term, turn.slot.0, turn.attempt);
        let now = world.now();
        {
            let mut state = world.state();
            state.processes[*candidate].turn = Some(TurnState { term, is_working: true });
            let trigger = turn.trigger.as_deref().map(trigger_number);
            state.note(
                now,
                HistoryEvent::TurnBegan { candidate: *candidate, term, slot, attempt, trigger },
            );
            state.note(now, HistoryEvent::WorkStarted(*candidate, term));
        }
        let mut dice = Dice::new(world.seed ^ slot, 2_000 + *candidate as u64);
        let duration = match dice.permille(world.plan.long_turns_permille) {
            true => dice.between(LONG_TURN_RANGE.0, LONG_TURN_RANGE.1),
            false => dice.between(0, world.plan.longest_turn),
        };
        let duration = Duration::from_millis(duration);
        clock.sleep_until(clock.now() + duration).await;
        let now = world.now();
        world.state().end_turn(now, *candidate);
        let is_poisoned =
            Dice::new(world.seed ^ slot, 6).permille(world.plan.rules.poison_permille);
        match is_poisoned || dice.permille(world.plan.failing_turns_permille) {
            true => Err("as the dice fell".into()),
            false => Ok(()),
        }
    }
}
