//! End of a schedule. In the calm, leaders go one after the other, by turns gracefully and by a
//! kill, until one candidate is left. Each candidate must show that it contends.

use std::sync::Arc;

use super::history::{CandidateId, HistoryEvent};
use super::plan::Machine;
use super::world::{Millis, World};

/// Pause between a takeover and the next loss.
const PAUSE: Millis = 1_000;

/// Runs the finale. The oracle checks it later, from the history.
pub async fn run(world: &Arc<World>) {
    world.state().is_closing = true;
    let machines = world.plan.machines.len();
    for round in 0..machines {
        let Some(leader) = wait_for_leader(world).await else { return };
        if round + 1 == machines {
            break;
        }
        {
            let now = world.now();
            let mut state = world.state();
            match round % 2 {
                0 => state.request_leave(now, leader),
                _ => state.kill(now, leader),
            }
        }
        wait_for_other_leader(world, leader).await;
    }
    let duration = 10 * world.plan.machines.iter().map(|m| m.lease * 1_000).max().unwrap_or(0);
    world.wait_until(duration.max(world.now() + world.plan.final_duration)).await;
    world.note(HistoryEvent::ScheduleEnded);
}

fn leader(world: &World) -> Option<CandidateId> {
    let state = world.state();
    state
        .service
        .leader
        .map(|(candidate, _)| candidate)
        .filter(|candidate| !state.processes[*candidate].has_exited)
}

/// Waits for a leader, including the successor of one that makes way on its own.
async fn wait_for_leader(world: &World) -> Option<CandidateId> {
    let deadline = world.now() + 2 * longest(world, |machine| machine.poll) + takeover_bound(world);
    while leader(world).is_none() && world.now() < deadline {
        world.wait_until(world.now() + PAUSE).await;
    }
    leader(world)
}

fn longest(world: &World, period: fn(&Machine) -> Millis) -> Millis {
    world.plan.machines.iter().map(period).max().unwrap_or(0)
}

fn takeover_bound(world: &World) -> Millis {
    10_000 + 8 * world.plan.latency.most
}

/// Waits until another candidate leads, within a time limit.
async fn wait_for_other_leader(world: &World, previous: CandidateId) {
    let lease = longest(world, |machine| machine.lease * 1_000);
    let deadline = world.now() + lease + takeover_bound(world);
    while world.now() < deadline {
        world.wait_until(world.now() + PAUSE).await;
        if leader(world).is_some_and(|leader| leader != previous) {
            return;
        }
    }
}
