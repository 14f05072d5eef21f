//! What lasts for minutes: slow round trips, one kind of request that fails, a service whose clock
//! steps, side blobs that strangers write, settings that cannot be used.

use std::sync::Arc;

use super::fate::{self, Broken, Fate, Reply};
use super::fault::{Fault, Step};
use super::history::{What, Who};
use super::hostile;
use super::plan::{Latency, Trait};
use super::world::{Millis, State, World};

/// The shortest and the longest that anything lasts.
const LASTS: (Millis, Millis) = (20_000, 180_000);

/// With settings that cannot be used, a candidate asks again after so long.
pub const SETTINGS_PAUSE: Millis = 60_000;

/// What strangers wrote beside the election counts for so long, and they write it again so often.
const ANNOUNCEMENT: Millis = 10_000;
const AGAIN: Millis = 4_000;

/// Something that lasts.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// What.
    fault: Fault,
    /// On which machine; none: on all.
    machine: Option<usize>,
    /// Until when.
    until: Millis,
    /// How requests fail, or how long they are on their way.
    how: How,
}

/// How requests fare.
#[derive(Clone, Copy, Debug)]
enum How {
    Refused,
    Unavailable,
    Unanswered,
    Slow(Latency),
}

/// What a secret file holds that was replaced wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadSecret {
    /// Nothing: there is no file.
    Missing,
    /// Nothing.
    Empty,
    /// No text.
    NoText,
    /// No connection string.
    Nonsense,
    /// The connection string of another account.
    OtherAccount,
}

/// What the settings of a machine come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spoilt {
    /// The secret file.
    pub secret: Option<BadSecret>,
    /// A variable that nobody understands.
    pub variable: bool,
}

/// Begins; `who` is its victim, or one of them.
pub fn begin(world: &Arc<World>, fault: Fault, who: Who, step: Step) {
    let (now, calm) = (world.now(), world.plan.calm);
    let mut guard = world.state();
    let state = &mut *guard;
    let machine = state.processes[who].machine;
    // Its effect is over in the calm, too.
    let rest = match fault {
        Fault::SettingsSpoilt | Fault::SecretSpoilt => calm.saturating_sub(now + SETTINGS_PAUSE),
        Fault::HostileSideBlobs => calm.saturating_sub(now + ANNOUNCEMENT),
        _ => calm.saturating_sub(now),
    };
    let until = now + state.faults.between(LASTS.0, LASTS.1).min(rest);
    if until <= now {
        return;
    }
    let of_one = match fault {
        Fault::SettingsSpoilt | Fault::SecretSpoilt => true,
        Fault::ClockSteps | Fault::DatesStand | Fault::HostileSideBlobs => false,
        _ => !state.faults.once_in(3),
    };
    let victim = of_one.then_some(who);
    let effect = match fault {
        Fault::SettingsSpoilt | Fault::SecretSpoilt => until + SETTINGS_PAUSE,
        Fault::HostileSideBlobs => until + ANNOUNCEMENT,
        _ => until,
    };
    match fault {
        Fault::ClockSteps => {
            let seconds = state.faults.pick(&[10, 120, 600]);
            let size = i64::try_from(1_000 * state.faults.between(1, seconds)).unwrap_or(0);
            let by = if state.faults.once_in(2) { size } else { -size };
            state.service.step_clock(by);
            state.history.steps.push((now, by));
            return state.struck(now, fault, step, None, now);
        }
        Fault::DatesStand => {
            state.service.dates_stand(now, until);
            state.history.stood.push((now, until));
        }
        Fault::SettingsSpoilt => {
            state.spoilt[machine].variable = true;
            state.lasts(fault, machine, effect);
        }
        Fault::SecretSpoilt => {
            let ways = [
                BadSecret::Missing,
                BadSecret::Empty,
                BadSecret::NoText,
                BadSecret::Nonsense,
                BadSecret::OtherAccount,
                BadSecret::OtherAccount,
            ];
            state.spoilt[machine].secret = Some(state.faults.pick(&ways));
            state.lasts(fault, machine, effect);
        }
        Fault::HostileSideBlobs => {}
        _ => {
            let timeout = world.plan.machines.iter().map(|m| m.periods().timeout).min();
            let most = timeout.unwrap_or(0) / 2 - 30;
            let most = state.faults.between(most / 2, most);
            let how = match fault {
                Fault::SlowTrips => How::Slow(Latency { least: most * 9 / 10, most }),
                _ => state.faults.pick(&[How::Refused, How::Unavailable, How::Unanswered]),
            };
            let machine = of_one.then_some(machine);
            state.conditions.push(Condition { fault, machine, until, how });
        }
    }
    state.note(now, What::Struck(fault, victim, effect));
    drop(guard);
    match fault {
        Fault::SettingsSpoilt | Fault::SecretSpoilt => {
            let world = world.clone();
            tokio::spawn(async move {
                world.until(until).await;
                let spoilt = &mut world.state().spoilt[machine];
                match fault {
                    Fault::SecretSpoilt => spoilt.secret = None,
                    _ => spoilt.variable = false,
                }
            });
        }
        Fault::HostileSideBlobs => {
            tokio::spawn(write_side_blobs(world.clone(), until));
        }
        _ => {}
    }
}

