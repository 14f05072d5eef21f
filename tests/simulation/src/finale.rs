//! The end of a schedule: in the calm, one leader after the other goes, by turns in good order
//! and without a word, until one candidate is left. Each of them must show that it contends.

use std::sync::Arc;

use super::history::{HistoryEvent, CandidateId};
use super::plan::Machine;
use super::world::{Millis, World};

/// Between a takeover and the next loss.
const PAUSE: Millis = 1_000;

/// Plays it. What it shows is judged later, from the history.
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
    state.service.leader.map(|(candidate, _)| candidate).filter(|candidate| !state.processes[*candidate].has_exited)
}

/// Whoever leads; one that makes way for another of its own accord is waited for.
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

/// Waits until another leads, for no longer than that may take.
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
