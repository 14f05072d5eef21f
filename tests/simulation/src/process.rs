//! Candidates as processes: started, paused, killed, and restarted.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tenure::engine::Runner;
use tokio::sync::mpsc;

use super::dice::Dice;
use super::elector::{Fidelity, SimElector};
use super::handler::SimHandler;
use super::history::{CandidateId, HistoryEvent};
use super::process_state::Gate;
use super::supervisor;
use super::world::{Millis, World};

/// Longest downtime of a process that ended.
const MAX_DOWNTIME: Millis = 20_000;

/// Runs candidates on one machine, one after the other, until the schedule ends.
pub async fn machine(world: Arc<World>, machine: usize, fidelity: Fidelity) {
    world.wait_until(world.plan.machines[machine].starts_at).await;
    let mut dice = Dice::new(world.seed, 500 + machine as u64);
    loop {
        contend(&world, machine, &fidelity).await;
        if world.state().is_closing {
            return;
        }
        // Participants of the finale must start before it.
        let restart_at = world.now() + dice.between(0, MAX_DOWNTIME);
        world.wait_until(restart_at.min(world.plan.calm.max(world.now() + 1))).await;
    }
}

/// Runs one candidate, from its start to its end.
async fn contend(world: &Arc<World>, machine: usize, fidelity: &Fidelity) {
    let (candidate, clock) = world.start(machine);
    let elector = SimElector::new(world, candidate, machine, &clock, fidelity);
    let handler = SimHandler::new(world.clone(), candidate, clock.clone());
    let grace = Duration::from_millis(world.plan.grace);
    let hints = world.state().processes[candidate].hints.clone();
    let runner = Runner::new(elector, handler, clock.clone()).grace(grace).with_hints(hints);
    let report_world = world.clone();
    let mut runner = runner.on_report(move |report, at| {
        let now = report_world.now();
        report_world.state().on_report(now, candidate, report, at);
    });
    let leave_requested = async |world: &World| {
        std::future::poll_fn(|_| match world.state().processes[candidate].leaving {
            true => Poll::Ready(()),
            // The request to leave wakes the process, which polls again.
            false => Poll::Pending,
        })
        .await;
    };
    let (order_sender, mut orders) = mpsc::channel(4);
    world.state().processes[candidate].orders = Some(order_sender);
    let run = runner.run_with(leave_requested(world), &mut orders);
    let has_left = Process::new(world, candidate, Box::pin(run)).await;
    let now = world.now();
    let mut state = world.state();
    if has_left {
        state.end_turn(now, candidate);
        state.processes[candidate].has_exited = true;
        state.note(now, HistoryEvent::Left(candidate));
    }
    state.running[machine] = None;
    if !has_left && state.processes[candidate].supervised {
        tokio::spawn(supervisor::execute_last_will(world.clone(), candidate, clock));
    }
}

/// Future of a process, which only runs while the process is neither paused nor killed. Returns
/// true if the process left.
pub(super) struct Process<'a, F> {
    world: &'a World,
    candidate: CandidateId,
    future: Option<Pin<Box<F>>>,
}

impl<'a, F> Process<'a, F> {
    pub(super) fn new(world: &'a World, candidate: CandidateId, future: Pin<Box<F>>) -> Self {
        Self { world, candidate, future: Some(future) }
    }
}

impl<F: Future<Output = ()>> Future for Process<'_, F> {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        match self.world.gate(self.candidate, cx.waker()) {
            Gate::Exited => {
                self.future = None;
                return Poll::Ready(false);
            }
            Gate::Paused => return Poll::Pending,
            Gate::Open => {}
        }
        let Some(future) = &mut self.future else { return Poll::Ready(false) };
        if future.as_mut().poll(cx).is_ready() {
            return Poll::Ready(true);
        }
        // The process may have been killed by its own action.
        if self.world.state().processes[self.candidate].has_exited {
            self.future = None;
            return Poll::Ready(false);
        }
        Poll::Pending
    }
}
