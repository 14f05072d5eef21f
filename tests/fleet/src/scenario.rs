//! What happens to a fleet, as a seed chooses it.

use fastrand::Rng;

use crate::network::{Kind, Trouble};
use crate::store::Key;
use crate::world::World;

/// Something that happens to the fleet.
#[derive(Clone, Debug)]
pub enum Action {
    /// A member joins.
    Join,
    /// One joins, and dies so much later.
    JoinAndDie(u64),
    /// One is told to leave.
    Leave(Whom),
    /// One dies.
    Kill(Whom),
    /// That process dies, if it is still in that life.
    KillThat(usize, u32),
    /// The coordinator dies, and another one too.
    KillTwo,
    /// One dies, and begins anew under its name so much later.
    Restart(Whom, u64),
    /// A process that died begins anew.
    Start(usize),
    /// One stands still for so long.
    Freeze(Whom, u64),
    /// One is cut off for so long; or only the answers to it.
    Cut(Whom, u64, bool),
    /// A zone is cut off for so long.
    CutZone(usize, u64),
    /// All processes of a zone die with their machines, and begin anew so much later.
    ZoneDies(usize, Option<u64>),
    /// The account or the network is like this for so long.
    Trouble(Kind, u64),
    /// Another number of shares is asked for.
    Reshare(u32),
    /// A process without shares begins, and dies so much later.
    Whole(u64),
    /// That process dies, also if it is the last one.
    End(usize),
    /// The next plan comes so late, and its leader is dead by then.
    StaleWrite(u64),
}

/// Which process.
#[derive(Clone, Copy, Debug)]
pub enum Whom {
    /// The coordinator.
    Leader,
    /// One of those that are on.
    Any(u64),
    /// One of them that does not coordinate.
    Other(u64),
}

/// Zones that processes are in.
pub const ZONES: usize = 3;
/// So many members stay, whatever happens.
const LEFT: usize = 2;

/// Faults, and when they happen, in true milliseconds until `end`.
#[must_use]
pub fn faults(rng: &mut Rng, end: u64) -> Vec<(u64, Action)> {
    let mut faults = Vec::new();
    for _ in 0..rng.u64(3..=9) {
        let at = rng.u64(8_000..end - 15_000);
        let long = rng.u64(1_000..=45_000);
        let whom = match rng.u64(..3) {
            0 => Whom::Leader,
            _ => Whom::Any(rng.u64(..)),
        };
        let zone = rng.usize(..ZONES);
        let action = match rng.u64(..24) {
            0..=2 => Action::Join,
            3 => Action::JoinAndDie(rng.u64(..3_000)),
            4 | 5 => Action::Leave(whom),
            6 | 7 => Action::Kill(whom),
            8 => Action::KillTwo,
            // At once too, as a service manager does it.
            9 | 20 => Action::Restart(whom, if rng.bool() { long / 2 } else { long / 40 }),
            10 | 11 => Action::Freeze(whom, long),
            12 => Action::Cut(whom, long, rng.bool()),
            13 => Action::CutZone(zone, long),
            14 => Action::ZoneDies(zone, rng.bool().then_some(long)),
            15 => Action::Trouble(Kind::Throttled(rng.u64(100..=950)), long),
            16 => Action::Trouble(Kind::Slow(rng.u64(200..=4_000)), long),
            17 => match rng.bool() {
                true => Action::Trouble(Kind::Down, long / 3),
                false => Action::Trouble(Kind::ReadOnly, long),
            },
            18 => {
                // Somebody who does not hear of it, and comes back.
                if rng.bool() {
                    faults.push((
                        at - rng.u64(..4_000),
                        Action::Freeze(Whom::Other(rng.u64(..)), 45_000),
                    ));
                }
                Action::Reshare(rng.u32(4..=64))
            }
            22 | 23 => Action::Whole(long),
            // Another one coordinates, just after a short trouble of all.
            21 => {
                let (kind, short) =
                    (rng.choice([Kind::Down, Kind::ReadOnly]), rng.u64(1_000..=9_000));
                faults.push((at + short + rng.u64(..1_000), Action::Leave(Whom::Leader)));
                Action::Trouble(kind.unwrap_or(Kind::Down), short)
            }
            _ => {
                faults.push((at + 50, Action::Join));
                Action::StaleWrite(rng.u64(15_000..=40_000))
            }
        };
        faults.push((at, action));
    }
    faults
}

impl World {
    /// Those that are on and stay.
    #[must_use]
    pub fn there(&self) -> Vec<usize> {
        let there = self
            .processes
            .iter()
            .filter(|process| process.is_on && !process.whole && process.leaves.is_none());
        there.map(|process| process.who).collect()
    }

    fn pick(&self, whom: Whom) -> Option<usize> {
        let there = self.there();
        let leader = there.iter().copied().find(|who| self.processes[*who].leads());
        let index = |number: u64, of: &[usize]| {
            of.get(usize::try_from(number % of.len().max(1) as u64).ok()?).copied()
        };
        match whom {
            Whom::Leader => leader,
            Whom::Any(number) => index(number, &there),
            Whom::Other(number) => {
                let others =
                    there.into_iter().filter(|who| Some(*who) != leader).collect::<Vec<_>>();
                index(number, &others)
            }
        }
    }

    /// One that may go without too few being left.
    fn spare(&self, whom: Whom) -> Option<usize> {
        self.pick(whom).filter(|_| self.there().len() > LEFT)
    }

