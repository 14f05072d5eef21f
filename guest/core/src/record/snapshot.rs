//! One read of an election, without taking part.

use core::time::Duration;

use super::history::Incumbent;
use crate::record::metadata::Record;
use crate::schedule::agenda::{Due, Task};
use crate::schedule::turns::Turns;
use crate::step::clocks::Timestamp;
use crate::step::problem::Problem;
use crate::step::settings::Settings;
use chrono::{DateTime, Utc};
use tenure_azure::answer::{self, Answer, Class};
use tenure_azure::operation::Operation;
use tenure_base::prelude::*;

/// State of the lease on the election's blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// There is no blob yet.
    Absent,
    /// The blob was never leased, or its lease was released.
    Available,
    /// The lease is held.
    Leased,
    /// The lease is held without an end, by another program.
    Infinite,
    /// The lease has expired.
    Expired,
    /// The lease was broken, but is still held for a while.
    Breaking,
    /// The lease was broken and is over.
    Broken,
}

impl LeaseState {
    /// Returns the state's name, as the WIT package spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Available => "available",
            Self::Leased => "leased",
            Self::Infinite => "infinite",
            Self::Expired => "expired",
            Self::Breaking => "breaking",
            Self::Broken => "broken",
        }
    }
}

/// The result of one read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The lease.
    pub lease: LeaseState,
    /// The newest leader on record.
    pub incumbent: Option<Incumbent>,
    /// The turns on record and the next turn, as far as the record alone shows them.
    pub turns: Turns,
    /// Time by which the last claimed slot lies in the future, if no slot can be claimed because of
    /// that.
    pub ahead: Option<Duration>,
    /// The former leaders, the last one first.
    pub history: Vec<Incumbent>,
    /// Number of terms that were won.
    pub changes: u64,
    /// Name of the candidate that the leader wants to hand over to.
    pub successor: Option<String>,
    /// Failover promise of the newest leader: the time after its newest beat at which it has
    /// stopped.
    pub promise: Option<Duration>,
    /// A problem that prevents every candidate with these settings from leading, although the read
    /// succeeded.
    pub problem: Option<Problem>,
    /// Time of the service's answer.
    pub answered_at: Timestamp,
}

impl Snapshot {
    /// Returns the leader: the newest one on record, while a candidate holds the lease.
    #[must_use]
    pub fn leader(&self) -> Option<&Incumbent> {
        let is_held = matches!(self.lease, LeaseState::Leased | LeaseState::Breaking);
        self.incumbent.as_ref().filter(|_| is_held)
    }
}

/// The result of one read, and its meaning for a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The result of the read.
    pub snapshot: Snapshot,
    /// Time at which a leader with these settings would run the next turn. None if there is none,
    /// or if it would only be a further attempt at a turn that seems to run.
    pub next_turn: Option<Timestamp>,
}

impl Inspection {
    /// Interprets the answer to a read of the blob. `wall` is used if the answer has no date.
    ///
    /// # Errors
    /// The blob could not be read, or is not an election.
    pub fn from_answer(
        answer: &Answer,
        settings: &Settings,
        wall: DateTime<Utc>,
    ) -> Result<Self, Problem> {
        let answered_at = Timestamp::from_date(answer.date.unwrap_or(wall));
        let (lease, record) = match (answer.class, &answer.properties) {
            (Class::Done, Some(properties)) => {
                let validated = Record::validate(&settings.election, properties, Some(answered_at))
                    .map_err(Problem::from_unusable)?;
                (lease_state(properties.lease), validated.record)
            }
            (Class::MissingBlob | Class::MissingContainer, _) => (LeaseState::Absent, None),
            _ => {
                return Err(Problem::from_answer(
                    answer,
                    &Operation::Read { lease: None },
                    settings,
                ));
            }
        };
        let is_held = matches!(lease, LeaseState::Leased | LeaseState::Breaking);
        let is_running = record.as_ref().is_some_and(|record| is_held && !record.is_ended());
        let turns = record
            .as_ref()
            .map(|record| Turns::from_record(record, is_running, answered_at, &settings.agenda));
        let problem = match lease {
            LeaseState::Infinite => Some(Problem::infinite_lease(settings)),
            LeaseState::Absent if answer.class == Class::MissingContainer => {
                Problem::container_missing(settings)
            }
            _ => None,
        };
        let next_turn =
            record.as_ref().and_then(|record| match settings.agenda.due(answered_at, record) {
                Due::Now(Task { attempt: 2.., .. }) if is_running => None,
                _ => settings.agenda.next(answered_at, record),
            });
        let snapshot = Snapshot {
            lease,
            incumbent: record.as_ref().map(Record::incumbent),
            turns: turns.unwrap_or_default(),
            ahead: record
                .as_ref()
                .and_then(|record| settings.agenda.slot_ahead(answered_at, record)),
            history: record.as_ref().map(Record::earlier_leaders).unwrap_or_default(),
            changes: record.as_ref().map_or(0, |record| record.changes),
            successor: record.as_ref().and_then(|record| record.successor.clone()),
            promise: record.and_then(|record| record.beat).map(|beat| beat.promise),
            problem,
            answered_at,
        };
        Ok(Self { snapshot, next_turn })
    }
}

/// Interprets the answer to a break, and returns the remaining time of the lease.
///
/// # Errors
/// The lease was not broken. A free lease counts as broken.
pub fn break_remaining(
    answer: &Answer,
    operation: &Operation,
    settings: &Settings,
) -> Result<Duration, Problem> {
    match answer.class {
        Class::Done => Ok(Duration::from_secs(answer.lease_time.unwrap_or(0).into())),
        Class::Conflict | Class::MissingBlob | Class::MissingContainer => Ok(Duration::ZERO),
        _ => Err(Problem::from_answer(answer, operation, settings)),
    }
}

fn lease_state(lease: answer::LeaseState) -> LeaseState {
    match lease {
        answer::LeaseState::Available => LeaseState::Available,
        answer::LeaseState::Leased => LeaseState::Leased,
        answer::LeaseState::Infinite => LeaseState::Infinite,
        answer::LeaseState::Expired => LeaseState::Expired,
        answer::LeaseState::Breaking => LeaseState::Breaking,
        answer::LeaseState::Broken => LeaseState::Broken,
    }
}
