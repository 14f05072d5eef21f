//! With which record a candidate begins to lead. `protocol.md`, Winning 3.

use super::candidate::Step;
use super::record::{Finished, LastSlot, Outcome, Record, Started};
use super::report::Turn;
use super::service_clock::Timestamp;
use crate::memory::remember;
use crate::mutants::mutant;

/// The newest turns that were handed to the host to run: of the schedule, and for a value.
///
/// An attempt is a turn that began. Of a claim that a leader could not follow up, since its leadership
/// had ended by the time it was answered, this candidate knows so when it leads again. Of a
/// claim of another candidate nobody can tell, so that one counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Began {
    scheduled: Option<LastSlot>,
    for_value: Option<LastSlot>,
}

remember!(struct Began { scheduled, for_value });

impl Began {
    /// Notes a turn that is handed to the host.
    pub fn note(&mut self, turn: &Turn) {
        let begun = Some(LastSlot { slot: turn.slot, attempt: turn.attempt });
        match turn.value {
            Some(_) => self.for_value = begun,
            None => self.scheduled = begun,
        }
    }

    /// Puts on a record that this candidate wrote which of its claims came to nothing.
    fn correct(&self, record: &mut Record) {
        let (scheduled, for_value) = unended(record);
        if let Some(last) = scheduled.filter(|last| self.scheduled != Some(*last)) {
            record.finished = Some(Finished { slot: last.slot, outcome: Outcome::NotStarted });
        }
        if let Some(started) = &mut record.started
            && for_value.is_some_and(|claimed| self.for_value != Some(claimed))
        {
            started.outcome = Some(Outcome::NotStarted);
        }
    }
}

/// The newest claims, of the schedule and for a value, of whose turns no end is on record.
fn unended(record: &Record) -> (Option<LastSlot>, Option<LastSlot>) {
    let scheduled = record.last.filter(|last| {
        last.attempt > 0 && record.finished.is_none_or(|finished| finished.slot != last.slot)
    });
    let started = record.started.as_ref().filter(|started| started.outcome.is_none());
    let claimed = |started: &Started| LastSlot { slot: started.slot, attempt: started.attempt };
    (scheduled, started.map(claimed))
}

impl Step<'_> {
    /// Takes over the claims of another candidate that have no end: from now on they stand on a record
    /// of this one, and are none of its own all the same.
    pub(super) fn inherit(&mut self, before: Option<&Record>) {
        let (own, began) = (self.state.nonce, &mut self.state.began);
        if let Some(before) = before.filter(|record| record.nonce != own) {
            let (scheduled, for_value) = unended(before);
            began.scheduled = scheduled.or(began.scheduled);
            began.for_value = for_value.or(began.for_value);
        }
    }

    /// What is to be on the blob when this candidate leads. The term survives the loss of the
    /// record, because it is at least the service's time in seconds.
    ///
    /// Where there is no record, a leader of this very second may have been forgotten: the term
    /// is one higher than its own could be, and the second is over before the next
    /// candidate that finds no record can acquire.
    pub(super) fn next_record(&self, before: Option<Record>, since: Timestamp) -> Record {
        let agenda = &self.settings.agenda;
        let time = if mutant!(TermFromRecordAlone) { 0 } else { since.seconds() };
        let least = match &before {
            Some(before) => before.term.max(time),
            None => time.saturating_add(1),
        };
        let mut before = before.unwrap_or_default();
        if before.nonce == self.state.nonce {
            self.state.began.correct(&mut before);
        }
        if let Some(schedule) = &agenda.schedule {
            // The slots of another schedule were not this one's to run.
            let other = before.schedule.as_ref().is_some_and(|words| *words != schedule.words());
            let begin = agenda.begin(since);
            let earlier = before.last.is_none_or(|last| other && last.slot < begin.slot);
            if agenda.is_one_turn_a_term() {
                before.begin_anew(begin);
            } else if earlier && before.is_done() {
                before.last = Some(begin);
            }
        }
        before.enter_history();
        Record {
            changes: before.changes.saturating_add(1),
            priority: self.settings.priority,
            heir: None,
            term: least.saturating_add(1),
            leader: self.settings.name.clone(),
            nonce: self.state.nonce,
            since: since.to_whole_millis(),
            address: self.settings.address.clone(),
            schedule: agenda.words().or(before.schedule),
            ..before
        }
    }
}
