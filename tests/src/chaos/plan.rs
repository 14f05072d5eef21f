//! What is to happen in a round, drawn from a seed.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use fastrand::Rng;
use tenure_core::Failover;

use crate::Mode;

/// One round: an election, and what befalls it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Those who contend, 3 to 5: how soon each replaces a leader that died, if not when the lease ends.
    pub candidates: Vec<Option<Failover>>,
    /// Whether a turn never ends by itself, or most turns end before the next is due.
    pub endless_turns: bool,
    /// One after the other; after each, somebody leads again.
    pub faults: Vec<Fault>,
}

/// How soon candidates replace a leader that died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mix {
    /// All of them when the lease ends.
    #[default]
    ByLease,
    /// All of them within the same time.
    Same(Failover),
    /// Each draws one of these, of which one is the end of the lease.
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

/// Something that goes wrong, and ends.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Who is cut off from the store, and how.
    pub cut: Option<(Whom, Mode)>,
    /// What befalls the processes while they are cut off.
    pub blow: Option<Blow>,
    /// When it strikes, from the time at which a leader works: any time between two renewals.
    pub after: Duration,
    /// How long it lasts at least. One that makes another leader lasts until that one works.
    pub lasts: Duration,
}

/// Which candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// The one that leads.
    Leader,
    /// One that does not.
    Follower,
    /// Everybody.
    All,
}

/// What befalls processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blow {
    /// SIGKILL of the leader.
    Kill,
    /// SIGSTOP, and SIGCONT when the fault ends.
    Freeze(Whom),
    /// SIGTERM of the leader and of this many followers, which are started again at once; in
    /// each wave of whoever leads by then.
    Storm(Vec<usize>),
}

/// The interval between renewals, of which a fault may strike any moment.
const RENEW: u64 = 4_000;

/// Longer than the lease.
const LASTS: RangeInclusive<u64> = 16_000..=22_000;

