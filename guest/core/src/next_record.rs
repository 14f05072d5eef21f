//! With which record a candidate begins to lead. protocol.md §4.3.

use super::record::{Beat, End, Kind, LastSlot, Outcome, Record};
use super::report::Turn;
use super::service_clock::Timestamp;
use super::settings::Settings;
use crate::mutants::mutant;
use serde::{Deserialize, Serialize};

/// The newest turns that this candidate put forward: of the schedule, and for a trigger.
///
/// An attempt is a turn that began. Of a claim that a leader could not follow up, since its leadership
/// had ended by the time it was answered, this candidate knows so when it leads again. Of a
/// claim of another candidate nobody can tell, so that one counts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Began {
    scheduled: Option<PutForward>,
    triggered: Option<PutForward>,
}

/// A claim that this candidate decided to write.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct PutForward {
    /// The same claim in another term may be another candidate's.
    term: u64,
    claim: LastSlot,
    /// Its turn was handed to the host.
    begun: bool,
}

impl PutForward {
    /// Whether the claim of a record of this candidate is this one, and came to nothing.
    fn never_began(put: Option<Self>, term: u64, on_record: LastSlot) -> bool {
        put.is_some_and(|put| put.term == term && put.claim == on_record && !put.begun)
    }
}

impl Began {
    /// Notes the claim in a record that is to be written.
    pub fn put_forward(&mut self, record: &Record, kind: Kind) {
        let claim = record.claim(kind);
        let put = claim.map(|claim| PutForward { term: record.term, claim, begun: false });
        *self.of(kind) = put;
    }

    /// Notes that a turn is handed to the host, or that the host says that it never began it.
    pub fn note(&mut self, turn: &Turn, begun: bool) {
        let claim = LastSlot { slot: turn.slot, attempt: turn.attempt };
        let put = self.of(turn.kind()).as_mut();
        if let Some(put) = put.filter(|put| (put.term, put.claim) == (turn.term, claim)) {
            put.begun = begun;
        }
    }

    fn of(&mut self, kind: Kind) -> &mut Option<PutForward> {
        match kind {
            Kind::Slot => &mut self.scheduled,
            Kind::Trigger => &mut self.triggered,
        }
    }

    /// Puts on a record that this candidate wrote which of its claims came to nothing. What the record
    /// tells of the slot then is the end of an earlier attempt.
    fn correct(&self, record: &mut Record, now: Timestamp) {
        let not_started = End { outcome: Outcome::NotStarted, at: now, took: None };
        if let Some(last) = record.last
            && PutForward::never_began(self.scheduled, record.term, last)
        {
            record.put_outcome(Kind::Slot, not_started);
        }
        if let Some(newest) = &record.triggers.newest
            && newest.outcome.is_none()
            && PutForward::never_began(self.triggered, record.term, newest.claim())
        {
            record.put_outcome(Kind::Trigger, not_started);
        }
    }
}

/// What is to be on the blob when this candidate leads. The term survives the loss of the
/// record, because it is at least the service's time in seconds.
///
/// Where there is no record, a leader of this very second may have been forgotten: the term
/// is one higher than its own could be, and the second is over before the next
/// candidate that finds no record can acquire.
pub(super) fn next_record(
    settings: &Settings,
    nonce: u64,
    began: &Began,
    before: Option<Record>,
    since: Timestamp,
) -> Record {
    let agenda = &settings.agenda;
    let time = if mutant!(TermFromRecordAlone) { 0 } else { since.seconds() };
    let least = match &before {
        Some(before) => before.term.max(time),
        None => time.saturating_add(1),
    };
    let mut before = before.unwrap_or_default();
    if before.nonce == nonce {
        began.correct(&mut before, since);
    }
    if let Some(schedule) = &agenda.schedule {
        // The slots of another schedule were not this one's to run.
        let other = before.schedule.as_ref().is_some_and(|text| *text != schedule.description());
        let begin = agenda.begin(since);
        let earlier = before.last.is_none_or(|last| other && last.slot < begin.slot);
        if agenda.is_one_turn_a_term() {
            before.begin_anew(begin);
        } else if earlier && before.is_done() {
            before.last = Some(begin);
        }
    }
    let (schedule, delay) = match agenda.description() {
        Some(own) => (Some(own), agenda.delay),
        None => (before.schedule.take(), before.delay),
    };
    before.enter_history();
    let term = least.saturating_add(1);
    Record {
        changes: before.changes.saturating_add(1),
        successor: None,
        refusal: None,
        beat: settings.timings.failover.map(|f| Beat { number: 0, promise: f.promise() }),
        term,
        coordinator_term: if settings.coordinates { Some(term) } else { before.coordinator_term },
        orders_term: settings.reads_orders().then_some(term),
        leader: settings.name.clone(),
        nonce,
        since: since.to_whole_millis(),
        address: settings.address.clone(),
        schedule,
        delay,
        ..before
    }
}
