//! Plan of a schedule from its seed: machines, periods, and faults.

mod faults;
mod machines;
mod rules;
mod traits;

pub use faults::{Ambush, Moment, Target, Timed};
pub use machines::{Machine, Version};
pub use rules::{Rules, SLOTS};
pub use traits::{Trait, Traits};

use std::time::Duration;

use tenure_core::Agenda;

use super::dice::Dice;
use super::fault::{Fault, Kind, Step};
use super::service::ELECTION;
use super::world::Millis;
use faults::{
    ambush, condition, fault_and_step, jumps, orders, random_timed_fault, repeated_attack,
    takeover_fault,
};
use machines::machines;

const SECOND: Millis = 1_000;

/// Approximate start of schedules, in milliseconds since 1970: a slot of every schedule.
const EPOCH: u64 = 1_794_999_900_000;

/// First cool-down of a candidate after failed work, in seconds.
pub const COOL_DOWN: u64 = 1;

/// Longest cool-down: 16 times the first.
pub const MAX_COOL_DOWN: Millis = 16 * COOL_DOWN * SECOND;

/// Time that the name of a deleted container stays reserved.
pub const DELETION: Millis = 30 * SECOND;

/// Minimum duration of the fault phase.
const MIN_FAULT_PHASE: Millis = 90 * SECOND;

/// Extension of the fault phase, if a fault lasts for minutes.
const CONDITION_EXTENSION: Millis = 150 * SECOND;

/// Class of a schedule: the protocol's assumptions that hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A1 to A4.
    Sound,
    /// All but A3: an outsider shortens leases or loses records.
    WithoutA3,
}

/// Initial contents of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// An empty account.
    Nothing,
    /// The container only.
    Container,
    /// A record with a field that this version does not know.
    Record,
}

/// One-way latency of a request or response.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// Minimum.
    pub least: Millis,
    /// Maximum.
    pub most: Millis,
}

/// Plan of a schedule.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Class of the schedule.
    pub class: Class,
    /// Features other than faults.
    pub traits: Traits,
    /// Machines, at least three.
    pub machines: Vec<Machine>,
    /// Interval between slots, in seconds.
    pub every: u64,
    /// Time after which a leader resigns, in seconds.
    pub tenure: Option<u64>,
    /// Rules for the slots.
    pub rules: Rules,
    /// Initial contents of the account.
    pub beginning: Beginning,
    /// Latency of a request or response without a fault.
    pub latency: Latency,
    /// Maximum delay of a late request; at most 30 s.
    pub max_delay: Millis,
    /// Random network faults per thousand requests.
    pub noise_permille: u64,
    /// Long turns per thousand turns.
    pub long_turns_permille: u64,
    /// Longest duration of a long turn.
    pub longest_work: Millis,
    /// Longest duration of any other turn.
    pub longest_turn: Millis,
    /// Turns per thousand that fail or trap, before the calm.
    pub failing_turns_permille: u64,
    /// Time limit of a turn, in seconds.
    pub turn_timeout: Option<u64>,
    /// Grace period of a turn when its candidate leaves.
    pub grace: Millis,
    /// Service's wall clock at the start, in milliseconds since 1970.
    pub epoch: u64,
    /// Faults that wait for a step.
    pub ambushes: Vec<Ambush>,
    /// Faults at an instant, in order.
    pub timed: Vec<Timed>,
    /// Start of the calm: no fault begins from here on.
    pub calm: Millis,
    /// Start of the finale: all late messages have arrived.
    pub finale: Millis,
    /// Minimum time that the last candidate runs alone.
    pub final_duration: Millis,
}