impl Plan {
    /// A freeze, a partition and a third fault, in any order.
    #[must_use]
    pub fn draw(seed: u64, candidates: RangeInclusive<usize>, mix: Mix) -> Self {
        let mut rng = Rng::with_seed(seed);
        let candidates = rng.usize(candidates);
        let mut faults = vec![freeze(&mut rng), third(candidates, &mut rng)];
        let partition = partition(&mut rng);
        faults.insert(rng.usize(..=2), partition);
        if rng.bool() {
            faults.reverse();
        }
        let (endless_turns, mut theirs) = (rng.bool(), rng.fork());
        let candidates = (0..candidates).map(|_| mix.draw(&mut theirs)).collect();
        Self { candidates, endless_turns, faults }
    }
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

fn freeze(rng: &mut Rng) -> Fault {
    let whom = pick(rng, &[Whom::Leader, Whom::Leader, Whom::Leader, Whom::All]);
    // Some wake up, and the store is out of reach.
    let cut = (rng.u8(..4) == 0).then(|| (Whom::Leader, mode(rng)));
    fault(cut, Some(Blow::Freeze(whom)), rng)
}

fn partition(rng: &mut Rng) -> Fault {
    let whom = pick(rng, &[Whom::Leader, Whom::Leader, Whom::Follower, Whom::All]);
    fault(Some((whom, mode(rng))), None, rng)
}

fn third(candidates: usize, rng: &mut Rng) -> Fault {
    let waves = |rng: &mut Rng| (0..rng.u64(2..=4)).map(|_| rng.usize(..candidates)).collect();
    match rng.u64(0..=5) {
        0 | 1 => fault(None, Some(Blow::Kill), rng),
        2 => fault(Some((Whom::Follower, mode(rng))), Some(Blow::Kill), rng),
        3 => {
            let waves = waves(rng);
            fault(Some((Whom::Leader, mode(rng))), Some(Blow::Storm(waves)), rng)
        }
        _ => {
            let waves = waves(rng);
            fault(None, Some(Blow::Storm(waves)), rng)
        }
    }
}

fn mode(rng: &mut Rng) -> Mode {
    let late = Duration::from_millis(rng.u64(300..=2_300));
    let too_late = Duration::from_millis(rng.u64(4_000..=12_000));
    // An answer has some 300 bytes: it takes some 0.3 s, or longer than anybody waits.
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

fn fault(cut: Option<(Whom, Mode)>, blow: Option<Blow>, rng: &mut Rng) -> Fault {
    let after = Duration::from_millis(rng.u64(0..=RENEW));
    let lasts = match blow {
        // Over when the leader is replaced, unless others are cut off too.
        Some(Blow::Storm(_)) => Duration::ZERO,
        Some(Blow::Kill) if cut.is_none() => Duration::ZERO,
        _ => Duration::from_millis(rng.u64(LASTS)),
    };
    Fault { cut, blow, after, lasts }
}

impl Fault {
    /// Whether the leader cannot go on and nobody else is disturbed: another takes over while
    /// the fault lasts.
    pub(super) fn deposes(&self) -> bool {
        let others_are_well = !matches!(self.cut, Some((Whom::Follower | Whom::All, _)))
            && !matches!(self.blow, Some(Blow::Freeze(Whom::Follower | Whom::All)));
        let leader_is_out = matches!(self.cut, Some((Whom::Leader, mode)) if mode.cuts_off())
            || matches!(self.blow, Some(Blow::Kill | Blow::Freeze(Whom::Leader)));
        others_are_well && leader_is_out
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
        write!(f, "after {:?}:", self.after)?;
        if let Some((whom, mode)) = self.cut {
            write!(f, " cut off {whom:?} ({mode})")?;
        }
        if let Some(blow) = &self.blow {
            write!(f, " {blow:?}")?;
        }
        write!(f, " for {:?}", self.lasts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_a_freeze_and_a_partition_and_all_kinds_are_drawn() {
        let mut seen = std::collections::BTreeSet::new();
        let mut failovers = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let plan = Plan::draw(seed, 3..=5, Mix::ByLease);
            assert!((3..=5).contains(&plan.candidates.len()) && plan.faults.len() == 3, "{plan}");
            let freezes = |fault: &Fault| matches!(fault.blow, Some(Blow::Freeze(_)));
            let partitions = |fault: &Fault| fault.cut.is_some() && fault.blow.is_none();
            assert!(plan.faults.iter().any(freezes), "{plan}");
            assert!(plan.faults.iter().any(partitions), "{plan}");
            assert_eq!(plan.to_string(), Plan::draw(seed, 3..=5, Mix::ByLease).to_string());
            let mixed = Plan::draw(seed, 3..=5, Mix::Mixed);
            assert_eq!(mixed.candidates.len(), plan.candidates.len());
            failovers.extend(mixed.candidates.iter().map(|f| f.map(|failover| failover.within)));
            for fault in &plan.faults {
                let lasting = freezes(fault) || partitions(fault);
                assert!(!lasting || fault.lasts > Duration::from_secs(15), "{plan}");
                let mode = fault.cut.map(|(whom, mode)| {
                    let mode = mode.to_string();
                    format!("{whom:?} {}", mode.split(' ').next().unwrap())
                });
                let blow = fault.blow.as_ref().map(|blow| match blow {
                    Blow::Storm(_) => "Storm".to_owned(),
                    other => format!("{other:?}"),
                });
                seen.insert((mode, blow));
            }
        }
        assert_eq!(failovers.len(), 4, "{failovers:?}");
        let expected = [("Leader black", None), ("All drop", None), ("Follower half-open", None)];
        for (mode, blow) in expected {
            assert!(seen.contains(&(Some(mode.to_owned()), blow)), "{mode}: {seen:?}");
        }
        for blow in ["Kill", "Storm", "Freeze(Leader)", "Freeze(All)"] {
            assert!(seen.contains(&(None, Some(blow.to_owned()))), "{blow}: {seen:?}");
        }
    }
}
