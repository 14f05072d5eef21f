//! What a seed decides before a schedule begins: machines, periods, and which faults lie in wait.

use super::dice::Dice;
use super::fault::{Fault, Kind, Step};
use super::history::Periods;
use super::world::Millis;

const SECOND: Millis = 1_000;

/// About when schedules begin, in milliseconds since 1970: a slot of every schedule.
const EPOCH: u64 = 1_794_999_900_000;

/// How long a candidate stays out of the race after its work failed, at first, in seconds.
pub const COOL_DOWN: u64 = 2;

/// The longest that it ever stays out: 16 times as long.
pub const LONGEST_COOL_DOWN: Millis = 16 * COOL_DOWN * SECOND;

/// The least time in which faults happen.
const TROUBLED: Millis = 90 * SECOND;

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

/// One machine, on which one candidate runs at a time.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Length of the lease, in seconds.
    pub lease: u64,
    /// The longest between two looks of a follower.
    pub poll: Millis,
    /// Nanoseconds that its clock counts in a millisecond.
    pub pace: u64,
    /// How far its wall clock is off.
    pub wall_off: i64,
    /// When its first candidate starts.
    pub starts: Millis,
    /// Its candidate writes a field that the others do not know.
    pub newer: bool,
}

impl Machine {
    /// The periods that follow from the lease.
    #[must_use]
    pub fn periods(&self) -> Periods {
        let lease = self.lease * SECOND;
        let margin = (lease / 5).max(2_500);
        Periods { lease, margin, renew: lease * 4 / 15, poll: self.poll, timeout: 3_000 }
    }
}

/// When a fault that waits for a step strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The request is decided on, and its instant was read, but it is not sent.
    Before,
    /// It is on the wire.
    Sent,
    /// Its answer is there, and was not looked at.
    Answered,
}

/// A fault that waits until somebody comes to a step.
#[derive(Clone, Copy, Debug)]
pub struct Ambush {
    /// Which.
    pub fault: Fault,
    /// Where.
    pub step: Step,
    /// When exactly.
    pub moment: Moment,
    /// How many pass unharmed before.
    pub spares: u64,
}

/// Whom a timed fault befalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Whoever leads.
    Leader,
    /// The candidate on this machine.
    Machine(usize),
}

/// A fault at an instant.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// When.
    pub at: Millis,
    /// Which.
    pub fault: Fault,
    /// Whom.
    pub target: Target,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which assumptions hold.
    pub class: Class,
    /// At least three.
    pub machines: Vec<Machine>,
    /// Seconds between slots.
    pub every: u64,
    /// What is there already.
    pub beginning: Beginning,
    /// The longest way of a request or of an answer.
    pub latency: Millis,
    /// How late the network may still deliver a request; 30 s at most.
    pub latest: Millis,
    /// In how many of a thousand requests the network does something wrong.
    pub noise: u64,
    /// In how many of a thousand turns the handler works for long.
    pub long_turns: u64,
    /// In how many of a thousand turns it fails or traps, before the calm.
    pub sick_turns: u64,
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
}

