//! The machines of a schedule: their settings, versions and clocks.

use tenure_core::Settings;

use super::super::dice::Dice;
use super::super::history::Periods;
use super::super::variables;
use super::super::world::Millis;
use super::SECOND;
use super::traits::{Trait, Traits};

/// A machine, on which one candidate runs at a time.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Number in the name of its candidates; not unique.
    pub name: usize,
    /// Length of the lease, in seconds.
    pub lease: u64,
    /// Longest interval between two polls of a follower.
    pub poll: Millis,
    /// Margin, renewal interval and timeout, if they do not follow from the lease.
    pub timings: Option<[Millis; 3]>,
    /// Failover window in milliseconds, if the candidate can be replaced, or replace other leaders,
    /// before a lease ends.
    pub failover: Option<Millis>,
    /// True if its clock advances with the wall clock, and knows by how much.
    pub clock_follows_wall: bool,
    /// True if its timer differs from that of the other machines.
    pub other_schedule: bool,
    /// Nanoseconds that its clock counts in a true millisecond.
    pub nanos_per_ms: u64,
    /// Offset of its wall clock.
    pub wall_off: i64,
    /// Start time of its first candidate.
    pub starts_at: Millis,
    /// Version of its program.
    pub version: Version,
}

/// Version of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// The current version.
    Current,
    /// A version that writes a field that other versions do not know.
    Newer,
    /// A version without successors, which preserves unknown fields.
    Older,
}

impl Machine {
    /// Creates a machine with the settings that follow from its lease.
    pub(super) fn new(name: usize, lease: u64, poll: Millis) -> Self {
        Self {
            name,
            lease,
            poll,
            timings: None,
            failover: None,
            clock_follows_wall: false,
            other_schedule: false,
            nanos_per_ms: 1_000_000,
            wall_off: 0,
            starts_at: 0,
            version: Version::Current,
        }
    }

    /// Returns its periods.
    #[must_use]
    pub fn periods(&self) -> Periods {
        let lease = self.lease * SECOND;
        let defaults = [(lease / 5).max(2_500), lease * 4 / 15, 3_000];
        let [margin, renew, timeout] = self.timings.unwrap_or(defaults);
        Periods { lease, margin, renew, poll: self.poll, timeout, failover: self.failover }
    }

    /// Adjusts the failover window so that beats with this latency are in time.
    pub(super) fn limit_failover_latency(&mut self, latency: Millis) {
        let minimum = 12 * latency + 300;
        let fallback = [5 * SECOND, 10 * SECOND].into_iter().find(|failover| *failover >= minimum);
        self.failover = self
            .failover
            .and_then(|configured| if configured >= minimum { Some(configured) } else { fallback });
    }

    /// Returns the slowest clock that this margin allows (A2), in nanoseconds of each millisecond.
    ///
    /// 2 s of the margin are for the service, and 20 ms for the host.
    fn slowest_clock(&self) -> u64 {
        let Periods { lease, margin, .. } = self.periods();
        (1_000_000 - (margin - 2_020) * 1_000_000 / lease).max(990_000)
    }

    /// Draws margin, renewal interval and timeout until the component accepts them.
    fn draw_timings(&mut self, dice: &mut Dice) {
        let lease = self.lease * SECOND;
        loop {
            let margin = dice.between(2_500, lease / 3);
            let renew = dice.between(1_000, lease / 2);
            self.timings = Some([margin, renew, 100 * dice.between(10, 100)]);
            let mut machine_variables = variables::timing_variables(self);
            machine_variables
                .extend(variables::KEY_VARIABLES.map(|(name, value)| (name, value.to_string())));
            let find = |wanted: &str| {
                machine_variables
                    .iter()
                    .find(|(name, _)| *name == wanted)
                    .map(|(_, value)| value.clone())
            };
            if Settings::read(find).is_ok() {
                return;
            }
        }
    }
}

/// Draws three machines, or some more.
pub(super) fn machines(traits: Traits, dice: &mut Dice) -> Vec<Machine> {
    // Mostly short leases: a schedule lasts ten times the longest.
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
    let mut machines: Vec<_> =
        (0..).zip(leases).map(|(name, &lease)| Machine::new(name, lease, poll)).collect();
    let draw_index = |dice: &mut Dice| usize::try_from(dice.between(0, 2)).unwrap_or(0);
    let (odd_one, newer_index, older_index) =
        (draw_index(dice), draw_index(dice), draw_index(dice));
    for (n, machine) in machines.iter_mut().enumerate() {
        if traits.has(Trait::Timings) {
            machine.draw_timings(dice);
        }
        machine.other_schedule = traits.has(Trait::TwoSchedules) && n == odd_one;
        if traits.has(Trait::OneName) && n != odd_one {
            machine.name = (odd_one + 1) % 3;
        }
        machine.version = match n {
            _ if traits.has(Trait::Older) && n == older_index => Version::Older,
            _ if traits.has(Trait::Newer) && n == newer_index => Version::Newer,
            _ => Version::Current,
        };
        if traits.has(Trait::Failover) {
            machine.failover =
                dice.pick(&[None, Some(1), Some(2), Some(3), Some(3), Some(5), Some(10)]);
            machine.failover = machine.failover.map(|seconds| seconds * SECOND);
            machine.clock_follows_wall = dice.once_in(4);
        }
        if machine.version == Version::Older {
            machine.failover = None;
        }
        machine.draw_clocks(dice);
    }
    machines
}

/// A year in milliseconds.
pub(super) const YEAR_MS: i64 = 31_536_000_000;

impl Machine {
    fn draw_clocks(&mut self, dice: &mut Dice) {
        // Most clocks are right to the second, and some are wrong by minutes. Some are wrong by
        // more than the service allows, and some are a year ahead.
        let max_offset = dice.pick(&[500, 500, 2_000, 600_000, 7_200_000]);
        let years = if dice.once_in(10) { YEAR_MS } else { 0 };
        self.nanos_per_ms = dice.between(self.slowest_clock(), 1_010_000);
        self.wall_off = signed(dice.between(0, 2 * max_offset)) - signed(max_offset) + years;
        self.starts_at = dice.between(0, 2_000);
    }
}

fn signed(millis: u64) -> i64 {
    i64::try_from(millis).unwrap_or(0)
}