async fn write_side_blobs(world: Arc<World>, until: Millis) {
    loop {
        let now = world.now();
        {
            let mut state = world.state();
            let (bits, term) = (state.faults.bits(), state.term);
            let name = state.faults.between(0, world.plan.machines.len() as u64 - 1);
            if state.service.write_side_blob(now, bits, &format!("m{name}"), term) {
                state.coverage.add(Fault::HostileSideBlobs, Step::SideBlob);
                state.history.planted.extend(hostile::planted(bits, term));
            }
        }
        if now + AGAIN >= until {
            return;
        }
        world.until(now + AGAIN).await;
    }
}

impl State {
    /// A process begins on a machine on which something lasts.
    pub fn spoils_the_start(&mut self, now: Millis, who: Who) {
        let machine = self.processes[who].machine;
        let lasting =
            self.conditions.iter().filter(|c| c.machine == Some(machine) && now < c.until);
        let lasting: Vec<_> = lasting.map(|c| (c.fault, c.until)).collect();
        for (fault, until) in lasting {
            self.note(now, What::Struck(fault, Some(who), until));
        }
    }

    /// What befalls a machine otherwise than by its requests.
    fn lasts(&mut self, fault: Fault, machine: usize, until: Millis) {
        let (machine, how) = (Some(machine), How::Unanswered);
        self.conditions.push(Condition { fault, machine, until, how });
    }

    fn condition(&self, who: Who, now: Millis, fits: impl Fn(Fault) -> bool) -> Option<Condition> {
        let machine = self.processes[who].machine;
        let here = |condition: &&Condition| condition.machine.is_none_or(|one| one == machine);
        let lasts = |condition: &&Condition| now < condition.until && fits(condition.fault);
        self.conditions.iter().filter(here).find(lasts).copied()
    }

    /// The way of a request now.
    pub fn latency(&mut self, world: &World, who: Who, step: Step, now: Millis) -> Latency {
        match self.condition(who, now, |fault| fault == Fault::SlowTrips) {
            Some(Condition { how: How::Slow(latency), .. }) => {
                self.coverage.add(Fault::SlowTrips, step);
                latency
            }
            _ => {
                if world.plan.traits.has(Trait::SlowService) {
                    self.coverage.saw(Trait::SlowService);
                }
                world.plan.latency
            }
        }
    }

    /// What becomes of a request whose kind fails for now.
    pub fn fails(&mut self, who: Who, step: Step, now: Millis, latency: Latency) -> Option<Fate> {
        let Condition { fault, how, .. } = self.condition(who, now, |fault| fault.fails(step))?;
        self.struck(now, fault, step, Some(who), now);
        let answered = now + self.network.between(2 * latency.least, 2 * latency.most);
        let date = self.service.date(now);
        let reply = match how {
            How::Refused => fate::refusal(answered, 403, "AuthorizationPermissionMismatch", &date),
            How::Unavailable => fate::refusal(answered, 503, "ServerBusy", &date),
            How::Unanswered | How::Slow(_) => Reply::None,
        };
        Some(Fate { arrives: None, copy: None, reply })
    }

    /// Whether the identity endpoint fails for now, and how.
    pub fn no_token(&mut self, who: Who, now: Millis) -> Option<Result<u16, Option<Broken>>> {
        let condition = self.condition(who, now, |fault| fault == Fault::TokensFail)?;
        self.coverage.add(Fault::TokensFail, self.processes[who].step);
        Some(match condition.how {
            How::Refused => Ok(400),
            How::Unavailable => Ok(503),
            How::Unanswered | How::Slow(_) => Err(None),
        })
    }
}
