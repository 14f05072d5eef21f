//! Injection of faults: ambushes at a step, timed faults, and their effects.

use std::sync::Arc;

use tenure::engine::Order;

use super::condition;
use super::dice::Dice;
use super::fault::{Fault, Kind, Step};
use super::history::{CandidateId, HistoryEvent};
use super::plan::{DELETION, Moment, Target, Timed, Version};
use super::world::{Millis, Outage, State, World};

/// Maximum time by which a lease ends early (A1).
const MAX_EARLY_EXPIRY: Millis = 2_000;

/// Longest lease.
const MAX_LEASE: Millis = 60_000;

/// Removes and returns the fault that waits for this step and moment, if there is one.
pub fn take_ambush(
    state: &mut State,
    step: Step,
    moment: Moment,
    in_fault_phase: bool,
    matches: impl Fn(Fault) -> bool,
) -> Option<Fault> {
    let index = state.ambushes.iter().position(|ambush| {
        ambush.step == step && ambush.moment == moment && matches(ambush.fault)
    })?;
    let ambush = &mut state.ambushes[index];
    if !in_fault_phase {
        return None;
    }
    if ambush.skips > 0 {
        ambush.skips -= 1;
        return None;
    }
    Some(state.ambushes.swap_remove(index).fault)
}

/// Returns a random fault of a single request.
pub fn any_request_fault(dice: &mut Dice) -> Fault {
    loop {
        let fault = dice.pick(&Fault::ALL);
        if fault.kind() == Kind::Request {
            return fault;
        }
    }
}

/// Injects the fault that waits for a candidate at this step, if there is one.
pub fn trigger_ambush(world: &Arc<World>, candidate: CandidateId, step: Step, moment: Moment) {
    let in_fault_phase = world.now() < world.plan.calm;
    let is_other_fault = |fault: Fault| fault.kind() != Kind::Request;
    let fault = take_ambush(&mut world.state(), step, moment, in_fault_phase, is_other_fault);
    if let Some(fault) = fault {
        inject(world, fault, candidate, step);
    }
}

/// Injects the timed faults.
pub async fn inject_timed_faults(world: Arc<World>) {
    for Timed { at, fault, target } in world.plan.timed.clone() {
        world.wait_until(at).await;
        let (candidate, step) = {
            let state = world.state();
            let machine = match (target, state.service.leader) {
                (Target::Leader, Some((candidate, _)))
                    if !state.processes[candidate].has_exited =>
                {
                    Some(state.processes[candidate].machine)
                }
                (Target::Leader, _) => {
                    (0..state.running.len()).find(|n| state.running[*n].is_some())
                }
                (Target::Machine(machine), _) => Some(machine),
            };
            let Some(candidate) = machine.and_then(|machine| state.running[machine]) else {
                continue;
            };
            let step = match fault.kind() {
                Kind::Outsider | Kind::Service => state.last_step,
                _ => state.processes[candidate].step,
            };
            (candidate, step)
        };
        inject(&world, fault, candidate, step);
    }
}

