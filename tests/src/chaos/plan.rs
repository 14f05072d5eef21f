//! Plan of a round, drawn from a seed.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use fastrand::Rng;
use tenure_core::Failover;

use crate::Mode;

/// One round: an election and its faults.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Failover of each of the 3 to 5 candidates; `None` waits for the end of the lease.
    pub candidates: Vec<Option<Failover>>,
    /// True if turns never end on their own; otherwise most turns end before the next slot.
    pub endless_turns: bool,
    /// Faults in sequence; after each, a candidate leads again.
    pub faults: Vec<Fault>,
}

/// Distribution of failover among the candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mix {
    /// All wait for the end of the lease.
    #[default]
    ByLease,
    /// All use the same failover.
    Same(Failover),
    /// Each draws a failover or the end of the lease.
    Mixed,
}

impl Mix {
    fn draw(self, rng: &mut Rng) -> Option<Failover> {
        let within = |seconds| Failover { within: Duration::from_secs(seconds) };
        match self {
            Self::ByLease => None,
            Self::Same(failover) => Some(failover),
            Self::Mixed => pick(rng, &[None, Some(within(2)), Some(within(3)), Some(within(10))]),
        }
    }
}

/// A temporary fault.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Candidates that are cut off from the store, and the mode of their proxies.
    pub partition: Option<(Target, Mode)>,
    /// Fault of the processes during the partition.
    pub process_fault: Option<ProcessFault>,
    /// Delay after a leader starts to work: any time between two renewals.
    pub delay: Duration,
    /// Minimum duration. A fault that forces a takeover lasts until the new leader works.
    pub min_duration: Duration,
}

/// Candidates that a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The leader.
    Leader,
    /// One follower.
    Follower,
    /// All candidates.
    All,
}

/// Fault of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessFault {
    /// SIGKILL of the leader.
    Kill,
    /// SIGSTOP, and SIGCONT when the fault ends.
    Freeze(Target),
    /// SIGTERM of the leader and of this many followers in each wave, with immediate restarts. Each
    /// wave hits the leader of that time.
    Storm(Vec<usize>),
}

/// Interval between renewals, in ms; a fault may start at any time within it.
const RENEW_MS: u64 = 4_000;

/// Longer than the lease.
const DURATION_MS: RangeInclusive<u64> = 16_000..=22_000;

