//! Faults that last for minutes.
//!
//! Examples are slow round trips, one kind of request that fails, a service whose clock steps,
//! foreign side blobs, and invalid settings.

use std::sync::Arc;

use super::fault::{Fault, Step};
use super::history::{CandidateId, HistoryEvent};
use super::hostile;
use super::plan::{Latency, Trait};
use super::request_outcome::{self, ConnectionError, Reply, RequestOutcome};
use super::world::{Millis, State, World};

/// Shortest and longest duration of a condition.
const DURATION_RANGE: (Millis, Millis) = (20_000, 180_000);

/// Interval at which a candidate with invalid settings reads them again.
pub const SETTINGS_RETRY_INTERVAL: Millis = 60_000;

/// Lifetime of foreign announcements, and the interval at which they are rewritten.
const ANNOUNCEMENT_LIFETIME: Millis = 10_000;
const REWRITE_INTERVAL: Millis = 4_000;

/// A fault that lasts.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// Kind of fault.
    fault: Fault,
    /// Affected machine; `None` for all.
    machine: Option<usize>,
    /// End of the fault.
    until: Millis,
    /// Failure mode of requests, or their latency.
    failure: FailureMode,
}

/// Failure mode of requests.
#[derive(Clone, Copy, Debug)]
enum FailureMode {
    Refused,
    Unavailable,
    Unanswered,
    Slow(Latency),
}

/// Contents of a secret file that was replaced wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadSecret {
    /// The file is missing.
    Missing,
    /// The file is empty.
    Empty,
    /// The contents are not text.
    NotText,
    /// The contents are not a connection string.
    Invalid,
    /// The contents are the connection string of another account.
    OtherAccount,
}

/// Broken settings of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokenSettings {
    /// Contents of the secret file, if broken.
    pub secret: Option<BadSecret>,
    /// True if a variable has an invalid value.
    pub variable: bool,
}