impl Plan {
    /// Creates the plan of one seed, for the pure core (`native`) or for the component.
    #[must_use]
    pub fn from_seed(seed: u64, native: bool) -> Self {
        let dice = &mut Dice::new(seed, 1);
        let traits = Traits::draw(native, &mut Dice::new(seed, 11));
        // Each schedule has one main fault, so that no pair of fault and step is rare.
        let (fault, step) = fault_and_step(seed);
        let beats = matches!(step, Step::Beat | Step::Break);
        let traits = if beats { traits.with(Trait::Failover) } else { traits };
        let class = match fault.kind() {
            Kind::Outsider => Class::WithoutA3,
            _ if dice.once_in(6) => Class::WithoutA3,
            _ => Class::Sound,
        };
        let mut machines = machines(traits, dice);
        let latency = latency(traits, &machines, dice);
        machines.iter_mut().for_each(|machine| machine.limit_failover_latency(latency.most));
        let conditions: Vec<_> =
            (0..2).filter_map(|_| condition(traits, native, machines.len(), dice)).collect();
        let longest_lease =
            machines.iter().map(|machine| machine.lease * SECOND).max().unwrap_or(0);
        let latest = dice.pick(&[6, 10, 15, 30]) * SECOND;
        let settling = settling_time(&machines, latest, latency);
        // The finale takes some time, too.
        let calm = (10 * longest_lease).saturating_sub(settling + 20 * SECOND).max(MIN_FAULT_PHASE);
        let calm = if conditions.is_empty() { calm } else { calm + CONDITION_EXTENSION };
        // An outcome is only written alone if the next slot is far away.
        let every = match step {
            Step::Outcome => 75,
            _ => dice.pick(&[3, 5, 5, 10, 10, 75]),
        };
        // A cron expression cannot express 75 s.
        let every = if traits.has(Trait::Cron) && every == 75 { 120 } else { every };
        let beginning = match step {
            Step::CreateContainer => Beginning::Nothing,
            Step::CreateBlob => dice.pick(&[Beginning::Nothing, Beginning::Container]),
            _ => dice.pick(&[Beginning::Nothing, Beginning::Container, Beginning::Record]),
        };
        let mut timed = vec![takeover_fault(calm.saturating_sub(longest_lease + 8 * SECOND), dice)];
        for _ in 0..dice.between(1, 3) {
            timed.push(random_timed_fault(class, machines.len(), calm, dice));
        }
        if step == Step::HandOver {
            timed.extend(orders(calm, &mut Dice::new(seed, 10)));
        }
        // Some turns last longer than a handover allows.
        let has_long_turns = step == Step::HandOver && Dice::new(seed, 17).once_in(3);
        timed.extend(jumps(&machines, calm, &mut Dice::new(seed, 16)));
        let repeated: Vec<_> =
            timed.iter().filter_map(|timed| repeated_attack(*timed, dice)).collect();
        timed.extend(repeated.into_iter().filter(|timed| timed.at < calm));
        timed.extend(conditions);
        timed.sort_by_key(|timed| timed.at);
        Self {
            class,
            traits,
            every,
            tenure: traits.has(Trait::Rotation).then(|| 4 * longest_lease / SECOND),
            rules: Rules::draw(&mut Dice::new(seed, 4)).restricted_to(traits),
            beginning,
            max_delay: latest,
            latency,
            noise_permille: dice.pick(&[0, 0, 10, 40]),
            long_turns_permille: dice.pick(match step {
                _ if has_long_turns => &[600],
                Step::HandOver => &[200, 600, 600],
                _ => &[50, 200, 600],
            }),
            longest_work: if has_long_turns { 120 * SECOND } else { 40 * SECOND },
            longest_turn: 1_500,
            failing_turns_permille: dice.pick(if has_long_turns {
                &[0]
            } else {
                &[0, 0, 0, 100, 500]
            }),
            turn_timeout: dice
                .pick(&[None, None, Some(8)])
                .filter(|_| !has_long_turns && !traits.has(Trait::Lasting)),
            // Some successors wait for the end of a turn until their announcement is no longer
            // fresh.
            grace: dice.pick(match step {
                _ if has_long_turns => &[100 * SECOND],
                Step::HandOver => &[SECOND, 5 * SECOND, 20 * SECOND, 20 * SECOND],
                _ => &[0, SECOND, SECOND, 5 * SECOND],
            }),
            epoch: EPOCH + every * SECOND * dice.between(1, 1_000) - dice.between(0, 25 * SECOND),
            ambushes: ambushes(seed, class, (fault, step), traits, dice),
            machines,
            timed,
            calm,
            finale: calm + settling,
            // Waiting triggers must get a turn by the end.
            final_duration: if traits.has(Trait::Triggers) { 60 * SECOND } else { 0 },
        }
    }
}

impl Plan {
    /// Returns the interval between two slots of the schedule on this machine, and the delay after
    /// which each is due, in nanoseconds.
    #[must_use]
    pub fn timer(&self, machine: usize) -> (u64, u64) {
        if self.traits.has(Trait::Lasting) {
            return (0, 0);
        }
        let jitter = if self.traits.has(Trait::Jitter) { self.jitter() } else { 0 };
        let delay = Agenda::jittered_delay(ELECTION, Duration::from_millis(jitter)).as_nanos();
        let every = self.every + u64::from(self.machines[machine].other_schedule);
        (every * 1_000_000_000, u64::try_from(delay).unwrap_or(0))
    }

    /// Returns the range over which the slots of elections are spread, in milliseconds.
    #[must_use]
    pub fn jitter(&self) -> Millis {
        900 * self.every
    }

