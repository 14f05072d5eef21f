//! Past turns of an election and its next turn, according to the record, and the idempotency key of
//! a turn. The rule for missed slots is not on record, so the reader applies its own rule.

use super::agenda::Agenda;
use crate::record::metadata::{
    Ended, FailureDetail, Finished, LastSlot, MissedSlots, Outcome, Record,
};
use crate::schedule::slots::Schedule;
use crate::step::clocks::Timestamp;
use crate::step::settings::Settings;
use tenure_azure::encoding;
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
    /// Time at which the trigger was placed, by the service's clock.
    pub slot: Timestamp,
    /// Number of the newest attempt, from 1.
    pub attempt: u32,
    /// Outcome of the newest attempt. None if it is not on record yet.
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
    /// Returns the turns of `record` at `now`. `is_running` is true while a turn runs. `agenda` has
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
            // Attempt 0 marks the slot after which slots count; that slot itself had no turn.
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

/// Returns the idempotency key of a turn of the election in the settings: the same for all
/// attempts, and different for every other turn.
///
/// The account is identified by its name, not by its endpoint. Candidates of one election may use
/// different endpoints, and another candidate may run the next attempt.
pub(crate) fn turn_key(slot: Timestamp, trigger: Option<&str>, settings: &Settings) -> String {
    let (account, election) = (settings.account.name(), &settings.election);
    // Only a slot has unescaped colons, so no other part can be mistaken for one.
    let account = encoding::percent_encode(account, encoding::EXCEPT_UNRESERVED);
    let mut key = format!("{account}{}/{}", election.path(), slot.to_rfc3339());
    if let Some(trigger) = trigger {
        key.push_str("//");
        key.push_str(trigger);
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Timestamp = Timestamp(1_795_158_000_000_000_000);

    fn key(account: &str, election: &str, trigger: Option<&str>) -> String {
        let settings = Settings::read(|name: &str| match name {
            "TENURE_ELECTION" => Some(election.to_string()),
            "TENURE_EVERY" => Some("1h".to_string()),
            "AZURE_STORAGE_CONNECTION_STRING" => Some(format!(
                "BlobEndpoint=https://{account}.example.com;AccountName={account};AccountKey=c2VjcmV0"
            )),
            _ => None,
        });
        turn_key(SLOT, trigger, &settings.unwrap())
    }

    #[test]
    fn turns_of_two_elections_have_two_keys() {
        let keys = [
            key("acme", "jobs/report", None),
            key("acme", "jobs/other", None),
            key("acme", "other/report", None),
            key("emca", "jobs/report", None),
        ];
        assert_eq!(keys[0], "acme/jobs/report/2026-11-20T07:00:00Z");
        for (at, one) in keys.iter().enumerate() {
            assert!(!keys[at + 1..].contains(one), "{keys:?}");
        }
    }

    #[test]
    fn no_part_of_a_key_can_be_taken_for_another() {
        assert_eq!(
            key("acme", "jobs/a ü/2026-11-20T07:00:00Z", Some("v1.8")),
            "acme/jobs/a%20%C3%BC/2026-11-20T07%3A00%3A00Z/2026-11-20T07:00:00Z//v1.8"
        );
    }
}