impl Plan {
    /// Draws a freeze, a partition and a third fault, in any order.
    #[must_use]
    pub fn draw(seed: u64, candidates: RangeInclusive<usize>, mix: Mix) -> Self {
        let mut rng = Rng::with_seed(seed);
        let candidates = rng.usize(candidates);
        let mut faults = vec![freeze_fault(&mut rng), third_fault(candidates, &mut rng)];
        let partition = partition_fault(&mut rng);
        faults.insert(rng.usize(..=2), partition);
        if rng.bool() {
            faults.reverse();
        }
        let (endless_turns, mut candidate_rng) = (rng.bool(), rng.fork());
        let candidates = (0..candidates).map(|_| mix.draw(&mut candidate_rng)).collect();
        Self { candidates, endless_turns, faults }
    }
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

fn freeze_fault(rng: &mut Rng) -> Fault {
    let target = pick(rng, &[Target::Leader, Target::Leader, Target::Leader, Target::All]);
    // Sometimes processes resume while the store is unreachable.
    let partition = (rng.u8(..4) == 0).then(|| (Target::Leader, draw_mode(rng)));
    new_fault(partition, Some(ProcessFault::Freeze(target)), rng)
}

fn partition_fault(rng: &mut Rng) -> Fault {
    let target = pick(rng, &[Target::Leader, Target::Leader, Target::Follower, Target::All]);
    new_fault(Some((target, draw_mode(rng))), None, rng)
}

fn third_fault(candidates: usize, rng: &mut Rng) -> Fault {
    let draw_waves = |rng: &mut Rng| (0..rng.u64(2..=4)).map(|_| rng.usize(..candidates)).collect();
    match rng.u64(0..=5) {
        0 | 1 => new_fault(None, Some(ProcessFault::Kill), rng),
        2 => new_fault(Some((Target::Follower, draw_mode(rng))), Some(ProcessFault::Kill), rng),
        3 => {
            let waves = draw_waves(rng);
            new_fault(Some((Target::Leader, draw_mode(rng))), Some(ProcessFault::Storm(waves)), rng)
        }
        _ => {
            let waves = draw_waves(rng);
            new_fault(None, Some(ProcessFault::Storm(waves)), rng)
        }
    }
}

fn draw_mode(rng: &mut Rng) -> Mode {
    let late = Duration::from_millis(rng.u64(300..=2_300));
    let too_late = Duration::from_millis(rng.u64(4_000..=12_000));
    // An answer has about 300 bytes: it takes about 0.3 s, or longer than any client waits.
    let modes = [
        Mode::Drop,
        Mode::Reset,
        Mode::BlackHole,
        Mode::HalfOpen,
        Mode::Delay(pick(rng, &[late, too_late])),
        Mode::Trickle(Duration::from_millis(pick(rng, &[1, 20]))),
    ];
    pick(rng, &modes)
}

fn new_fault(
    partition: Option<(Target, Mode)>,
    process_fault: Option<ProcessFault>,
    rng: &mut Rng,
) -> Fault {
    let delay = Duration::from_millis(rng.u64(0..=RENEW_MS));
    let min_duration = match process_fault {
        // Ends when the leader is replaced, unless other candidates are cut off too.
        Some(ProcessFault::Storm(_)) => Duration::ZERO,
        Some(ProcessFault::Kill) if partition.is_none() => Duration::ZERO,
        _ => Duration::from_millis(rng.u64(DURATION_MS)),
    };
    Fault { partition, process_fault, delay, min_duration }
}

impl Fault {
    /// Returns true if the fault only stops the leader, so that another candidate takes over while
    /// it lasts.
    pub(super) fn deposes_leader(&self) -> bool {
        let others_unaffected =
            !matches!(self.partition, Some((Target::Follower | Target::All, _)))
                && !matches!(
                    self.process_fault,
                    Some(ProcessFault::Freeze(Target::Follower | Target::All))
                );
        let leader_is_out = matches!(self.partition, Some((Target::Leader, mode)) if mode.cuts_off())
            || matches!(
                self.process_fault,
                Some(ProcessFault::Kill | ProcessFault::Freeze(Target::Leader))
            );
        others_unaffected && leader_is_out
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let turns = if self.endless_turns { "endless turns" } else { "short turns" };
        write!(f, "{} candidates, {turns}", self.candidates.len())?;
        if self.candidates.iter().any(Option::is_some) {
            let within = self.candidates.iter().map(|failover| match failover {
                Some(failover) => format!("{:?}", failover.within),
                None => "lease".to_owned(),
            });
            write!(f, ", failover {}", within.collect::<Vec<_>>().join("/"))?;
        }
        self.faults.iter().try_for_each(|fault| write!(f, "; {fault}"))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {:?}:", self.delay)?;
        if let Some((target, mode)) = self.partition {
            write!(f, " cut off {target:?} ({mode})")?;
        }
        if let Some(process_fault) = &self.process_fault {
            write!(f, " {process_fault:?}")?;
        }
        write!(f, " for {:?}", self.min_duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_a_freeze_and_a_partition_and_all_kinds_are_drawn() {
        let mut drawn = std::collections::BTreeSet::new();
        let mut failovers = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let plan = Plan::draw(seed, 3..=5, Mix::ByLease);
            assert!((3..=5).contains(&plan.candidates.len()) && plan.faults.len() == 3, "{plan}");
            let freezes =
                |fault: &Fault| matches!(fault.process_fault, Some(ProcessFault::Freeze(_)));
            let partitions =
                |fault: &Fault| fault.partition.is_some() && fault.process_fault.is_none();
            assert!(plan.faults.iter().any(freezes), "{plan}");
            assert!(plan.faults.iter().any(partitions), "{plan}");
            assert_eq!(plan.to_string(), Plan::draw(seed, 3..=5, Mix::ByLease).to_string());
            let mixed = Plan::draw(seed, 3..=5, Mix::Mixed);
            assert_eq!(mixed.candidates.len(), plan.candidates.len());
            failovers.extend(mixed.candidates.iter().map(|f| f.map(|failover| failover.within)));
            for fault in &plan.faults {
                let is_lasting = freezes(fault) || partitions(fault);
                assert!(!is_lasting || fault.min_duration > Duration::from_secs(15), "{plan}");
                let mode = fault.partition.map(|(target, mode)| {
                    let mode = mode.to_string();
                    format!("{target:?} {}", mode.split(' ').next().unwrap())
                });
                let process_fault =
                    fault.process_fault.as_ref().map(|process_fault| match process_fault {
                        ProcessFault::Storm(_) => "Storm".to_owned(),
                        other => format!("{other:?}"),
                    });
                drawn.insert((mode, process_fault));
            }
        }
        assert_eq!(failovers.len(), 4, "{failovers:?}");
        let expected = [("Leader black", None), ("All drop", None), ("Follower half-open", None)];
        for (mode, process_fault) in expected {
            assert!(drawn.contains(&(Some(mode.to_owned()), process_fault)), "{mode}: {drawn:?}");
        }
        for process_fault in ["Kill", "Storm", "Freeze(Leader)", "Freeze(All)"] {
            assert!(
                drawn.contains(&(None, Some(process_fault.to_owned()))),
                "{process_fault}: {drawn:?}"
            );
        }
    }
}
