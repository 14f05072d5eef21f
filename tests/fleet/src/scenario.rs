//! Events of a fleet, chosen by a seed.

use fastrand::Rng;

use crate::network::{ActiveFault, Fault};
use crate::store::Key;
use crate::world::World;

/// Event of the fleet.
#[derive(Clone, Debug)]
pub enum Action {
    /// A member joins.
    Join,
    /// A member joins, and dies after this time.
    JoinAndDie(u64),
    /// A member receives a request to leave.
    Leave(Target),
    /// A member dies.
    Kill(Target),
    /// This process dies, if it is still in that life.
    KillLife(usize, u32),
    /// The coordinator and another member die.
    KillCoordinatorAndOther,
    /// A member dies, and restarts under its name after this time.
    Restart(Target, u64),
    /// A dead process restarts.
    Start(usize),
    /// A member freezes for this time.
    Freeze(Target, u64),
    /// A member is cut off for this time; or only its replies are lost.
    Cut(Target, u64, bool),
    /// A zone is cut off for this time.
    CutZone(usize, u64),
    /// All processes of a zone die with their machines, and restart after this time.
    ZoneDies(usize, Option<u64>),
    /// The account or the network has this fault for this time.
    Trouble(Fault, u64),
    /// An operator requests another number of shares.
    Reshare(u32),
    /// A process without shares starts, and dies after this time.
    JoinUnsharded(u64),
    /// This process dies, even if it is the last one.
    KillProcess(usize),
    /// The next plan arrives this late, and its leader is dead by then.
    StaleWrite(u64),
}

/// Target of an event.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// The coordinator.
    Leader,
    /// A random running member.
    Any(u64),
    /// A random running member that does not coordinate.
    Other(u64),
}

/// Number of zones.
pub const ZONES: usize = 3;
/// Minimum number of members.
const MIN_MEMBERS: usize = 2;

