//! The machines of a schedule: their periods and their clocks.

use super::super::dice::Dice;
use super::super::history::Periods;
use super::super::world::Millis;
use super::SECOND;

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

/// Three of them, or some more.
pub(super) fn machines(dice: &mut Dice, later_versions: bool) -> Vec<Machine> {
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

/// In milliseconds.
pub(super) const A_YEAR: i64 = 31_536_000_000;

fn machine(lease: u64, poll: Millis, newer: bool, dice: &mut Dice) -> Machine {
    // Most clocks are right to the second, some wrong by minutes, some by more than the service
    // lets pass, and some are a year ahead.
    let off = dice.pick(&[500, 500, 2_000, 600_000, 7_200_000]);
    let years = if dice.once_in(10) { A_YEAR } else { 0 };
    Machine {
        lease,
        poll,
        pace: dice.between(990_000, 1_010_000),
        wall_off: signed(dice.between(0, 2 * off)) - signed(off) + years,
        starts: dice.between(0, 2_000),
        newer,
    }
}

fn signed(millis: u64) -> i64 {
    i64::try_from(millis).unwrap_or(0)
}
