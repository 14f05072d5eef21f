//! What a seed decides before a schedule begins: machines, periods, and which faults lie in wait.

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
use faults::{takeover_fault, ambush, condition, random_timed_fault, jumps, orders, fault_and_step, repeated_attack};
use machines::machines;

const SECOND: Millis = 1_000;

/// About when schedules begin, in milliseconds since 1970: a slot of every schedule.
const EPOCH: u64 = 1_794_999_900_000;

/// How long a candidate waits before it contends again after its work failed, at first, in seconds.
pub const COOL_DOWN: u64 = 1;

/// The longest that it ever stays out: 16 times as long.
pub const LONGEST_COOL_DOWN: Millis = 16 * COOL_DOWN * SECOND;

/// How long the name of a deleted container stays taken.
pub const DELETION: Millis = 30 * SECOND;

/// The least time in which faults happen.
const MIN_FAULT_PHASE: Millis = 90 * SECOND;

/// How much longer that is, where something lasts for minutes.
const CONDITION_EXTENSION: Millis = 150 * SECOND;

/// Which assumptions of the protocol hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A1 to A4.
    Sound,
    /// All but A3: somebody shortens leases or loses records.
    WithoutA3,
}

/// What is on the account at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Nothing.
    Nothing,
    /// The container.
    Container,
    /// A record with a field that this version does not know.
    Record,
}

/// How long a request, or an answer, is on its way.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// At least.
    pub least: Millis,
    /// At most.
    pub most: Millis,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which assumptions hold.
    pub class: Class,
    /// What it has beside its faults.
    pub traits: Traits,
    /// At least three.
    pub machines: Vec<Machine>,
    /// Seconds between slots.
    pub every: u64,
    /// After how many seconds a leader resigns.
    pub tenure: Option<u64>,
    /// What is asked of the slots.
    pub rules: Rules,
    /// What is there already.
    pub beginning: Beginning,
    /// The way of a request or of an answer that no fault befalls.
    pub latency: Latency,
    /// How late the network may still deliver a request; 30 s at most.
    pub max_delay: Millis,
    /// In how many of a thousand requests the network does something wrong.
    pub noise_permille: u64,
    /// In how many of a thousand turns the handler works for long.
    pub long_turns_permille: u64,
    /// The longest that it works then.
    pub longest_work: Millis,
    /// The longest that a turn takes otherwise.
    pub longest_turn: Millis,
    /// In how many of a thousand turns it fails or traps, before the calm.
    pub failing_turns_permille: u64,
    /// The longest that a turn may take, in seconds.
    pub turn_timeout: Option<u64>,
    /// How long a turn may go on when its candidate leaves.
    pub grace: Millis,
    /// The service's wall clock at the beginning, in milliseconds since 1970.
    pub epoch: u64,
    /// Faults that wait for a step.
    pub ambushes: Vec<Ambush>,
    /// Faults that wait for an instant, in their order.
    pub timed: Vec<Timed>,
    /// No fault begins from here on.
    pub calm: Millis,
    /// Everything late is over.
    pub finale: Millis,
    /// How long the last candidate goes on by itself, at least.
    pub final_duration: Millis,
}

impl Plan {
    /// The plan of one seed, for the pure core (`native`) or for the component.
    #[must_use]
    pub fn from_seed(seed: u64, native: bool) -> Self {
        let dice = &mut Dice::new(seed, 1);
        let traits = Traits::draw(native, &mut Dice::new(seed, 11));
        // Each schedule has one fault that it is about, so that no pair of fault and step is rare.
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
        let longest_lease = machines.iter().map(|machine| machine.lease * SECOND).max().unwrap_or(0);
        let latest = dice.pick(&[6, 10, 15, 30]) * SECOND;
        let settling = settling_time(&machines, latest, latency);
        // The finale takes some time, too.
        let calm = (10 * longest_lease).saturating_sub(settling + 20 * SECOND).max(MIN_FAULT_PHASE);
        let calm = if conditions.is_empty() { calm } else { calm + CONDITION_EXTENSION };
        // An outcome is written by itself only where the next slot is far away.
        let every = match step {
            Step::Outcome => 75,
            _ => dice.pick(&[3, 5, 5, 10, 10, 75]),
        };
        // A cron expression has no 75 s.
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
        // Some turns go on for longer than a handover leaves them.
        let has_long_turns = step == Step::HandOver && Dice::new(seed, 17).once_in(3);
        timed.extend(jumps(&machines, calm, &mut Dice::new(seed, 16)));
        let repeated: Vec<_> = timed.iter().filter_map(|timed| repeated_attack(*timed, dice)).collect();
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
            failing_turns_permille: dice.pick(if has_long_turns { &[0] } else { &[0, 0, 0, 100, 500] }),
            turn_timeout: dice
                .pick(&[None, None, Some(8)])
                .filter(|_| !has_long_turns && !traits.has(Trait::Lasting)),
            // Some successors wait for a turn to end for longer than their announcement is fresh.
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
            // What waits for a turn is to have it at the end.
            final_duration: if traits.has(Trait::Triggers) { 60 * SECOND } else { 0 },
        }
    }
}