impl Plan {
    /// The plan of one seed.
    #[must_use]
    pub fn of(seed: u64, later_versions: bool) -> Self {
        let dice = &mut Dice::new(seed, 1);
        // Each schedule has one fault that it is about, so that no pair of fault and step is rare.
        let (fault, step) = pair(seed);
        let class = match fault.kind() {
            Kind::Outsider => Class::WithoutA3,
            _ if dice.once_in(6) => Class::WithoutA3,
            _ => Class::Sound,
        };
        let machines = machines(dice, later_versions);
        let longest = machines.iter().map(|machine| machine.lease * SECOND).max().unwrap_or(0);
        let polls = machines.iter().map(|machine| machine.periods().poll).max().unwrap_or(0);
        let latest = dice.pick(&[6, 10, 15, 30]) * SECOND;
        // D, then the last lease, then a take-over; and whoever was sick is well again.
        let settling = (latest + longest + 3 * SECOND).max(LONGEST_COOL_DOWN + 10 * SECOND) + polls;
        // The finale takes some time, too.
        let calm = (10 * longest).saturating_sub(settling + 20 * SECOND).max(TROUBLED);
        // An outcome is written by itself only where the next slot is more than a minute away.
        let every = match step {
            Step::Outcome => 75,
            _ => dice.pick(&[3, 5, 5, 10, 10, 75]),
        };
        let beginning = match step {
            Step::CreateContainer => Beginning::Nothing,
            Step::CreateBlob => dice.pick(&[Beginning::Nothing, Beginning::Container]),
            _ => dice.pick(&[Beginning::Nothing, Beginning::Container, Beginning::Record]),
        };
        let mut ambushes = vec![ambush(fault, step, dice)];
        if step == Step::ReadBack {
            // Only a write of unknown outcome is read back.
            for _ in 0..2 {
                let unknown = dice.pick(&[Fault::AnswerLost, Fault::Reset, Fault::Internal]);
                ambushes.push(ambush(unknown, dice.pick(&[Step::Raise, Step::Claim]), dice));
            }
        }
        for _ in 0..dice.between(1, 4) {
            ambushes.push(ambush(self::fault(class, dice), dice.pick(&Step::ALL), dice));
        }
        let mut timed = vec![a_take_over(calm.saturating_sub(longest + 8 * SECOND), dice)];
        for _ in 0..dice.between(1, 3) {
            timed.push(in_time(class, machines.len(), calm, dice));
        }
        let again: Vec<_> = timed.iter().filter_map(|timed| the_same_evil(*timed, dice)).collect();
        timed.extend(again);
        timed.sort_by_key(|timed| timed.at);
        Self {
            class,
            machines,
            every,
            beginning,
            latest,
            latency: dice.pick(&[5, 20, 20, 60, 250]),
            noise: dice.pick(&[0, 0, 10, 40]),
            long_turns: dice.pick(&[50, 200, 600]),
            sick_turns: dice.pick(&[0, 0, 0, 100, 500]),
            turn_timeout: dice.pick(&[None, None, Some(8)]),
            grace: dice.pick(&[0, SECOND, SECOND, 5 * SECOND]),
            epoch: EPOCH + every * SECOND * dice.between(1, 1_000) - dice.between(0, 25 * SECOND),
            ambushes,
            timed,
            calm,
            finale: calm + settling,
        }
    }
}

fn machines(dice: &mut Dice, later_versions: bool) -> Vec<Machine> {
    // Mostly short ones: a schedule lasts ten times the longest.
    let leases: &[u64] = match dice.between(0, 99) {
        0..=63 => &[15, 15, 15],
        64..=74 => &[15, 15, 15, 15],
        75..=77 => &[15, 15, 15, 15, 15],
        78..=85 => &[15, 16, 20],
        86..=94 => &[15, 15, 30],
        95..=96 => &[15, 20, 30, 30],
        97..=98 => &[20, 25, 40],
        _ => &[15, 30, 60],
    };
    let poll = dice.pick(&[4, 4, 6, 8]) * SECOND;
    let newer = if dice.once_in(4) { dice.between(0, 2) } else { u64::MAX };
    (0..)
        .zip(leases)
        .map(|(n, &lease)| machine(lease, poll, later_versions && n == newer, dice))
        .collect()
}

fn machine(lease: u64, poll: Millis, newer: bool, dice: &mut Dice) -> Machine {
    // Most clocks are right to the second, some wrong by minutes, some by more than the service
    // lets pass.
    let off = dice.pick(&[500, 500, 2_000, 600_000, 7_200_000]);
    Machine {
        lease,
        poll,
        pace: dice.between(990_000, 1_010_000),
        wall_off: signed(dice.between(0, 2 * off)) - signed(off),
        starts: dice.between(0, 2_000),
        newer,
    }
}