/// Starts a condition; `candidate` is its victim, or one of them.
pub fn start(world: &Arc<World>, fault: Fault, candidate: CandidateId, step: Step) {
    let (now, calm) = (world.now(), world.plan.calm);
    let mut guard = world.state();
    let state = &mut *guard;
    let machine = state.processes[candidate].machine;
    // The effect must end before the calm.
    let remaining = match fault {
        Fault::SettingsSpoilt | Fault::SecretSpoilt => {
            calm.saturating_sub(now + SETTINGS_RETRY_INTERVAL)
        }
        Fault::HostileSideBlobs => calm.saturating_sub(now + ANNOUNCEMENT_LIFETIME),
        _ => calm.saturating_sub(now),
    };
    let until = now + state.faults.between(DURATION_RANGE.0, DURATION_RANGE.1).min(remaining);
    if until <= now {
        return;
    }
    let affects_one = match fault {
        Fault::SettingsSpoilt | Fault::SecretSpoilt => true,
        Fault::ClockSteps | Fault::DatesStand | Fault::HostileSideBlobs => false,
        _ => !state.faults.once_in(3),
    };
    let victim = affects_one.then_some(candidate);
    let effect_until = match fault {
        Fault::SettingsSpoilt | Fault::SecretSpoilt => until + SETTINGS_RETRY_INTERVAL,
        Fault::HostileSideBlobs => until + ANNOUNCEMENT_LIFETIME,
        _ => until,
    };
    match fault {
        Fault::ClockSteps => {
            let seconds = state.faults.pick(&[10, 120, 600]);
            let size = i64::try_from(1_000 * state.faults.between(1, seconds)).unwrap_or(0);
            let offset = if state.faults.once_in(2) { size } else { -size };
            state.service.step_clock(offset);
            state.history.clock_steps.push((now, offset));
            return state.record_fault(now, fault, step, None, now);
        }
        Fault::DatesStand => {
            state.service.freeze_dates(now, until);
            state.history.frozen_dates.push((now, until));
        }
        Fault::SettingsSpoilt => {
            state.broken_settings[machine].variable = true;
            state.add_condition(fault, machine, effect_until);
        }
        Fault::SecretSpoilt => {
            let bad_secrets = [
                BadSecret::Missing,
                BadSecret::Empty,
                BadSecret::NotText,
                BadSecret::Invalid,
                BadSecret::OtherAccount,
                BadSecret::OtherAccount,
            ];
            state.broken_settings[machine].secret = Some(state.faults.pick(&bad_secrets));
            state.add_condition(fault, machine, effect_until);
        }
        Fault::HostileSideBlobs => {}
        _ => {
            let timeout = world.plan.machines.iter().map(|m| m.periods().timeout).min();
            let max_latency = timeout.unwrap_or(0) / 2 - 30;
            let max_latency = state.faults.between(max_latency / 2, max_latency);
            let failure = match fault {
                Fault::SlowTrips => {
                    FailureMode::Slow(Latency { least: max_latency * 9 / 10, most: max_latency })
                }
                _ => state.faults.pick(&[
                    FailureMode::Refused,
                    FailureMode::Unavailable,
                    FailureMode::Unanswered,
                ]),
            };
            let machine = affects_one.then_some(machine);
            state.conditions.push(Condition { fault, machine, until, failure });
        }
    }
    state.note(now, HistoryEvent::FaultInjected(fault, victim, effect_until));
    drop(guard);
    match fault {
        Fault::SettingsSpoilt | Fault::SecretSpoilt => {
            let world = world.clone();
            tokio::spawn(async move {
                world.wait_until(until).await;
                let broken_settings = &mut world.state().broken_settings[machine];
                match fault {
                    Fault::SecretSpoilt => broken_settings.secret = None,
                    _ => broken_settings.variable = false,
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
                state.history.foreign_announcements.extend(hostile::announced_lease(bits, term));
            }
        }
        if now + REWRITE_INTERVAL >= until {
            return;
        }
        world.wait_until(now + REWRITE_INTERVAL).await;
    }
}

impl State {
    /// Notes the conditions of a machine when a process starts on it.
    pub fn note_faults_at_start(&mut self, now: Millis, candidate: CandidateId) {
        let machine = self.processes[candidate].machine;
        let lasting =
            self.conditions.iter().filter(|c| c.machine == Some(machine) && now < c.until);
        let lasting: Vec<_> = lasting.map(|c| (c.fault, c.until)).collect();
        for (fault, until) in lasting {
            self.note(now, HistoryEvent::FaultInjected(fault, Some(candidate), until));
        }
    }

    /// Adds a condition that does not affect requests.
    fn add_condition(&mut self, fault: Fault, machine: usize, until: Millis) {
        let (machine, failure) = (Some(machine), FailureMode::Unanswered);
        self.conditions.push(Condition { fault, machine, until, failure });
    }

    fn condition(
        &self,
        candidate: CandidateId,
        now: Millis,
        matches: impl Fn(Fault) -> bool,
    ) -> Option<Condition> {
        let machine = self.processes[candidate].machine;
        let applies_to_machine =
            |condition: &&Condition| condition.machine.is_none_or(|affected| affected == machine);
        let is_active = |condition: &&Condition| now < condition.until && matches(condition.fault);
        self.conditions.iter().filter(applies_to_machine).find(is_active).copied()
    }

    /// Returns the current latency of a request.
    pub fn latency(
        &mut self,
        world: &World,
        candidate: CandidateId,
        step: Step,
        now: Millis,
    ) -> Latency {
        match self.condition(candidate, now, |fault| fault == Fault::SlowTrips) {
            Some(Condition { failure: FailureMode::Slow(latency), .. }) => {
                self.coverage.add(Fault::SlowTrips, step);
                latency
            }
            _ => {
                if world.plan.traits.has(Trait::SlowService) {
                    self.coverage.add_trait(Trait::SlowService);
                }
                world.plan.latency
            }
        }
    }

    /// Returns the outcome of a request whose kind fails for now.
    pub fn fail_request(
        &mut self,
        candidate: CandidateId,
        step: Step,
        now: Millis,
        latency: Latency,
    ) -> Option<RequestOutcome> {
        let Condition { fault, failure, .. } =
            self.condition(candidate, now, |fault| fault.affects(step))?;
        self.record_fault(now, fault, step, Some(candidate), now);
        let answered_at = now + self.network.between(2 * latency.least, 2 * latency.most);
        let date = self.service.date(now);
        let reply = match failure {
            FailureMode::Refused => {
                request_outcome::refusal(answered_at, 403, "AuthorizationPermissionMismatch", &date)
            }
            FailureMode::Unavailable => {
                request_outcome::refusal(answered_at, 503, "ServerBusy", &date)
            }
            FailureMode::Unanswered | FailureMode::Slow(_) => Reply::None,
        };
        Some(RequestOutcome { arrives_at: None, copy_arrives_at: None, reply })
    }

    /// Returns the failure of the identity endpoint, if it fails for now.
    pub fn token_failure(
        &mut self,
        candidate: CandidateId,
        now: Millis,
    ) -> Option<Result<u16, Option<ConnectionError>>> {
        let condition = self.condition(candidate, now, |fault| fault == Fault::TokensFail)?;
        self.coverage.add(Fault::TokensFail, self.processes[candidate].step);
        Some(match condition.failure {
            FailureMode::Refused => Ok(400),
            FailureMode::Unavailable => Ok(503),
            FailureMode::Unanswered | FailureMode::Slow(_) => Err(None),
        })
    }
}
