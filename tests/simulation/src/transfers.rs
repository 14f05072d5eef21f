//! Transfers: operators move the leadership at any time, as `tenure transfer` does (protocol.md
//! §7.5).

use std::sync::Arc;

use tenure_azure::Class;
use tenure_azure::blob::SideBlob;
use tenure_azure::operation::Operation;
use tenure_core::{OrderStep, TransferOrder, TransferState};
use tenure_store::Response;

use super::dice::Dice;
use super::fault::Fault;
use super::hints::hint;
use super::history::{CandidateId, HistoryEvent, Transfer};
use super::plan::{Trait, Version};
use super::triggers::{MAX_ROUNDS, pause};
use super::world::{Millis, World};

/// Name of a candidate that does not exist.
const MISSING_CANDIDATE: &str = "nobody";

/// Runs commands until the calm.
pub async fn run_commands(world: Arc<World>) {
    if !world.plan.traits.has(Trait::Transfers) {
        return;
    }
    let mut dice = Dice::new(world.seed, 15);
    let max_pause: Millis = dice.pick(&[10_000, 60_000, 120_000]);
    loop {
        world.wait_until(world.now() + dice.between(2_000, max_pause)).await;
        if world.now() >= world.plan.calm {
            return;
        }
        for _ in 0..dice.pick(&[1, 1, 1, 2]) {
            let dice = Dice::new(world.seed ^ dice.bits(), 16);
            tokio::spawn(command(world.clone(), dice));
        }
    }
}

/// Runs one command. The store responds at once, and time passes between the requests.
async fn command(world: Arc<World>, mut dice: Dice) {
    let to = match dice.between(0, 7) {
        0 | 1 => None,
        2 => Some(MISSING_CANDIDATE.to_string()),
        _ => {
            let machines = world.plan.machines.len() as u64;
            let machine = usize::try_from(dice.bits() % machines).unwrap_or(0);
            Some(format!("m{}", world.plan.machines[machine].name))
        }
    };
    let number = {
        let transfers = &mut world.state().history.transfers;
        transfers.push(Transfer {
            successor: to.as_deref().map(candidate_number),
            ..Transfer::default()
        });
        transfers.len() - 1
    };
    let mut order = TransferOrder { id: format!("x{number}"), to, term: None };
    for _ in 0..MAX_ROUNDS {
        let run_operation = |operation: &Operation| {
            let now = world.now();
            world.state().service.run_operation(now, operation)
        };
        let orders = run_operation(&Operation::ReadSideBlob(SideBlob::Orders));
        pause(&world, &mut dice).await;
        let election = run_operation(&Operation::Read { lease: None });
        let now = world.now();
        let placing = world.state().service.transfer(now, &order, &orders, &election);
        let Some(OrderStep::Write(operation, TransferState::Waiting(found_term))) = placing else {
            return;
        };
        order.term = Some(found_term);
        let decided_at = now;
        pause(&world, &mut dice).await;
        // A suspended command writes an old order.
        if dice.once_in(4) {
            world.wait_until(world.now() + dice.between(40_000, 120_000)).await;
        }
        let now = world.now();
        if now >= world.plan.calm {
            return;
        }
        if run_operation(&operation).class == Class::Done {
            on_placed(&world, number, found_term, decided_at);
            if dice.once_in(2) {
                for machine in 0..world.plan.machines.len() {
                    hint(&world, machine);
                    world.wait_until(world.now() + 1).await;
                }
            }
            return;
        }
    }
}

fn on_placed(world: &World, number: usize, term: u64, decided_at: Millis) {
    let now = world.now();
    let mut state = world.state();
    let transfer = &mut state.history.transfers[number];
    (transfer.term, transfer.decided_at) = (term, decided_at);
    state.note(now, HistoryEvent::TransferPlaced(number));
}

/// Returns the number in the name of a candidate.
fn candidate_number(name: &str) -> usize {
    name.strip_prefix('m')
        .and_then(|number| number.parse().ok())
        .unwrap_or(super::step_classifier::UNKNOWN_CANDIDATE)
}

/// Handles a response with orders that reaches a leader.
///
/// A transfer of its term counts as an order, like an operator's order on its host, unless the
/// transfer may have expired.
pub fn on_orders_read(world: &World, candidate: CandidateId, response: &Response) {
    const CERTAIN_AGE: Millis = 50_000;
    let headers = response.headers.iter();
    let mut ids = headers.filter(|(name, _)| name.eq_ignore_ascii_case("x-ms-meta-tenuretransfer"));
    let id = ids.next().and_then(|(_, id)| id.strip_prefix('x')?.parse::<usize>().ok());
    let now = world.now();
    let mut state = world.state();
    let Some(number) = id.filter(|number| *number < state.history.transfers.len()) else { return };
    let Transfer { term, successor: to, decided_at: placed } = state.history.transfers[number];
    let leads = state.service.leader.is_some_and(|(leader, _)| leader == candidate);
    let process = &mut state.processes[candidate];
    if process.term != term || process.transfers.contains(&number) {
        return;
    }
    process.transfers.push(number);
    state.note(now, HistoryEvent::ReadTransfer(candidate, number));
    if !leads || now > placed + CERTAIN_AGE {
        return;
    }
    state.coverage.add_trait(Trait::Transfers);
    match to {
        Some(name) => {
            let machines = &world.plan.machines;
            let mut matching =
                (0..machines.len()).filter(|machine| machines[*machine].name == name);
            let unique = matching.next().filter(|_| matching.next().is_none());
            let is_able = unique.filter(|machine| machines[*machine].version != Version::Older);
            state.note(now, HistoryEvent::HandoverOrdered(candidate, name, is_able));
        }
        None => {
            let poll = world.plan.machines[state.processes[candidate].machine].poll;
            state.note(
                now,
                HistoryEvent::FaultInjected(
                    Fault::Resign,
                    Some(candidate),
                    now + 2 * poll + poll / 50,
                ),
            );
        }
    }
}
