//! Rules of the timer in a schedule, and the timetable: a long run of slots.

use tenure_core::{Delivery, Missed};

use super::super::dice::Dice;
use super::super::fault::{Fault, Step};
use super::super::world::Millis;
use super::faults::{Ambush, Moment, Target, Timed};
use super::machines::Machine;
use super::traits::{Trait, Traits};
use super::{Beginning, Class, EPOCH, Latency, MAX_COOL_DOWN, Plan, SECOND};

/// Rules for slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Delivery guarantee of slots.
    pub delivery: Delivery,
    /// Policy for missed slots.
    pub missed: Missed,
    /// Slots per thousand in which every turn fails.
    pub poison_permille: u64,
    /// True if every other machine has at-most-once delivery.
    pub mixes_delivery: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            delivery: Delivery::AtMostOnce,
            missed: Missed::Once,
            poison_permille: 0,
            mixes_delivery: false,
        }
    }
}

/// Few, so that a poisoned slot is abandoned soon.
const ATTEMPTS: u32 = 3;

/// More than any schedule has.
const MAX_MISSED: u32 = 1_000;

/// Minimum number of slots in a timetable.
pub const SLOTS: u64 = 1_000;

impl Rules {
    /// Draws rules for a schedule with faults: defaults for half of the schedules.
    pub(super) fn draw(dice: &mut Dice) -> Self {
        let rules = Self::default();
        match dice.once_in(2) {
            true => rules,
            false => Self {
                delivery: dice.pick(&[rules.delivery, Self::at_least_once().delivery]),
                missed: dice.pick(&[Missed::Skip, Missed::Once, Missed::All(MAX_MISSED)]),
                poison_permille: dice.pick(&[0, 0, 100]),
                mixes_delivery: dice.once_in(3),
            },
        }
    }

    /// Restricts the rules to those that these traits allow.
    ///
    /// Lasting work has no rule for slots. With two schedules, neither runs all of its slots.
    pub(super) fn restricted_to(self, traits: Traits) -> Self {
        let rules = Self::default();
        match (traits.has(Trait::Lasting), traits.has(Trait::TwoSchedules)) {
            (true, _) => rules,
            (_, true) => Self { missed: rules.missed, ..self },
            _ => self,
        }
    }

    /// Returns rules by which every slot runs until it succeeded or has no attempts left.
    #[must_use]
    pub fn at_least_once() -> Self {
        let delivery = Delivery::AtLeastOnce { max_attempts: ATTEMPTS };
        Self {
            delivery,
            missed: Missed::All(MAX_MISSED),
            poison_permille: 20,
            mixes_delivery: false,
        }
    }
}

impl Plan {
    /// Returns a plan with a thousand slots, one per second, on five machines with arbitrary
    /// clocks.
    ///
    /// Their leader is repeatedly killed, at any step between claim and outcome.
    #[must_use]
    pub fn timetable(seed: u64, rules: Rules) -> Self {
        let dice = &mut Dice::new(seed, 5);
        let calm = SLOTS * SECOND;
        let wall_offsets = [0, -90_000, 600_000, -7_200_000, super::machines::YEAR_MS];
        let mut machines: Vec<_> =
            (0..wall_offsets.len()).map(|n| Machine::new(n, 15, 4 * SECOND)).collect();
        for (machine, wall_offset) in machines.iter_mut().zip(wall_offsets) {
            machine.wall_off = wall_offset;
            machine.nanos_per_ms = dice.between(990_000, 1_010_000);
            machine.starts_at = dice.between(0, 2_000);
        }
        let mut timed: Vec<_> = (0..calm / (40 * SECOND))
            .map(|n| {
                let at = n * 40 * SECOND + dice.between(5 * SECOND, 39 * SECOND);
                let fault =
                    dice.pick(&[Fault::Kill, Fault::Kill, Fault::PauseBetween, Fault::Leave]);
                Timed { at, fault, target: Target::Leader }
            })
            .collect();
        timed.sort_by_key(|timed| timed.at);
        let mut ambushes = Vec::new();
        for step in [Step::Claim, Step::Outcome, Step::ReadBack, Step::Raise, Step::Release] {
            for moment in [Moment::Before, Moment::Sent, Moment::Answered] {
                let skips = dice.between(0, 200);
                ambushes.push(Ambush { fault: Fault::Kill, step, moment, skips });
            }
            let lost_fault =
                dice.pick(&[Fault::AnswerLost, Fault::RequestLost, Fault::AppliedLate]);
            let skips = dice.between(0, 200);
            ambushes.push(Ambush { fault: lost_fault, step, moment: Moment::Before, skips });
        }
        Self {
            class: Class::Sound,
            traits: Traits::default(),
            machines,
            every: 1,
            tenure: None,
            rules,
            beginning: Beginning::Nothing,
            latency: Latency { least: 1, most: 20 },
            max_delay: 10 * SECOND,
            noise_permille: 2,
            long_turns_permille: 0,
            longest_work: 40 * SECOND,
            longest_turn: 300,
            failing_turns_permille: 5,
            turn_timeout: None,
            grace: SECOND,
            epoch: EPOCH + dice.between(0, SECOND),
            ambushes,
            timed,
            calm,
            finale: calm + MAX_COOL_DOWN + 40 * SECOND,
            final_duration: FINAL_DURATION,
        }
    }
}

impl Plan {
    /// Returns a plan for ten replicas that a platform calls every ten seconds, all at once, for a
    /// thousand slots.
    ///
    /// Invocations are killed and freeze at any step.
    #[must_use]
    pub fn invocations(seed: u64, rules: Rules) -> Self {
        let mut plan = Self::timetable(seed, rules);
        plan.every = 10;
        // The work is long enough to miss a slot sometimes, and always shorter than a lease.
        plan.longest_turn = 4 * SECOND;
        plan.calm = plan.every * SLOTS * SECOND;
        plan.finale = plan.calm;
        let dice = &mut Dice::new(seed, 8);
        let machines = plan.machines.clone();
        plan.machines.extend(machines);
        for machine in &mut plan.machines {
            machine.lease = dice.pick(&[15, 60, 60, 60]);
        }
        // Some turns may outlive their lease.
        plan.long_turns_permille = 5;
        for step in [Step::Poll, Step::Acquire, Step::Raise, Step::Claim] {
            for moment in [Moment::Before, Moment::Sent, Moment::Answered] {
                for _ in 0..5 {
                    let skips = dice.between(0, 200);
                    plan.ambushes.push(Ambush { fault: Fault::WallJump, step, moment, skips });
                }
            }
        }
        plan.timed = (0..plan.calm / (120 * SECOND))
            .map(|n| {
                let at = n * 120 * SECOND + dice.between(0, 119 * SECOND);
                let fault = dice.weighted(&INVOCATION_FAULTS);
                Timed { at, fault, target: Target::Leader }
            })
            .collect();
        plan
    }
}

/// Faults of invocations, with weights.
const INVOCATION_FAULTS: [(Fault, u64); 3] =
    [(Fault::Kill, 2), (Fault::PauseBetween, 1), (Fault::WallJump, 1)];

/// Time that the last candidate has to finish earlier work.
const FINAL_DURATION: Millis = 120 * SECOND;