    /// Lets it happen. Whom it happened to.
    pub fn act(&mut self, action: Action) -> Option<usize> {
        let now = self.scene.now;
        match action {
            Action::Join => return Some(self.join_alike()),
            Action::JoinAndDie(after) => {
                let who = self.join_alike();
                let life = self.processes[who].life;
                self.at(now + after, crate::world::Event::Acts(Action::KillThat(who, life)));
                return Some(who);
            }
            Action::Leave(whom) => {
                let who = self.spare(whom)?;
                self.leave(who);
                return Some(who);
            }
            Action::Kill(whom) => {
                let who = self.spare(whom)?;
                self.die(who);
                return Some(who);
            }
            Action::KillThat(who, life) => {
                if self.processes[who].is_on
                    && self.processes[who].life == life
                    && self.there().len() > LEFT
                {
                    self.die(who);
                }
            }
            Action::KillTwo => {
                for whom in [Whom::Other(now), Whom::Leader] {
                    self.act(Action::Kill(whom));
                }
            }
            Action::Restart(whom, after) => {
                let who = self.spare(whom)?;
                self.die(who);
                self.at(now + after, crate::world::Event::Acts(Action::Start(who)));
            }
            Action::Start(who) if !self.processes[who].is_on => self.start(who),
            Action::Start(_) => {}
            Action::Freeze(whom, long) => self.freeze(self.pick(whom)?, long),
            Action::Cut(whom, long, answers) => {
                let who = self.pick(whom)?;
                self.hindered[who] = self.hindered[who].max(now + long);
                let kind = Kind::Cut(vec![who], answers);
                self.network.troubles.push(Trouble { kind, until: now + long });
            }
            Action::CutZone(zone, long) => {
                let those = self.zone(zone);
                for who in &those {
                    self.hindered[*who] = self.hindered[*who].max(now + long);
                }
                let kind = Kind::Cut(those, false);
                self.network.troubles.push(Trouble { kind, until: now + long });
            }
            Action::ZoneDies(zone, after) => {
                for who in self.zone(zone) {
                    if self.there().len() <= LEFT {
                        break;
                    }
                    self.kill(who);
                    if let Some(after) = after {
                        self.at(now + after, crate::world::Event::Acts(Action::Start(who)));
                    }
                }
            }
            Action::Trouble(kind, long) => {
                match kind {
                    Kind::Down | Kind::ReadOnly => self.outages.push((now, now + long)),
                    _ => self.uneven = self.uneven.max(now + long),
                }
                self.network.troubles.push(Trouble { kind, until: now + long })
            }
            Action::Reshare(shares) => {
                if let Some(plan) = self.store.reshare(shares) {
                    self.scene.judge.asked(plan);
                }
            }
            Action::Whole(long) => {
                let who = self.join_whole();
                self.at(now + long, crate::world::Event::Acts(Action::End(who)));
            }
            Action::End(who) if self.processes[who].is_on => self.die(who),
            Action::End(_) => {}
            Action::StaleWrite(late) => self.stale_write = Some(late),
        }
        None
    }

    fn zone(&self, zone: usize) -> Vec<usize> {
        let there = self.there().into_iter();
        there.filter(|who| self.processes[*who].zone == zone).collect()
    }

    /// One that can do as much as another one that was there before.
    fn join_alike(&mut self) -> usize {
        let members = self.processes.iter().filter(|process| !process.whole).collect::<Vec<_>>();
        let like = &members[members.len() / 2].sign;
        let (weight, most, zone) = (like.weight, like.most, self.processes.len() % ZONES);
        self.join(weight, most, zone)
    }

    /// All faults are over.
    pub fn calm(&mut self, way: u64) {
        self.network.troubles.clear();
        (self.network.way, self.network.rough, self.stale_write) = (way, 0, None);
        self.supervisors.straight = true;
        let now = self.scene.now;
        self.uneven = self.uneven.min(now);
        self.hindered.iter_mut().for_each(|until| *until = now.min(*until));
        for who in 0..self.processes.len() {
            self.thaw(who);
            if self.processes[who].whole {
                self.act(Action::End(who));
            }
        }
    }

    /// Each share is held by whom the plan says, and the plan says what it should for those who are there.
    ///
    /// # Errors
    /// What is not so.
    pub fn is_balanced(&self, equal: bool) -> Result<(), String> {
        let plan = self.store.plan().ok_or("there is no plan")?;
        if let Some(next) = plan.next {
            return Err(format!(
                "{next} shares were asked for, and there are {} yet",
                plan.shares.len()
            ));
        }
        for share in plan.all() {
            let worker = self.scene.judge.worker(Key::Share(share), self.scene.now);
            let planned = plan.holder(share).and_then(|name| self.scene.names.get(name).copied());
            if worker != planned || (planned.is_none() && equal) {
                return Err(format!(
                    "{share:?} should be held by {planned:?}, and {worker:?} works for it"
                ));
            }
        }
        let there = self.there();
        if let Some(name) =
            plan.members.iter().find(|name| there.iter().all(|who| self.scene.roll[*who] != **name))
        {
            return Err(format!("{name} is planned, and not there"));
        }
        let held =
            there.iter().map(|who| plan.of(&self.scene.roll[*who]).count()).collect::<Vec<_>>();
        let signs = there.iter().map(|who| &self.processes[*who].sign).collect::<Vec<_>>();
        let weights = signs.iter().map(|sign| u64::from(sign.weight)).sum::<u64>();
        let unlimited = signs.iter().all(|sign| sign.most.is_none());
        for (sign, held) in signs.iter().zip(&held) {
            let part = plan.shares.len() as u64 * u64::from(sign.weight);
            let (held, most) = (*held as u64, sign.most.map_or(u64::MAX, u64::from));
            let fits = (part / weights..=part.div_ceil(weights)).contains(&held);
            if held > most || (unlimited && !fits) {
                return Err(format!(
                    "{} holds {held} of {}: {signs:?}",
                    sign.member,
                    plan.shares.len()
                ));
            }
        }
        Ok(())
    }
}
