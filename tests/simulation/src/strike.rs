//! Faults as they strike: ambushes at a step, timed ones, and what they do.

use std::sync::Arc;

use tenure::engine::Order;

use super::condition;
use super::dice::Dice;
use super::fault::{Fault, Kind, Step};
use super::history::{What, Who};
use super::plan::{DELETION, Moment, Target, Timed, Version};
use super::world::{Millis, Outage, State, World};

/// The most that a lease ends early (A1).
const EARLY: Millis = 2_000;

/// No lease lasts longer.
const LONGEST: Millis = 60_000;

/// Takes the fault that lies in wait at this step and moment, if one does.
pub fn waiting_for(
    state: &mut State,
    step: Step,
    moment: Moment,
    faulty: bool,
    fits: impl Fn(Fault) -> bool,
) -> Option<Fault> {
    let found = state
        .ambushes
        .iter()
        .position(|ambush| ambush.step == step && ambush.moment == moment && fits(ambush.fault))?;
    let ambush = &mut state.ambushes[found];
    if !faulty {
        return None;
    }
    if ambush.spares > 0 {
        ambush.spares -= 1;
        return None;
    }
    Some(state.ambushes.swap_remove(found).fault)
}

/// Any fault of a single request.
pub fn any_of_request(dice: &mut Dice) -> Fault {
    loop {
        let fault = dice.pick(&Fault::ALL);
        if fault.kind() == Kind::Request {
            return fault;
        }
    }
}

/// A candidate comes to a step: what lies in wait there strikes.
pub fn ambush(world: &Arc<World>, who: Who, step: Step, moment: Moment) {
    let faulty = world.now() < world.plan.calm;
    let others = |fault: Fault| fault.kind() != Kind::Request;
    let fault = waiting_for(&mut world.state(), step, moment, faulty, others);
    if let Some(fault) = fault {
        strike(world, fault, who, step);
    }
}

/// Faults whose hour comes.
pub async fn timed(world: Arc<World>) {
    for Timed { at, fault, target } in world.plan.timed.clone() {
        world.until(at).await;
        let (who, step) = {
            let state = world.state();
            let machine = match (target, state.service.leader) {
                (Target::Leader, Some((who, _))) if !state.processes[who].over => {
                    Some(state.processes[who].machine)
                }
                (Target::Leader, _) => {
                    (0..state.running.len()).find(|n| state.running[*n].is_some())
                }
                (Target::Machine(machine), _) => Some(machine),
            };
            let Some(who) = machine.and_then(|machine| state.running[machine]) else { continue };
            let step = match fault.kind() {
                Kind::Outsider | Kind::Service => state.step,
                _ => state.processes[who].step,
            };
            (who, step)
        };
        strike(&world, fault, who, step);
    }
}

