//! Candidates as processes: started, paused, killed, and started again.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tenure::engine::Runner;
use tokio::sync::mpsc;

use super::dice::Dice;
use super::elector::{Fidelity, SimElector};
use super::gate::Gate;
use super::handler::Desk;
use super::history::{What, Who};
use super::supervisor;
use super::world::{Millis, World};

/// The longest until a process that ended is started again.
const DOWN: Millis = 20_000;

/// Runs candidates on one machine, one after the other, until the schedule ends.
pub async fn machine(world: Arc<World>, machine: usize, fidelity: Fidelity) {
    world.until(world.plan.machines[machine].starts).await;
    let mut dice = Dice::new(world.seed, 500 + machine as u64);
    loop {
        contend(&world, machine, &fidelity).await;
        if world.state().closing {
            return;
        }
        // Whoever is to take part in the finale is there before it.
        let again = world.now() + dice.between(0, DOWN);
        world.until(again.min(world.plan.calm.max(world.now() + 1))).await;
    }
}

/// One candidate, from its start to its end.
async fn contend(world: &Arc<World>, machine: usize, fidelity: &Fidelity) {
    let (who, clock) = world.start(machine);
    let elector = SimElector::new(world, who, machine, &clock, fidelity);
    let desk = Desk::new(world.clone(), who, clock.clone());
    let grace = Duration::from_millis(world.plan.grace);
    let hints = world.state().processes[who].hints.clone();
    let runner = Runner::new(elector, desk, clock.clone()).grace(grace).with_hints(hints);
    let of_reports = world.clone();
    let mut runner = runner.on_report(move |report, at| {
        let now = of_reports.now();
        of_reports.state().reports(now, who, report, at);
    });
    let told = async |world: &World| {
        std::future::poll_fn(|_| match world.state().processes[who].leaving {
            true => Poll::Ready(()),
            // Whoever tells it wakes the process, which asks again.
            false => Poll::Pending,
        })
        .await;
    };
    let (order, mut orders) = mpsc::channel(4);
    world.state().processes[who].orders = Some(order);
    let run = runner.run_with(told(world), &mut orders);
    let left = Process::new(world, who, Box::pin(run)).await;
    let now = world.now();
    let mut state = world.state();
    if left {
        state.end_turn(now, who);
        state.processes[who].over = true;
        state.note(now, What::Left(who));
    }
    state.running[machine] = None;
    if !left && state.processes[who].supervised {
        tokio::spawn(supervisor::executes(world.clone(), who, clock));
    }
}

/// A process: its future goes on only while it is neither paused nor killed. True: it left.
pub(super) struct Process<'a, F> {
    world: &'a World,
    who: Who,
    run: Option<Pin<Box<F>>>,
}

impl<'a, F> Process<'a, F> {
    pub(super) fn new(world: &'a World, who: Who, run: Pin<Box<F>>) -> Self {
        Self { world, who, run: Some(run) }
    }
}

impl<F: Future<Output = ()>> Future for Process<'_, F> {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        match self.world.gate(self.who, cx.waker()) {
            Gate::Over => {
                self.run = None;
                return Poll::Ready(false);
            }
            Gate::Paused => return Poll::Pending,
            Gate::Open => {}
        }
        let Some(run) = &mut self.run else { return Poll::Ready(false) };
        if run.as_mut().poll(cx).is_ready() {
            return Poll::Ready(true);
        }
        // It may have been killed by what it did.
        if self.world.state().processes[self.who].over {
            self.run = None;
            return Poll::Ready(false);
        }
        Poll::Pending
    }
}