/// As many seeds in a row have all pairs, in a mixed order.
fn pair(seed: u64) -> (Fault, Step) {
    const STRIDE: u64 = 97;
    let (faults, steps) = (Fault::ALL.len() as u64, Step::ALL.len() as u64);
    let place = seed.wrapping_mul(STRIDE) % (faults * steps);
    let of = |place: u64| usize::try_from(place).unwrap_or(0);
    (Fault::ALL[of(place / steps)], Step::ALL[of(place % steps)])
}

/// A fault of a class: each kind of trouble as likely as its number of ways.
fn fault(class: Class, dice: &mut Dice) -> Fault {
    loop {
        let fault = dice.pick(&Fault::ALL);
        if class == Class::WithoutA3 || fault.kind() != Kind::Outsider {
            return fault;
        }
    }
}

fn ambush(fault: Fault, step: Step, dice: &mut Dice) -> Ambush {
    let moment = match (fault.kind(), fault) {
        (Kind::Request | Kind::Network, _) => Moment::Before,
        (_, Fault::PauseWithin) => dice.pick(&[Moment::Before, Moment::Sent]),
        (_, Fault::PauseBetween) => Moment::Answered,
        _ => dice.pick(&[Moment::Before, Moment::Sent, Moment::Answered]),
    };
    let most = match step {
        Step::Look => 30,
        Step::Renew | Step::Claim => 12,
        Step::Acquire | Step::Raise => 3,
        _ => 0,
    };
    Ambush { fault, step, moment, spares: dice.between(0, most) }
}

const OUTSIDER: [Fault; 6] = [
    Fault::BreakNow,
    Fault::DeleteBlob,
    Fault::DeleteContainer,
    Fault::WipeRecord,
    Fault::RestoreRecord,
    Fault::StateLost,
];

/// Another outsider's deed within the seconds in which the first one is recovered from.
fn the_same_evil(timed: Timed, dice: &mut Dice) -> Option<Timed> {
    let again = timed.fault.kind() == Kind::Outsider && dice.once_in(2);
    let at = timed.at + dice.between(0, 4_000);
    again.then(|| Timed { at, fault: dice.pick(&OUTSIDER), ..timed })
}

/// Something after which another leads, early enough for that to be seen.
fn a_take_over(until: Millis, dice: &mut Dice) -> Timed {
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

/// Something that changes who leads, mostly.
fn in_time(class: Class, machines: usize, calm: Millis, dice: &mut Dice) -> Timed {
    const SOUND: [Fault; 10] = [
        Fault::Kill,
        Fault::Kill,
        Fault::Leave,
        Fault::Leave,
        Fault::PauseBetween,
        Fault::PauseBetween,
        Fault::PartitionOne,
        Fault::PartitionOne,
        Fault::PartitionAll,
        Fault::LeaseEndsEarly,
    ];
    let fault = match class {
        Class::WithoutA3 if dice.once_in(2) => dice.pick(&OUTSIDER),
        _ => dice.pick(&SOUND),
    };
    let target = match dice.between(0, 2) {
        0 => Target::Machine(usize::try_from(dice.bits() % machines as u64).unwrap_or(0)),
        _ => Target::Leader,
    };
    Timed { at: dice.between(5 * SECOND, calm.saturating_sub(SECOND)), fault, target }
}

fn signed(millis: u64) -> i64 {
    i64::try_from(millis).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn seeds_in_a_row_are_about_all_pairs() {
        let pairs = (Fault::ALL.len() * Step::ALL.len()) as u64;
        let seen: BTreeSet<_> = (1_000..1_000 + pairs).map(pair).collect();
        assert_eq!(seen.len() as u64, pairs);
    }

    #[test]
    fn settings_and_periods_agree() {
        for seed in 0..200 {
            let plan = Plan::of(seed, true);
            assert!(plan.machines.len() >= 3);
            assert!(plan.calm >= TROUBLED && plan.finale > plan.calm, "seed {seed}");
            assert!(plan.timed.is_sorted_by_key(|timed| timed.at), "seed {seed}");
        }
    }
}