/// What a fault does. `who` is at `step`.
fn strike(world: &Arc<World>, fault: Fault, who: Who, step: Step) {
    let now = world.now();
    let rest = world.plan.calm.saturating_sub(now);
    if fault.kind() == Kind::Condition {
        return condition::begin(world, fault, who, step);
    }
    let lease = world.plan.machines[world.state().processes[who].machine].lease * 1_000;
    let mut guard = world.state();
    let state = &mut *guard;
    if state.processes[who].over {
        return;
    }
    match fault {
        Fault::PartitionOne | Fault::PartitionAll => {
            let place = match fault {
                Fault::PartitionOne => state.processes[who].machine,
                _ => state.partitions.len() - 1,
            };
            let until = now + around(lease, &mut state.faults).min(rest);
            let refused = state.faults.once_in(3);
            state.partitions[place] = Outage { until, refused };
            // Counted with each request that it swallows.
            let victim = (fault == Fault::PartitionOne).then_some(who);
            state.note(now, What::Struck(fault, victim, until));
        }
        Fault::StoreRestart => {
            state.restart = now + state.faults.between(500, 8_000).min(rest);
            let until = state.restart;
            state.note(now, What::Struck(fault, None, until));
        }
        Fault::PauseWithin | Fault::PauseBetween => {
            if state.processes[who].paused {
                return;
            }
            let fault = match state.processes[who].waiting {
                0 => Fault::PauseBetween,
                _ => Fault::PauseWithin,
            };
            let until = now + around(lease, &mut state.faults).min(rest);
            state.struck(now, fault, step, Some(who), until);
            state.pause(now, who);
            let world = world.clone();
            tokio::spawn(async move {
                world.until(until).await;
                let now = world.now();
                world.state().resume(now, who);
            });
        }
        Fault::Kill => {
            state.struck(now, fault, step, Some(who), now);
            state.kill(now, who);
        }
        Fault::Leave => {
            state.struck(now, fault, step, Some(who), now);
            state.tell_to_leave(now, who);
        }
        Fault::Resign => {
            // It does not contend for two polls then.
            let poll = world.plan.machines[state.processes[who].machine].poll;
            state.struck(now, fault, step, Some(who), now + 2 * poll + poll / 50);
            let _ = state.order(who, Order::Resign);
        }
        Fault::HandOver => {
            let (own, machines) = (state.processes[who].machine, state.running.len());
            if world.plan.machines[own].version == Version::Older {
                return;
            }
            let other = state.faults.between(1, machines as u64 - 1);
            let successor = (own + usize::try_from(other).unwrap_or(0)) % machines;
            let name = world.plan.machines[successor].name;
            state.struck(now, fault, step, Some(who), now);
            let named = world.plan.machines.iter().filter(|m| m.name == name).count();
            let able = named == 1 && world.plan.machines[successor].version != Version::Older;
            let successor = able.then_some(successor);
            state.tell_to_hand_over(now, who, name, successor);
            // An operator asks again.
            if state.faults.once_in(2) {
                let again = now + state.faults.between(1_000, 40_000);
                let world = world.clone();
                tokio::spawn(async move {
                    world.until(again).await;
                    if again < world.plan.calm {
                        world.state().tell_to_hand_over(again, who, name, successor);
                    }
                });
            }
        }
        Fault::NotReady => {
            let until = now + around(lease, &mut state.faults).min(rest);
            state.struck(now, fault, step, Some(who), until);
            state.order(who, Order::Ready(false));
            let world = world.clone();
            tokio::spawn(async move {
                world.until(until).await;
                world.state().order(who, Order::Ready(true));
            });
        }
        Fault::StepFails => {
            state.struck(now, fault, step, Some(who), now);
            state.processes[who].step_fails = true;
            state.processes[who].wake();
        }
        Fault::WallJump => {
            let most = state.faults.pick(&[5_000, 600_000, 7_200_000]);
            let jump = i64::try_from(state.faults.between(0, 2 * most)).unwrap_or(0);
            let jump = jump - i64::try_from(most).unwrap_or(0);
            let machine = state.processes[who].machine;
            state.wall_off[machine] += jump;
            state.struck(now, fault, step, Some(who), now);
            let forward = u64::try_from(jump).unwrap_or(0);
            if forward > 0 && world.plan.machines[machine].hasty {
                // It has no other clock that counts while it is suspended.
                state.ahead[machine] += forward;
                world.jumped.notify_waiters();
                state.note(now, What::SetForward(machine));
            }
            // And back, perhaps.
            let back = now + state.faults.between(0, 10_000);
            if state.faults.once_in(2) {
                let world = world.clone();
                tokio::spawn(async move {
                    world.until(back).await;
                    world.state().wall_off[machine] -= jump;
                });
            }
        }
        Fault::HostileRecord => {
            let until = now + state.faults.between(2_000, 20_000).min(rest);
            let bits = state.faults.bits();
            state.service.break_lease(now, true);
            state.service.hostile_record(now, bits, state.term);
            state.struck(now, fault, step, None, until);
            // It may be one that all leave alone, until somebody takes it away.
            let world = world.clone();
            tokio::spawn(async move {
                world.until(until).await;
                on_the_service(&mut world.state(), Fault::DeleteBlob, until, step);
            });
        }
        _ => on_the_service(state, fault, now, step),
    }
}

fn on_the_service(state: &mut State, fault: Fault, now: Millis, step: Step) {
    let mut until = now;
    let service = &mut state.service;
    match fault {
        Fault::LeaseEndsEarly => {
            // No lease may end early twice.
            if state.ended_early.is_some_and(|before| now < before + LONGEST) {
                return;
            }
            state.ended_early = Some(now);
            service.end_leases_early(state.faults.between(1, EARLY));
        }
        Fault::BreakRest => service.break_lease(now, false),
        Fault::BreakNow => service.break_lease(now, true),
        Fault::DeleteBlob => {
            service.break_lease(now, true);
            service.delete_blob(now);
        }
        Fault::DeleteContainer => {
            service.delete_container(now);
            until = now + DELETION;
        }
        Fault::WipeRecord => {
            service.break_lease(now, true);
            service.wipe_record(now);
        }
        Fault::RestoreRecord => {
            service.break_lease(now, true);
            service.restore_record(now, state.faults.bits());
        }
        Fault::StateLost => service.lose_state(),
        _ => {}
    }
    state.struck(now, fault, step, None, until);
}

/// What makes it worse that an acquire arrives at `late`: the sender is cut off until then, and leaves
/// just before, if it still runs.
pub fn follow_up(world: &Arc<World>, who: Who, step: Step, late: Millis) {
    let (leaves, before, cut_off) = {
        let dice = &mut world.state().faults;
        (dice.once_in(2), dice.between(0, 3_500), dice.once_in(2))
    };
    let (now, calm) = (world.now(), world.plan.calm);
    let at = late.saturating_sub(before);
    if !leaves || at <= now || at >= calm {
        return;
    }
    if cut_off {
        let mut state = world.state();
        let (machine, until) = (state.processes[who].machine, late.min(calm));
        state.partitions[machine] = Outage { until, refused: false };
        state.note(now, What::Struck(Fault::PartitionOne, Some(who), until));
    }
    let world = world.clone();
    tokio::spawn(async move {
        world.until(at).await;
        strike(&world, Fault::Leave, who, step);
    });
}

/// A time that is short, or about as long as a validity, or longer than a lease.
fn around(lease: Millis, dice: &mut Dice) -> Millis {
    match dice.between(0, 4) {
        0 => dice.between(1, 2_000),
        1 => dice.between(2_000, lease * 2 / 3),
        2 | 3 => dice.between(lease * 2 / 3, lease * 11 / 10),
        _ => dice.between(lease, 2 * lease),
    }
}