/// Returns faults and their times, in true milliseconds until `end`.
#[must_use]
pub fn faults(rng: &mut Rng, end: u64) -> Vec<(u64, Action)> {
    let mut faults = Vec::new();
    for _ in 0..rng.u64(3..=9) {
        let at = rng.u64(8_000..end - 15_000);
        let duration = rng.u64(1_000..=45_000);
        let target = match rng.u64(..3) {
            0 => Target::Leader,
            _ => Target::Any(rng.u64(..)),
        };
        let zone = rng.usize(..ZONES);
        let action = match rng.u64(..24) {
            0..=2 => Action::Join,
            3 => Action::JoinAndDie(rng.u64(..3_000)),
            4 | 5 => Action::Leave(target),
            6 | 7 => Action::Kill(target),
            8 => Action::KillCoordinatorAndOther,
            // Restarts can be immediate, as by a service manager.
            9 | 20 => {
                Action::Restart(target, if rng.bool() { duration / 2 } else { duration / 40 })
            }
            10 | 11 => Action::Freeze(target, duration),
            12 => Action::Cut(target, duration, rng.bool()),
            13 => Action::CutZone(zone, duration),
            14 => Action::ZoneDies(zone, rng.bool().then_some(duration)),
            15 => Action::Trouble(Fault::Throttled(rng.u64(100..=950)), duration),
            16 => Action::Trouble(Fault::Slow(rng.u64(200..=4_000)), duration),
            17 => match rng.bool() {
                true => Action::Trouble(Fault::Down, duration / 3),
                false => Action::Trouble(Fault::ReadOnly, duration),
            },
            18 => {
                // A member that misses the change, and returns.
                if rng.bool() {
                    faults.push((
                        at - rng.u64(..4_000),
                        Action::Freeze(Target::Other(rng.u64(..)), 45_000),
                    ));
                }
                Action::Reshare(rng.u32(4..=64))
            }
            22 | 23 => Action::JoinUnsharded(duration),
            // A new coordinator takes over, just after a short fault of all.
            21 => {
                let (kind, short_duration) =
                    (rng.choice([Fault::Down, Fault::ReadOnly]), rng.u64(1_000..=9_000));
                faults
                    .push((at + short_duration + rng.u64(..1_000), Action::Leave(Target::Leader)));
                Action::Trouble(kind.unwrap_or(Fault::Down), short_duration)
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
    /// Returns the running members that stay.
    #[must_use]
    pub fn members(&self) -> Vec<usize> {
        let members = self.processes.iter().filter(|process| {
            process.is_running && !process.unsharded && process.leaving_since.is_none()
        });
        members.map(|process| process.index).collect()
    }

    fn select(&self, target: Target) -> Option<usize> {
        let members = self.members();
        let leader = members.iter().copied().find(|index| self.processes[*index].is_coordinator());
        let pick_nth = |number: u64, indexes: &[usize]| {
            indexes.get(usize::try_from(number % indexes.len().max(1) as u64).ok()?).copied()
        };
        match target {
            Target::Leader => leader,
            Target::Any(number) => pick_nth(number, &members),
            Target::Other(number) => {
                let others =
                    members.into_iter().filter(|index| Some(*index) != leader).collect::<Vec<_>>();
                pick_nth(number, &others)
            }
        }
    }

    /// Returns a member that may go without leaving too few.
    fn select_expendable(&self, target: Target) -> Option<usize> {
        self.select(target).filter(|_| self.members().len() > MIN_MEMBERS)
    }

    /// Applies an event, and returns the process that it affected.
    pub fn apply(&mut self, action: Action) -> Option<usize> {
        let now = self.scene.now;
        match action {
            Action::Join => return Some(self.join_similar()),
            Action::JoinAndDie(delay) => {
                let index = self.join_similar();
                let life = self.processes[index].life;
                self.schedule(now + delay, crate::world::Event::Act(Action::KillLife(index, life)));
                return Some(index);
            }
            Action::Leave(target) => {
                let index = self.select_expendable(target)?;
                self.leave(index);
                return Some(index);
            }
            Action::Kill(target) => {
                let index = self.select_expendable(target)?;
                self.kill_process(index);
                return Some(index);
            }
            Action::KillLife(index, life) => {
                if self.processes[index].is_running
                    && self.processes[index].life == life
                    && self.members().len() > MIN_MEMBERS
                {
                    self.kill_process(index);
                }
            }
            Action::KillCoordinatorAndOther => {
                for target in [Target::Other(now), Target::Leader] {
                    self.apply(Action::Kill(target));
                }
            }
            Action::Restart(target, delay) => {
                let index = self.select_expendable(target)?;
                self.kill_process(index);
                self.schedule(now + delay, crate::world::Event::Act(Action::Start(index)));
            }
            Action::Start(index) if !self.processes[index].is_running => self.start(index),
            Action::Start(_) => {}
            Action::Freeze(target, duration) => self.freeze(self.select(target)?, duration),
            Action::Cut(target, duration, answers) => {
                let index = self.select(target)?;
                self.hindered_until[index] = self.hindered_until[index].max(now + duration);
                let kind = Fault::Cut(vec![index], answers);
                self.network.active_faults.push(ActiveFault { fault: kind, until: now + duration });
            }
            Action::CutZone(zone, duration) => {
                let processes = self.members_in_zone(zone);
                for index in &processes {
                    self.hindered_until[*index] = self.hindered_until[*index].max(now + duration);
                }
                let kind = Fault::Cut(processes, false);
                self.network.active_faults.push(ActiveFault { fault: kind, until: now + duration });
            }
            Action::ZoneDies(zone, delay) => {
                for index in self.members_in_zone(zone) {
                    if self.members().len() <= MIN_MEMBERS {
                        break;
                    }
                    self.kill(index);
                    if let Some(delay) = delay {
                        self.schedule(now + delay, crate::world::Event::Act(Action::Start(index)));
                    }
                }
            }
            Action::Trouble(kind, duration) => {
                match kind {
                    Fault::Down | Fault::ReadOnly => self.outages.push((now, now + duration)),
                    _ => self.uneven_until = self.uneven_until.max(now + duration),
                }
                self.network.active_faults.push(ActiveFault { fault: kind, until: now + duration })
            }
            Action::Reshare(shares) => {
                if let Some(plan) = self.store.reshare(shares) {
                    self.scene.checker.set_requested_plan(plan);
                }
            }
            Action::JoinUnsharded(duration) => {
                let index = self.join_unsharded();
                self.schedule(now + duration, crate::world::Event::Act(Action::KillProcess(index)));
            }
            Action::KillProcess(index) if self.processes[index].is_running => {
                self.kill_process(index)
            }
            Action::KillProcess(_) => {}
            Action::StaleWrite(delay) => self.next_plan_delay = Some(delay),
        }
        None
    }

    fn members_in_zone(&self, zone: usize) -> Vec<usize> {
        let members = self.members().into_iter();
        members.filter(|index| self.processes[*index].zone == zone).collect()
    }

    /// Adds a member with the same capacity as an existing one.
    fn join_similar(&mut self) -> usize {
        let members =
            self.processes.iter().filter(|process| !process.unsharded).collect::<Vec<_>>();
        let template = &members[members.len() / 2].sign;
        let (weight, max_shares, zone) =
            (template.weight, template.max_shares, self.processes.len() % ZONES);
        self.join(weight, max_shares, zone)
    }

    /// Ends all faults.
    pub fn end_faults(&mut self, max_latency: u64) {
        self.network.active_faults.clear();
        (self.network.max_latency, self.network.fault_interval, self.next_plan_delay) =
            (max_latency, 0, None);
        self.supervisors.reliable = true;
        let now = self.scene.now;
        self.uneven_until = self.uneven_until.min(now);
        self.hindered_until.iter_mut().for_each(|until| *until = now.min(*until));
        for index in 0..self.processes.len() {
            self.thaw(index);
            if self.processes[index].unsharded {
                self.apply(Action::KillProcess(index));
            }
        }
    }

    /// Checks that each share has its planned holder, and that the plan fits the present members.
    ///
    /// # Errors
    /// Returns the difference as text.
    pub fn check_balanced(&self, equal_weights: bool) -> Result<(), String> {
        let plan = self.store.plan().ok_or("there is no plan")?;
        if let Some(next) = plan.next {
            return Err(format!(
                "{next} shares were requested, but there are still {}",
                plan.shares.len()
            ));
        }
        for share in plan.all_shares() {
            let worker = self.scene.checker.worker(Key::Share(share), self.scene.now);
            let planned =
                plan.holder(share).and_then(|name| self.scene.indexes_by_name.get(name).copied());
            if worker != planned || (planned.is_none() && equal_weights) {
                return Err(format!(
                    "{share:?} should be held by {planned:?}, and {worker:?} works for it"
                ));
            }
        }
        let members = self.members();
        if let Some(name) = plan
            .members
            .iter()
            .find(|name| members.iter().all(|index| self.scene.names_by_index[*index] != **name))
        {
            return Err(format!("{name} is planned, and not there"));
        }
        let share_counts = members
            .iter()
            .map(|index| plan.shares_of(&self.scene.names_by_index[*index]).count())
            .collect::<Vec<_>>();
        let signs = members.iter().map(|index| &self.processes[*index].sign).collect::<Vec<_>>();
        let total_weight = signs.iter().map(|sign| u64::from(sign.weight)).sum::<u64>();
        let unlimited = signs.iter().all(|sign| sign.max_shares.is_none());
        for (sign, count) in signs.iter().zip(&share_counts) {
            let weighted_shares = plan.shares.len() as u64 * u64::from(sign.weight);
            let (count, max_shares) = (*count as u64, sign.max_shares.map_or(u64::MAX, u64::from));
            let fits = (weighted_shares / total_weight..=weighted_shares.div_ceil(total_weight))
                .contains(&count);
            if count > max_shares || (unlimited && !fits) {
                return Err(format!(
                    "{} holds {count} of {}: {signs:?}",
                    sign.member,
                    plan.shares.len()
                ));
            }
        }
        Ok(())
    }
}
