//! A platform that owns the timer and calls the component: at each tick one invocation per replica,
//! all at about the same time, each of them a whole turn. Nothing renews beside the handler and
//! nothing stops it, so that only the slots are judged, the terms, and the leases.

use std::sync::Arc;
use std::time::Duration;

use tenure_clock::Clock;
use tenure_core::{Course, CredentialState, Next, OneTurn, Settings, Step, Turn, driver};

use super::clock::SimClock;
use super::dice::Dice;
use super::gate::TurnState;
use super::history::{What, Who, number};
use super::native::{Around, Native};
use super::process::Process;
use super::world::{Millis, World};

/// How far the timers of two replicas differ.
const APART: Millis = 1_000;

/// How long a turn may take that outlives its lease, perhaps.
const LONG: (Millis, Millis) = (10_000, 90_000);

/// Calls the component on one machine at each tick, until the schedule ends.
pub async fn replica(world: Arc<World>, machine: usize) {
    let mut dice = Dice::new(world.seed, 600 + machine as u64);
    let every = world.plan.every * 1_000;
    let mut tick = 0;
    loop {
        world.until(tick + dice.between(0, APART)).await;
        if world.state().closing {
            return;
        }
        // The platform does not wait for an invocation to end.
        tokio::spawn(invoke(world.clone(), machine));
        tick += every;
    }
}

async fn invoke(world: Arc<World>, machine: usize) {
    let (who, clock) = world.start(machine);
    let native = Native::new(&world, who, machine, &clock, |f| Settings::one_shot(f));
    let native = native.on_its_own();
    let invocation = Invocation { world: world.clone(), who, clock, native };
    let ended = Process::new(&world, who, Box::pin(invocation.run())).await;
    let now = world.now();
    let mut state = world.state();
    if ended {
        state.end_turn(now, who);
        state.processes[who].over = true;
        state.note(now, What::Left(who));
    }
    if state.running[machine] == Some(who) {
        state.running[machine] = None;
    }
}

struct Invocation {
    world: Arc<World>,
    who: Who,
    clock: SimClock,
    native: Native,
}

impl Invocation {
    /// As the component does it.
    async fn run(self) {
        let settings = &self.native.settings;
        let mut turn = OneTurn::begin(settings, self.native.now());
        let mut credential_state = CredentialState::default();
        loop {
            let now = self.native.now();
            match turn.next(now) {
                Next::Read => {
                    let around = Around::outside(&self.native);
                    let look = driver::look(settings, &mut credential_state, &around).await;
                    turn.read(look, self.native.now());
                }
                Next::Step(event) => {
                    let state = turn.state();
                    let begins = self.native.begins();
                    let mut step = self.native.begin(settings, state, begins, event);
                    let around = self.native.around(begins);
                    let report = driver::drive(&mut step, settings, &around).await;
                    let prospect = Step::prospect(&step);
                    turn.stepped(report, prospect, begins.at, self.native.now());
                }
                Next::Wait(until) => {
                    let wait = until.saturating_sub(now);
                    self.clock.sleep_until(self.clock.now() + wait).await;
                }
                Next::Run(run) => {
                    let result = self.handle(&run).await;
                    turn.ran(result, self.native.now());
                }
                Next::Done(turned) => {
                    let succeeded = turned.course == Course::Succeeded;
                    if turned.ran {
                        self.world.note(What::Returned(self.who, succeeded));
                    }
                    return;
                }
            }
        }
    }

    /// The handler's work, which nothing can stop but the end of the process.
    async fn handle(&self, turn: &Turn) -> Result<(), String> {
        let Self { world, who, clock, .. } = self;
        let (term, slot, attempt) = (turn.term, turn.slot.0, turn.attempt);
        let now = world.now();
        {
            let mut state = world.state();
            state.processes[*who].turn = Some(TurnState { term, works: true });
            let trigger = turn.trigger.as_deref().map(number);
            state.note(now, What::TurnBegan { who: *who, term, slot, attempt, trigger });
            state.note(now, What::Works(*who, term));
        }
        let mut dice = Dice::new(world.seed ^ slot, 2_000 + *who as u64);
        let lasts = match dice.permille(world.plan.long_turns) {
            true => dice.between(LONG.0, LONG.1),
            false => dice.between(0, world.plan.longest_turn),
        };
        let lasts = Duration::from_millis(lasts);
        clock.sleep_until(clock.now() + lasts).await;
        let now = world.now();
        world.state().end_turn(now, *who);
        let poisoned = Dice::new(world.seed ^ slot, 6).permille(world.plan.rules.poison);
        match poisoned || dice.permille(world.plan.sick_turns) {
            true => Err("as the dice fell".into()),
            false => Ok(()),
        }
    }
}
