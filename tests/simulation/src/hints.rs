//! Hints that the leader may have changed (protocol.md §4.5).
//!
//! True hints come soon after a lease was given up or a process was killed. False hints come alone
//! or many at once. Hints excuse nothing: the oracle ignores them, and separately checks how often
//! candidates poll because of them.

use std::sync::Arc;

use tokio::select;

use super::dice::Dice;
use super::history::HistoryEvent;
use super::plan::Trait;
use super::world::{Millis, World};

/// Number of false hints, and the milliseconds between them.
const FALSE_HINTS: [(u32, Millis); 5] = [(1, 0), (1, 0), (3, 400), (12, 90), (150, 7)];

/// Sends hints until the schedule ends.
pub async fn send_hints(world: Arc<World>) {
    if !world.plan.traits.has(Trait::Hints) {
        return;
    }
    let mut dice = Dice::new(world.seed, 12);
    let leadership_changed = world.state().leadership_changed.clone();
    loop {
        let next_false_hint = world.now() + dice.between(2_000, 60_000);
        select! {
            biased;
            () = leadership_changed.notified() => send_true_hints(&world, &mut dice).await,
            () = world.wait_until(next_false_hint) => send_false_hints(&world, &mut dice).await,
        }
    }
}

/// Sends a true hint to most of the running candidates.
async fn send_true_hints(world: &World, dice: &mut Dice) {
    world.wait_until(world.now() + dice.between(0, 40)).await;
    for machine in 0..world.plan.machines.len() {
        if !dice.once_in(4) {
            hint(world, machine);
        }
    }
}

async fn send_false_hints(world: &World, dice: &mut Dice) {
    let machines = world.plan.machines.len() as u64;
    let machine = usize::try_from(dice.bits() % machines).unwrap_or(0);
    let (count, pause) = dice.pick(&FALSE_HINTS);
    for _ in 0..count {
        hint(world, machine);
        world.wait_until(world.now() + pause).await;
    }
}

pub(super) fn hint(world: &World, machine: usize) {
    let now = world.now();
    let mut state = world.state();
    let Some(candidate) =
        state.running[machine].filter(|candidate| !state.processes[*candidate].has_exited)
    else {
        return;
    };
    if world.plan.traits.has(Trait::Hints) {
        state.coverage.add_trait(Trait::Hints);
    }
    state.processes[candidate].hints.notify_one();
    state.note(now, HistoryEvent::Hinted(candidate));
}