    /// Returns the traits that a turn of the schedule on this machine shows.
    pub fn turn_traits(&self, machine: usize) -> impl Iterator<Item = Trait> {
        let other = self.machines[machine].other_schedule;
        let name = self.machines[machine].name;
        let is_name_shared =
            self.machines.iter().filter(|machine| machine.name == name).count() > 1;
        let shown_traits = [
            (Trait::Lasting, true),
            (Trait::Cron, true),
            (Trait::Jitter, true),
            (Trait::TwoSchedules, other),
            (Trait::OneName, is_name_shared),
        ];
        let traits = self.traits;
        shown_traits.into_iter().filter_map(move |(feature, applies)| {
            (applies && traits.has(feature)).then_some(feature)
        })
    }
}

/// Returns the faults that wait for a step: the main one, and some others.
fn ambushes(
    seed: u64,
    class: Class,
    (fault, step): (Fault, Step),
    traits: Traits,
    dice: &mut Dice,
) -> Vec<Ambush> {
    let mut ambushes = vec![ambush(fault, step, dice)];
    if step == Step::ReadBack {
        // Only a write with an unknown outcome is read back.
        for _ in 0..2 {
            let unknown = dice.pick(&[Fault::AnswerLost, Fault::Reset, Fault::Internal]);
            ambushes.push(ambush(unknown, dice.pick(&[Step::Raise, Step::Claim]), dice));
        }
    }
    for _ in 0..dice.between(1, 4) {
        ambushes.push(ambush(faults::fault(class, dice), dice.pick(&Step::PROTOCOL), dice));
    }
    // Requests about side blobs are few: the first one gets a fault.
    let side_blob_dice = &mut Dice::new(seed, 9);
    ambushes.push(ambush(faults::fault(class, side_blob_dice), Step::SideBlob, side_blob_dice));
    // One of the many requests about the list gets a fault, too.
    let list_dice = &mut Dice::new(seed, 15);
    let skips = list_dice.between(0, 20);
    ambushes
        .push(Ambush { skips, ..ambush(faults::fault(class, list_dice), Step::List, list_dice) });
    if step == Step::HandOver {
        // A successor that has announced itself leaves or dies.
        let departure = ambush(
            side_blob_dice.pick(&[Fault::Kill, Fault::Leave]),
            Step::SideBlob,
            side_blob_dice,
        );
        ambushes.push(Ambush { skips: side_blob_dice.between(0, 6), ..departure });
    }
    if traits.has(Trait::StoppedTimers) {
        // A renewal whose answer comes after the suspension, and after the leader's validity.
        ambushes.push(ambush(Fault::PauseWithin, Step::Renew, &mut Dice::new(seed, 18)));
    }
    if traits.has(Trait::Supervised) {
        ambushes.extend(faults::last_will_ambushes(&mut Dice::new(seed, 13)));
    }
    ambushes
}

/// Draws the latency: mostly short; for a slow service, round trips up to the shortest timeout.
fn latency(traits: Traits, machines: &[Machine], dice: &mut Dice) -> Latency {
    let most = dice.pick(&[5, 20, 20, 60, 250]);
    if !traits.has(Trait::SlowService) {
        return Latency { least: 1, most };
    }
    let timeout = machines.iter().map(|machine| machine.periods().timeout).min().unwrap_or(0);
    let most = dice.between(timeout / 4, timeout / 2 - 30);
    Latency { least: most * 9 / 10, most }
}

/// Returns the time in the calm until all late messages have arrived and a candidate leads.
fn settling_time(machines: &[Machine], latest: Millis, latency: Latency) -> Millis {
    let longest_period =
        |period: fn(&Machine) -> Millis| machines.iter().map(period).max().unwrap_or(0);
    let lease = longest_period(|machine| machine.lease * SECOND);
    let last_request = longest_period(|machine| machine.periods().timeout);
    let poll = longest_period(|machine| machine.poll);
    // The longest of three waits, then a takeover: the latest request and the last lease, a
    // container's name, or the cool-down of the last long turn.
    let longest_wait = [latest + lease, MAX_COOL_DOWN + 10 * SECOND, DELETION];
    let longest_wait = longest_wait.into_iter().max().unwrap_or(0);
    longest_wait + last_request + poll + 8 * latency.most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_periods_agree() {
        for seed in 0..200 {
            let plan = Plan::from_seed(seed, true);
            assert!(plan.machines.len() >= 3);
            assert!(plan.calm >= MIN_FAULT_PHASE && plan.finale > plan.calm, "seed {seed}");
            assert!(plan.timed.is_sorted_by_key(|timed| timed.at), "seed {seed}");
        }
    }
}
