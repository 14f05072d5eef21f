//! Past turns of an election and its next one, according to the record, with the reader's own rule
//! for missed slots.

use super::agenda::Agenda;
use crate::record::metadata::{
    Ended, FailureDetail, Finished, LastSlot, MissedSlots, Outcome, Record,
};
use crate::schedule::slots::Schedule;
use crate::step::service_clock::Timestamp;
use tenure_base::prelude::*;

/// The turns on a record at some instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// Description of the newest leader's schedule.
    pub schedule: Option<String>,
    /// The newest slot that was claimed for a turn.
    pub last_slot: Option<LastSlot>,
    /// The newest turn whose end was recorded.
    pub finished: Option<Finished>,
    /// The newest turn for a trigger.
    pub triggered: Option<Triggered>,
    /// The newest turn that succeeded.
    pub last_success: Option<Ended>,
    /// The newest turn that did not succeed.
    pub last_failure: Option<Ended>,
    /// The candidate and the reason of that failure.
    pub failure_detail: Option<FailureDetail>,
    /// The newest slots that had no turn.
    pub missed: Option<MissedSlots>,
    /// The next turn of the schedule.
    pub next: Option<NextTurn>,
}

/// The newest turn that ran for a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Triggered {
    /// The id of the trigger.
    pub id: String,
    /// Time of the request.
    pub slot: Timestamp,
    /// Number of attempts.
    pub attempt: u32,
    /// Its outcome. None if not on record yet.
    pub outcome: Option<Outcome>,
}

/// The next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextTurn {
    /// Its slot.
    pub slot: Timestamp,
    /// Due time. If it lies in the past, the turn runs as soon as a candidate can run it.
    pub at: Timestamp,
}

impl Turns {
    /// Returns the turns of `record` at `now`, while a turn `is_running` or not. `agenda` defines
    /// the rule for missed slots.
    #[inline(never)]
    pub(crate) fn from_record(
        record: &Record,
        is_running: bool,
        now: Timestamp,
        agenda: &Agenda,
    ) -> Self {
        Self {
            schedule: record.schedule.clone(),
            // Attempt 0 is the start of the count; nothing ran then.
            last_slot: record.last_slot.filter(|last| last.attempt > 0),
            finished: record.finished,
            triggered: record.triggers.newest.as_ref().map(|newest| Triggered {
                id: newest.id.clone(),
                slot: newest.slot,
                attempt: newest.attempt,
                outcome: newest.outcome,
            }),
            last_success: record.success,
            last_failure: record.failure,
            failure_detail: record.failure_detail.clone(),
            missed: record.missed,
            next: next(record, is_running, now, agenda),
        }
    }
}

fn next(
    record: &Record,
    is_running: bool,
    now: Timestamp,
    own_agenda: &Agenda,
) -> Option<NextTurn> {
    let (schedule, _) = Schedule::from_description(record.schedule.as_deref()?)?;
    let agenda = Agenda {
        schedule: Some(schedule),
        delivery: record.delivery,
        missed: own_agenda.missed,
        tolerance: own_agenda.tolerance,
        delay: record.delay,
    };
    let slot = agenda.next_slot(now, record, is_running)?;
    Some(NextTurn { slot, at: slot.plus(record.delay) })
}
