//! The end of a schedule: in the calm, one leader after the other goes, by turns in good order
//! and without a word, until one candidate is left. Each of them must show that it contends.

use std::sync::Arc;

use super::history::{What, Who};
use super::plan::Machine;
use super::world::{Millis, World};

/// Between a takeover and the next loss.
const PAUSE: Millis = 1_000;

/// Plays it. What it shows is judged later, from the history.
pub async fn play(world: &Arc<World>) {
    world.state().closing = true;
    let machines = world.plan.machines.len();
    for round in 0..machines {
        let Some(leader) = any_leader(world).await else { return };
        if round + 1 == machines {
            break;
        }
        {
            let now = world.now();
            let mut state = world.state();
            match round % 2 {
                0 => state.tell_to_leave(now, leader),
                _ => state.kill(now, leader),
            }
        }
        await_another(world, leader).await;
    }
    let least = 10 * world.plan.machines.iter().map(|m| m.lease * 1_000).max().unwrap_or(0);
    world.until(least.max(world.now() + world.plan.rest)).await;
    world.note(What::Over);
}

fn leader(world: &World) -> Option<Who> {
    let state = world.state();
    state.service.leader.map(|(who, _)| who).filter(|who| !state.processes[*who].over)
}

/// Whoever leads; one that makes way for another of its own accord is waited for.
async fn any_leader(world: &World) -> Option<Who> {
    let give_up = world.now() + 2 * longest(world, |machine| machine.poll) + takes_over(world);
    while leader(world).is_none() && world.now() < give_up {
        world.until(world.now() + PAUSE).await;
    }
    leader(world)
}

fn longest(world: &World, of: fn(&Machine) -> Millis) -> Millis {
    world.plan.machines.iter().map(of).max().unwrap_or(0)
}

fn takes_over(world: &World) -> Millis {
    10_000 + 8 * world.plan.latency.most
}

/// Waits until another leads, for no longer than that may take.
async fn await_another(world: &World, before: Who) {
    let lease = longest(world, |machine| machine.lease * 1_000);
    let give_up = world.now() + lease + takes_over(world);
    while world.now() < give_up {
        world.until(world.now() + PAUSE).await;
        if leader(world).is_some_and(|leader| leader != before) {
            return;
        }
    }
}