/// Applies a fault. `candidate` is at `step`.
fn inject(world: &Arc<World>, fault: Fault, candidate: CandidateId, step: Step) {
    let now = world.now();
    let remaining = world.plan.calm.saturating_sub(now);
    if fault.kind() == Kind::Condition {
        return condition::start(world, fault, candidate, step);
    }
    let lease = world.plan.machines[world.state().processes[candidate].machine].lease * 1_000;
    let mut guard = world.state();
    let state = &mut *guard;
    if state.processes[candidate].has_exited {
        return;
    }
    match fault {
        Fault::PartitionOne | Fault::PartitionAll => {
            let index = match fault {
                Fault::PartitionOne => state.processes[candidate].machine,
                _ => state.outages.len() - 1,
            };
            let until = now + draw_duration(lease, &mut state.faults).min(remaining);
            let is_refused = state.faults.once_in(3);
            state.outages[index] = Outage { until, is_refused };
            // Coverage counts it with each dropped request.
            let victim = (fault == Fault::PartitionOne).then_some(candidate);
            state.note(now, HistoryEvent::FaultInjected(fault, victim, until));
        }
        Fault::StoreRestart => {
            state.restart_until = now + state.faults.between(500, 8_000).min(remaining);
            let until = state.restart_until;
            state.note(now, HistoryEvent::FaultInjected(fault, None, until));
        }
        Fault::PauseWithin | Fault::PauseBetween => {
            if state.processes[candidate].paused {
                return;
            }
            let fault = match state.processes[candidate].pending_requests {
                0 => Fault::PauseBetween,
                _ => Fault::PauseWithin,
            };
            let until = now + draw_duration(lease, &mut state.faults).min(remaining);
            state.record_fault(now, fault, step, Some(candidate), until);
            state.pause(now, candidate);
            let world = world.clone();
            tokio::spawn(async move {
                world.wait_until(until).await;
                let now = world.now();
                world.state().resume(now, candidate);
            });
        }
        Fault::Kill => {
            state.record_fault(now, fault, step, Some(candidate), now);
            state.kill(now, candidate);
        }
        Fault::Leave => {
            state.record_fault(now, fault, step, Some(candidate), now);
            state.request_leave(now, candidate);
        }
        Fault::Resign => {
            // The leader does not contend for two polls then.
            let poll = world.plan.machines[state.processes[candidate].machine].poll;
            state.record_fault(now, fault, step, Some(candidate), now + 2 * poll + poll / 50);
            let _ = state.order(candidate, Order::Resign);
        }
        Fault::HandOver => {
            let (own_machine, machines) = (state.processes[candidate].machine, state.running.len());
            if world.plan.machines[own_machine].version == Version::Older {
                return;
            }
            let offset = state.faults.between(1, machines as u64 - 1);
            let successor = (own_machine + usize::try_from(offset).unwrap_or(0)) % machines;
            let name = world.plan.machines[successor].name;
            state.record_fault(now, fault, step, Some(candidate), now);
            let name_count = world.plan.machines.iter().filter(|m| m.name == name).count();
            let is_able =
                name_count == 1 && world.plan.machines[successor].version != Version::Older;
            let successor = is_able.then_some(successor);
            state.order_handover(now, candidate, name, successor);
            // An operator repeats the order.
            if state.faults.once_in(2) {
                let again_at = now + state.faults.between(1_000, 40_000);
                let world = world.clone();
                tokio::spawn(async move {
                    world.wait_until(again_at).await;
                    if again_at < world.plan.calm {
                        world.state().order_handover(again_at, candidate, name, successor);
                    }
                });
            }
        }
        Fault::NotReady => {
            let until = now + draw_duration(lease, &mut state.faults).min(remaining);
            state.record_fault(now, fault, step, Some(candidate), until);
            state.order(candidate, Order::Ready(false));
            let world = world.clone();
            tokio::spawn(async move {
                world.wait_until(until).await;
                world.state().order(candidate, Order::Ready(true));
            });
        }
        Fault::StepFails => {
            state.record_fault(now, fault, step, Some(candidate), now);
            state.processes[candidate].step_fails = true;
            state.processes[candidate].wake();
        }
        Fault::WallJump => {
            let max_jump = state.faults.pick(&[5_000, 600_000, 7_200_000]);
            let jump = i64::try_from(state.faults.between(0, 2 * max_jump)).unwrap_or(0);
            let jump = jump - i64::try_from(max_jump).unwrap_or(0);
            let machine = state.processes[candidate].machine;
            state.wall_offset_ms[machine] += jump;
            state.record_fault(now, fault, step, Some(candidate), now);
            let forward_by = u64::try_from(jump).unwrap_or(0);
            if forward_by > 0 && world.plan.machines[machine].clock_follows_wall {
                // The machine has no other clock that counts suspended time.
                state.clock_ahead_ms[machine] += forward_by;
                world.clock_jumped.notify_waiters();
                state.note(now, HistoryEvent::ClockSetForward(machine));
            }
            // The clock may jump back.
            let jump_back_at = now + state.faults.between(0, 10_000);
            if state.faults.once_in(2) {
                let world = world.clone();
                tokio::spawn(async move {
                    world.wait_until(jump_back_at).await;
                    world.state().wall_offset_ms[machine] -= jump;
                });
            }
        }
        Fault::HostileRecord => {
            let until = now + state.faults.between(2_000, 20_000).min(remaining);
            let bits = state.faults.bits();
            state.service.break_lease(now, true);
            state.service.hostile_record(now, bits, state.term);
            state.record_fault(now, fault, step, None, until);
            // Candidates may refuse to change such a record, so an outsider removes it later.
            let world = world.clone();
            tokio::spawn(async move {
                world.wait_until(until).await;
                inject_service_fault(&mut world.state(), Fault::DeleteBlob, until, step);
            });
        }
        _ => inject_service_fault(state, fault, now, step),
    }
}

fn inject_service_fault(state: &mut State, fault: Fault, now: Millis, step: Step) {
    let mut until = now;
    let service = &mut state.service;
    match fault {
        Fault::LeaseEndsEarly => {
            // The assumption allows only one early end for each lease.
            if state.last_early_expiry.is_some_and(|before| now < before + MAX_LEASE) {
                return;
            }
            state.last_early_expiry = Some(now);
            service.end_leases_early(state.faults.between(1, MAX_EARLY_EXPIRY));
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
    state.record_fault(now, fault, step, None, until);
}

/// Adds to the damage of an acquire that arrives at `late`: cuts the sender off until then, and
/// asks it to leave just before, if it still runs.
pub fn leave_before_late_acquire(
    world: &Arc<World>,
    candidate: CandidateId,
    step: Step,
    late: Millis,
) {
    let (should_leave, before, is_cut_off) = {
        let dice = &mut world.state().faults;
        (dice.once_in(2), dice.between(0, 3_500), dice.once_in(2))
    };
    let (now, calm) = (world.now(), world.plan.calm);
    let at = late.saturating_sub(before);
    if !should_leave || at <= now || at >= calm {
        return;
    }
    if is_cut_off {
        let mut state = world.state();
        let (machine, until) = (state.processes[candidate].machine, late.min(calm));
        state.outages[machine] = Outage { until, is_refused: false };
        state.note(now, HistoryEvent::FaultInjected(Fault::PartitionOne, Some(candidate), until));
    }
    let world = world.clone();
    tokio::spawn(async move {
        world.wait_until(at).await;
        inject(&world, Fault::Leave, candidate, step);
    });
}

/// Returns a random time: short, or about a validity, or longer than a lease.
fn draw_duration(lease: Millis, dice: &mut Dice) -> Millis {
    match dice.between(0, 4) {
        0 => dice.between(1, 2_000),
        1 => dice.between(2_000, lease * 2 / 3),
        2 | 3 => dice.between(lease * 2 / 3, lease * 11 / 10),
        _ => dice.between(lease, 2 * lease),
    }
}
