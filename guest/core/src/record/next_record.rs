//! The record with which a candidate begins to lead. protocol.md §4.3.

use crate::mutants::mutant;
use crate::record::metadata::{Beat, End, Kind, LastSlot, Outcome, Record};
use crate::step::clocks::Timestamp;
use crate::step::report::Turn;
use crate::step::settings::Settings;
use serde::{Deserialize, Serialize};

/// The newest claims that this candidate decided to write: one for a slot, and one for a trigger.
///
/// Only a started turn is an attempt. If a leadership ended before a claim was answered, the turn
/// of the claim never started. This candidate takes that into account when it leads again. Claims
/// of other candidates always count as attempts, since it cannot know whether their turns started.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ProposedClaims {
    scheduled: Option<ProposedClaim>,
    triggered: Option<ProposedClaim>,
}

/// A claim that this candidate decided to write.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct ProposedClaim {
    /// The term of the claim. In another term, the same claim may be another candidate's.
    term: u64,
    claim: LastSlot,
    /// True if the turn was passed to the host.
    is_started: bool,
}

impl ProposedClaim {
    /// Returns true if the claim on this candidate's record is `proposed`, and its turn never
    /// started.
    fn is_unstarted(proposed: Option<Self>, term: u64, on_record: LastSlot) -> bool {
        proposed.is_some_and(|proposed| {
            proposed.term == term && proposed.claim == on_record && !proposed.is_started
        })
    }
}

impl ProposedClaims {
    /// Notes the claim in a record that is to be written.
    pub fn propose(&mut self, record: &Record, kind: Kind) {
        let claim = record.claim(kind);
        let proposed =
            claim.map(|claim| ProposedClaim { term: record.term, claim, is_started: false });
        *self.claim_mut(kind) = proposed;
    }

    /// Records whether a turn was passed to the host, or that the host never started it.
    pub fn set_started(&mut self, turn: &Turn, is_started: bool) {
        let claim = LastSlot { slot: turn.slot, attempt: turn.attempt };
        let proposed = self.claim_mut(turn.kind()).as_mut();
        let is_claim_of_turn =
            |proposed: &&mut ProposedClaim| (proposed.term, proposed.claim) == (turn.term, claim);
        if let Some(proposed) = proposed.filter(is_claim_of_turn) {
            proposed.is_started = is_started;
        }
    }

    fn claim_mut(&mut self, kind: Kind) -> &mut Option<ProposedClaim> {
        match kind {
            Kind::Slot => &mut self.scheduled,
            Kind::Trigger => &mut self.triggered,
        }
    }

    /// Records the outcome *not-started* for this candidate's claims whose turns never started. It
    /// replaces the outcome of an earlier attempt at the same slot.
    fn record_unstarted(&self, record: &mut Record, now: Timestamp) {
        let not_started = End { outcome: Outcome::NotStarted, at: now, took: None };
        if let Some(last) = record.last_slot
            && ProposedClaim::is_unstarted(self.scheduled, record.term, last)
        {
            record.put_outcome(Kind::Slot, not_started);
        }
        if let Some(newest) = &record.triggers.newest
            && newest.outcome.is_none()
            && ProposedClaim::is_unstarted(self.triggered, record.term, newest.claim())
        {
            record.put_outcome(Kind::Trigger, not_started);
        }
    }
}

/// Returns the record with which this candidate leads. Terms keep rising even if the record is
/// lost, because a term is higher than the service's time in seconds.
///
/// Without a record, there may have been a leader of this very second. So the term is one higher
/// than that leader's could be. The write of the term waits under the lease until the second is
/// over. So no other candidate that finds no record can win in the same second.
pub(crate) fn next_record(
    settings: &Settings,
    nonce: u64,
    claims: &ProposedClaims,
    previous: Option<Record>,
    since: Timestamp,
) -> Record {
    let agenda = &settings.agenda;
    let time = if mutant!(TermFromRecordAlone) { 0 } else { since.seconds() };
    let last_term = match &previous {
        Some(previous) => previous.term.max(time),
        None => time.saturating_add(1),
    };
    let mut previous = previous.unwrap_or_default();
    if previous.nonce == nonce {
        claims.record_unstarted(&mut previous, since);
    }
    if let Some(schedule) = &agenda.schedule {
        // A leader does not make up for past slots of another schedule.
        let is_other_schedule =
            previous.schedule.as_ref().is_some_and(|text| *text != schedule.description());
        let first_slot = agenda.initial_slot(since);
        let is_earlier =
            previous.last_slot.is_none_or(|last| is_other_schedule && last.slot < first_slot.slot);
        if agenda.is_one_turn_a_term() {
            previous.restart_slots(first_slot);
        } else if is_earlier && previous.is_done() {
            previous.last_slot = Some(first_slot);
        }
    }
    let (schedule, delay) = match agenda.description() {
        Some(own_schedule) => (Some(own_schedule), agenda.delay),
        None => (previous.schedule.take(), previous.delay),
    };
    previous.enter_history();
    let term = last_term.saturating_add(1);
    Record {
        changes: previous.changes.saturating_add(1),
        successor: None,
        refusal: None,
        beat: settings.timings.failover.map(|f| Beat { number: 0, promise: f.promise() }),
        term,
        coordinator_term: if settings.coordinates { Some(term) } else { previous.coordinator_term },
        orders_term: settings.reads_orders().then_some(term),
        leader: settings.name.clone(),
        nonce,
        since: since.to_whole_millis(),
        address: settings.address.clone(),
        schedule,
        delay,
        ..previous
    }
}
