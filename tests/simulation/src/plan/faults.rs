//! Choice of faults, their targets and times.

use super::super::dice::Dice;
use super::super::fault::{Fault, Kind, Step};
use super::super::world::Millis;
use super::machines::Machine;
use super::traits::{Trait, Traits};
use super::{Class, SECOND};

/// Moment at which an ambush occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The request is decided and its instant was read, but it is not sent.
    Before,
    /// The request is on the wire.
    Sent,
    /// The response has arrived, but was not processed.
    Answered,
}

/// Fault that waits until a candidate reaches a step.
#[derive(Clone, Copy, Debug)]
pub struct Ambush {
    /// Fault to inject.
    pub fault: Fault,
    /// Step at which it occurs.
    pub step: Step,
    /// Moment of the step.
    pub moment: Moment,
    /// Number of requests to skip before.
    pub skips: u64,
}

/// Target of a timed fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The current leader.
    Leader,
    /// The candidate on this machine.
    Machine(usize),
}

/// Fault at an instant.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// Time of the fault.
    pub at: Millis,
    /// Fault to inject.
    pub fault: Fault,
    /// Target of the fault.
    pub target: Target,
}

/// Returns the main fault and step of a seed. Consecutive seeds cover all pairs, in mixed order.
pub(super) fn fault_and_step(seed: u64) -> (Fault, Step) {
    const STRIDE: u64 = 97;
    let (faults, steps) = (Fault::AT_STEPS as u64, Step::PROTOCOL.len() as u64);
    let index = seed.wrapping_mul(STRIDE) % (faults * steps);
    let to_index = |index: u64| usize::try_from(index).unwrap_or(0);
    (Fault::ALL[to_index(index / steps)], Step::PROTOCOL[to_index(index % steps)])
}

/// Draws a fault of a class. Each kind of fault is as likely as its number of variants.
pub(super) fn fault(class: Class, dice: &mut Dice) -> Fault {
    loop {
        let fault = dice.pick(&Fault::ALL[..Fault::AT_STEPS]);
        if class == Class::WithoutA3 || fault.kind() != Kind::Outsider {
            return fault;
        }
    }
}

/// Returns an ambush with this fault at this step.
pub(super) fn ambush(fault: Fault, step: Step, dice: &mut Dice) -> Ambush {
    let moment = match (fault.kind(), fault) {
        (Kind::Request | Kind::Network, _) => Moment::Before,
        (_, Fault::PauseWithin) => dice.pick(&[Moment::Before, Moment::Sent]),
        (_, Fault::PauseBetween) => Moment::Answered,
        _ => dice.pick(&[Moment::Before, Moment::Sent, Moment::Answered]),
    };
    let most = match step {
        Step::Poll => 30,
        Step::Renew | Step::Claim => 12,
        Step::Beat => 60,
        Step::Acquire | Step::Raise => 3,
        _ => 0,
    };
    Ambush { fault, step, moment, skips: dice.between(0, most) }
}

/// Returns two faults for last wills, which are few.
pub(super) fn last_will_ambushes(dice: &mut Dice) -> [Ambush; 2] {
    const FAULTS: [(Fault, u64); 7] = [
        (Fault::AppliedLate, 3),
        (Fault::Duplicated, 3),
        (Fault::RequestLost, 1),
        (Fault::AnswerLost, 1),
        (Fault::Internal, 1),
        (Fault::Busy, 1),
        (Fault::Reset, 1),
    ];
    [0, 1].map(|skips| {
        let (fault, step, moment) = (dice.weighted(&FAULTS), Step::Will, Moment::Before);
        Ambush { fault, step, moment, skips }
    })
}

/// Outsiders' faults at an instant, with weights.
const OUTSIDER_FAULTS: [(Fault, u64); 7] = [
    (Fault::BreakNow, 1),
    (Fault::DeleteBlob, 1),
    (Fault::DeleteContainer, 1),
    (Fault::WipeRecord, 1),
    (Fault::RestoreRecord, 1),
    (Fault::StateLost, 1),
    (Fault::HostileRecord, 1),
];

/// Faults that usually change the leader, with weights.
const SOUND_FAULTS: [(Fault, u64); 11] = [
    (Fault::Resign, 1),
    (Fault::HandOver, 1),
    (Fault::NotReady, 1),
    (Fault::StepFails, 1),
    (Fault::Kill, 2),
    (Fault::Leave, 2),
    (Fault::PauseBetween, 2),
    (Fault::PartitionOne, 2),
    (Fault::PartitionAll, 1),
    (Fault::LeaseEndsEarly, 1),
    (Fault::WallJump, 1),
];

