//! Transfers: operators move the leadership at any time, as `tenure transfer` does. protocol.md §7.5.

use std::sync::Arc;

use tenure_azure::Class;
use tenure_azure::name::SideBlob;
use tenure_azure::operation::Operation;
use tenure_core::{Placing, TransferOrder, TransferState};
use tenure_store::Response;

use super::dice::Dice;
use super::fault::Fault;
use super::hints::hint;
use super::history::{Transfer, What, Who};
use super::plan::{Trait, Version};
use super::triggers::{ROUNDS, pause};
use super::world::{Millis, World};

/// The name of a candidate that does not exist.
const NOBODY: &str = "nobody";

/// Runs commands until the calm.
pub async fn order(world: Arc<World>) {
    if !world.plan.traits.has(Trait::Transfers) {
        return;
    }
    let mut dice = Dice::new(world.seed, 15);
    let most: Millis = dice.pick(&[10_000, 60_000, 120_000]);
    loop {
        world.until(world.now() + dice.between(2_000, most)).await;
        if world.now() >= world.plan.calm {
            return;
        }
        for _ in 0..dice.pick(&[1, 1, 1, 2]) {
            let dice = Dice::new(world.seed ^ dice.bits(), 16);
            tokio::spawn(command(world.clone(), dice));
        }
    }
}

/// One command. The store answers it at once, and time passes in between.
async fn command(world: Arc<World>, mut dice: Dice) {
    let to = match dice.between(0, 7) {
        0 | 1 => None,
        2 => Some(NOBODY.to_string()),
        _ => {
            let machines = world.plan.machines.len() as u64;
            let machine = usize::try_from(dice.bits() % machines).unwrap_or(0);
            Some(format!("m{}", world.plan.machines[machine].name))
        }
    };
    let number = {
        let transfers = &mut world.state().history.transfers;
        transfers.push(Transfer { to: to.as_deref().map(number_of), ..Transfer::default() });
        transfers.len() - 1
    };
    let mut order = TransferOrder { id: format!("x{number}"), to, term: None };
    for _ in 0..ROUNDS {
        let ask = |operation: &Operation| {
            let now = world.now();
            world.state().service.ask(now, operation)
        };
        let orders = ask(&Operation::ReadSideBlob(SideBlob::Orders));
        pause(&world, &mut dice).await;
        let election = ask(&Operation::Read { lease: None });
        let now = world.now();
        let placing = world.state().service.transfer(now, &order, &orders, &election);
        let Some(Placing::Write(operation, TransferState::Waiting(found))) = placing else {
            return;
        };
        order.term = Some(found);
        let decided = now;
        pause(&world, &mut dice).await;
        // A command that stands still writes an old order.
        if dice.once_in(4) {
            world.until(world.now() + dice.between(40_000, 120_000)).await;
        }
        let now = world.now();
        if now >= world.plan.calm {
            return;
        }
        if ask(&operation).class == Class::Done {
            placed(&world, number, found, decided);
            if dice.once_in(2) {
                for machine in 0..world.plan.machines.len() {
                    hint(&world, machine);
                    world.until(world.now() + 1).await;
                }
            }
            return;
        }
    }
}

fn placed(world: &World, number: usize, term: u64, decided: Millis) {
    let now = world.now();
    let mut state = world.state();
    let transfer = &mut state.history.transfers[number];
    (transfer.term, transfer.placed) = (term, decided);
    state.note(now, What::Placed(number));
}

/// The number in the name of a candidate.
fn number_of(name: &str) -> usize {
    name.strip_prefix('m').and_then(|number| number.parse().ok()).unwrap_or(super::wire::STRANGER)
}

/// The answer to a read of orders reaches a leader. A transfer of its term is an order to it, as an operator at its
/// host would give one, unless the transfer may be too old.
pub fn read(world: &World, who: Who, response: &Response) {
    const CERTAINLY_OBEYED: Millis = 50_000;
    let headers = response.headers.iter();
    let mut ids = headers.filter(|(name, _)| name.eq_ignore_ascii_case("x-ms-meta-tenuretransfer"));
    let id = ids.next().and_then(|(_, id)| id.strip_prefix('x')?.parse::<usize>().ok());
    let now = world.now();
    let mut state = world.state();
    let Some(number) = id.filter(|number| *number < state.history.transfers.len()) else { return };
    let Transfer { term, to, placed } = state.history.transfers[number];
    let leads = state.service.leader.is_some_and(|(leader, _)| leader == who);
    let process = &mut state.processes[who];
    if process.term != term || process.transfers.contains(&number) {
        return;
    }
    process.transfers.push(number);
    state.note(now, What::ReadTransfer(who, number));
    if !leads || now > placed + CERTAINLY_OBEYED {
        return;
    }
    state.coverage.saw(Trait::Transfers);
    match to {
        Some(name) => {
            let machines = &world.plan.machines;
            let mut named = (0..machines.len()).filter(|machine| machines[*machine].name == name);
            let only = named.next().filter(|_| named.next().is_none());
            let able = only.filter(|machine| machines[*machine].version != Version::Older);
            state.note(now, What::ToldToHandOver(who, name, able));
        }
        None => {
            let poll = world.plan.machines[state.processes[who].machine].poll;
            state.note(now, What::Struck(Fault::Resign, Some(who), now + 2 * poll + poll / 50));
        }
    }
}
