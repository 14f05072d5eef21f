//! Triggers: outsiders request turns at any time, as `tenure trigger` does (protocol.md §6.1).
//!
//! Some commands are repeated with the same id, some run at the same time, and time passes between
//! the requests of each. Half of them send a hint to the leader.

use std::sync::Arc;

use tenure_azure::Class;
use tenure_azure::blob::SideBlob;
use tenure_azure::operation::Operation;
use tenure_core::OrderStep;

use super::dice::Dice;
use super::hints::hint;
use super::history::HistoryEvent;
use super::plan::Trait;
use super::world::{Millis, World};

/// Maximum number of attempts of a command.
pub(super) const MAX_ROUNDS: u32 = 12;

/// Requests turns until the calm.
pub async fn run_commands(world: Arc<World>) {
    if !world.plan.traits.has(Trait::Triggers) {
        return;
    }
    let mut dice = Dice::new(world.seed, 13);
    let max_pause: Millis = dice.pick(&[2_000, 10_000, 60_000]);
    let mut number = 0;
    loop {
        world.wait_until(world.now() + dice.between(0, max_pause)).await;
        if world.now() >= world.plan.calm {
            return;
        }
        number += 1;
        for _ in 0..dice.pick(&[1, 1, 1, 2]) {
            let dice = Dice::new(world.seed ^ dice.bits(), 14);
            tokio::spawn(command(world.clone(), number, dice));
        }
    }
}

/// Runs one command. The store responds at once, and time passes between the requests.
async fn command(world: Arc<World>, number: u32, mut dice: Dice) {
    let id = format!("t{number}");
    for _ in 0..MAX_ROUNDS {
        let run_operation = |operation: &Operation| {
            let now = world.now();
            world.state().service.run_operation(now, operation)
        };
        let orders = run_operation(&Operation::ReadSideBlob(SideBlob::Orders));
        pause(&world, &mut dice).await;
        let election = run_operation(&Operation::Read { lease: None });
        let now = world.now();
        let placing = world.state().service.trigger(now, &id, &orders, &election);
        let (operation, is_create) = match placing {
            Some(OrderStep::Create(operation)) => (operation, true),
            Some(OrderStep::Write(operation, _)) => (operation, false),
            Some(OrderStep::Known(_)) | None => return,
        };
        pause(&world, &mut dice).await;
        if world.now() >= world.plan.calm {
            return;
        }
        let answer = run_operation(&operation);
        if answer.class == Class::Done && !is_create {
            world.note(HistoryEvent::Triggered(number));
            if dice.once_in(2) {
                // One after the other: hints in the same millisecond have no order.
                for machine in 0..world.plan.machines.len() {
                    hint(&world, machine);
                    world.wait_until(world.now() + 1).await;
                }
            }
            return;
        }
    }
}

pub(super) async fn pause(world: &World, dice: &mut Dice) {
    let max_pause = dice.pick(&[0, 5, 50, 500]);
    world.wait_until(world.now() + dice.between(0, max_pause)).await;
}