/// Faults that last for minutes, with weights.
///
/// Without tokens or files, broken settings replace their faults.
const CONDITIONS: [(Fault, u64); 11] = [
    (Fault::SlowTrips, 3),
    (Fault::WritesFail, 3),
    (Fault::LeasesFail, 1),
    (Fault::LooksFail, 1),
    (Fault::SideBlobsFail, 1),
    (Fault::TokensFail, 1),
    (Fault::ClockSteps, 2),
    (Fault::DatesStand, 1),
    (Fault::HostileSideBlobs, 2),
    (Fault::SecretSpoilt, 2),
    (Fault::SettingsSpoilt, 1),
];

/// Returns another outsider's fault during the recovery from the first one.
pub(super) fn repeated_attack(timed: Timed, dice: &mut Dice) -> Option<Timed> {
    let is_repeated = timed.fault.kind() == Kind::Outsider && dice.once_in(2);
    let at = timed.at + dice.between(0, 4_000);
    is_repeated.then(|| Timed { at, fault: dice.weighted(&OUTSIDER_FAULTS), ..timed })
}

/// Returns a fault that causes a takeover, early enough to observe it.
pub(super) fn takeover_fault(until: Millis, dice: &mut Dice) -> Timed {
    const LOSSES: [Fault; 6] = [
        Fault::Kill,
        Fault::Kill,
        Fault::Leave,
        Fault::Leave,
        Fault::PauseBetween,
        Fault::PartitionOne,
    ];
    let fault = dice.pick(&LOSSES);
    Timed { at: dice.between(10 * SECOND, until), fault, target: Target::Leader }
}

/// Returns handover orders, so many that one succeeds.
pub(super) fn orders(calm: Millis, dice: &mut Dice) -> Vec<Timed> {
    let at = |n: u64, dice: &mut Dice| n * calm / 4 + dice.between(0, 8 * SECOND);
    let order = |at| Timed { at, fault: Fault::HandOver, target: Target::Leader };
    (1..4).map(|n| order(at(n, dice))).filter(|timed| timed.at < calm).collect()
}

/// Returns clock jumps that might make a candidate take over too early.
pub(super) fn jumps(machines: &[Machine], calm: Millis, dice: &mut Dice) -> Vec<Timed> {
    let jumping_machines = (0..)
        .zip(machines)
        .filter(|(_, machine)| machine.clock_follows_wall && machine.failover.is_some());
    let jump = |(machine, _)| Timed {
        at: dice.between(5 * SECOND, calm.saturating_sub(SECOND)),
        fault: Fault::WallJump,
        target: Target::Machine(machine),
    };
    jumping_machines
        .flat_map(|jumping_machines| [jumping_machines, jumping_machines])
        .map(jump)
        .collect()
}

/// Returns a fault that usually changes the leader.
pub(super) fn random_timed_fault(
    class: Class,
    machines: usize,
    calm: Millis,
    dice: &mut Dice,
) -> Timed {
    let fault = match class {
        Class::WithoutA3 if dice.once_in(2) => dice.weighted(&OUTSIDER_FAULTS),
        _ => dice.weighted(&SOUND_FAULTS),
    };
    let at = dice.between(5 * SECOND, calm.saturating_sub(SECOND));
    Timed { at, fault, target: draw_target(machines, dice) }
}

fn draw_target(machines: usize, dice: &mut Dice) -> Target {
    match dice.between(0, 2) {
        0 => Target::Machine(usize::try_from(dice.bits() % machines as u64).unwrap_or(0)),
        _ => Target::Leader,
    }
}

/// Returns a fault that lasts for minutes; most schedules have none.
pub(super) fn condition(
    traits: Traits,
    native: bool,
    machines: usize,
    dice: &mut Dice,
) -> Option<Timed> {
    let fault = match dice.weighted(&CONDITIONS) {
        // The settings of the component never change.
        Fault::SettingsSpoilt | Fault::SecretSpoilt | Fault::TokensFail if !native => {
            Fault::WritesFail
        }
        Fault::TokensFail if !traits.has(Trait::Tokens) => Fault::SettingsSpoilt,
        Fault::SecretSpoilt if !traits.has(Trait::Files) => Fault::SettingsSpoilt,
        _ if traits.has(Trait::Files) && dice.once_in(2) => Fault::SecretSpoilt,
        fault => fault,
    };
    let at = dice.between(5 * SECOND, 60 * SECOND);
    dice.once_in(3).then(|| Timed { at, fault, target: draw_target(machines, dice) })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn consecutive_seeds_cover_all_pairs() {
        let pairs = (Fault::AT_STEPS * Step::PROTOCOL.len()) as u64;
        let drawn_pairs: BTreeSet<_> = (1_000..1_000 + pairs).map(fault_and_step).collect();
        assert_eq!(drawn_pairs.len() as u64, pairs);
    }
}