impl Plan {
    /// What lies between two slots of the schedule on this machine, and how long after its instant
    /// each of them is due, in nanoseconds.
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

    /// Over how many milliseconds the slots of elections are spread.
    #[must_use]
    pub fn jitter(&self) -> Millis {
        900 * self.every
    }

    /// The traits that a turn of the schedule on this machine shows.
    pub fn turn_traits(&self, machine: usize) -> impl Iterator<Item = Trait> {
        let other = self.machines[machine].other_schedule;
        let name = self.machines[machine].name;
        let is_name_shared = self.machines.iter().filter(|machine| machine.name == name).count() > 1;
        let shown_traits = [
            (Trait::Lasting, true),
            (Trait::Cron, true),
            (Trait::Jitter, true),
            (Trait::TwoSchedules, other),
            (Trait::OneName, is_name_shared),
        ];
        let traits = self.traits;
        shown_traits.into_iter().filter_map(move |(feature, applies)| (applies && traits.has(feature)).then_some(feature))
    }
}

/// Faults that wait for a step: the one that the schedule is about, and some others.
fn ambushes(
    seed: u64,
    class: Class,
    (fault, step): (Fault, Step),
    traits: Traits,
    dice: &mut Dice,
) -> Vec<Ambush> {
    let mut ambushes = vec![ambush(fault, step, dice)];
    if step == Step::ReadBack {
        // Only a write of unknown outcome is read back.
        for _ in 0..2 {
            let unknown = dice.pick(&[Fault::AnswerLost, Fault::Reset, Fault::Internal]);
            ambushes.push(ambush(unknown, dice.pick(&[Step::Raise, Step::Claim]), dice));
        }
    }
    for _ in 0..dice.between(1, 4) {
        ambushes.push(ambush(faults::fault(class, dice), dice.pick(&Step::PROTOCOL), dice));
    }
    // Requests about side blobs are few: the first of them meets a fault.
    let side_blob_dice = &mut Dice::new(seed, 9);
    ambushes.push(ambush(faults::fault(class, side_blob_dice), Step::SideBlob, side_blob_dice));
    // One of the many requests about the list meets something, too.
    let list_dice = &mut Dice::new(seed, 15);
    let skips = list_dice.between(0, 20);
    ambushes.push(Ambush { skips, ..ambush(faults::fault(class, list_dice), Step::List, list_dice) });
    if step == Step::HandOver {
        // A successor that has announced itself goes.
        let departure =
            ambush(side_blob_dice.pick(&[Fault::Kill, Fault::Leave]), Step::SideBlob, side_blob_dice);
        ambushes.push(Ambush { skips: side_blob_dice.between(0, 6), ..departure });
    }
    if traits.has(Trait::Supervised) {
        ambushes.extend(faults::last_will_ambushes(&mut Dice::new(seed, 13)));
    }
    ambushes
}

/// Mostly short ways; where the service is slow, round trips of up to the shortest time-out.
fn latency(traits: Traits, machines: &[Machine], dice: &mut Dice) -> Latency {
    let most = dice.pick(&[5, 20, 20, 60, 250]);
    if !traits.has(Trait::SlowService) {
        return Latency { least: 1, most };
    }
    let timeout = machines.iter().map(|machine| machine.periods().timeout).min().unwrap_or(0);
    let most = dice.between(timeout / 4, timeout / 2 - 30);
    Latency { least: most * 9 / 10, most }
}

/// How long it takes in the calm until everything late is over, and somebody leads.
fn settling_time(machines: &[Machine], latest: Millis, latency: Latency) -> Millis {
    let longest_period = |period: fn(&Machine) -> Millis| machines.iter().map(period).max().unwrap_or(0);
    let lease = longest_period(|machine| machine.lease * SECOND);
    let last_request = longest_period(|machine| machine.periods().timeout);
    let poll = longest_period(|machine| machine.poll);
    // D, then the last lease; a container's name, the cool-down of the last long turn; then a
    // takeover.
    let longest_wait = [latest + lease, LONGEST_COOL_DOWN + 10 * SECOND, DELETION];
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
