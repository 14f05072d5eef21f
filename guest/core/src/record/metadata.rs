//! The record: the election's state in the blob's metadata. protocol.md §9.
//!
//! Names are lower-case letters only, so that they survive header lower-casing and have the same
//! position in every sort order. Values are percent-encoded ASCII. A write replaces all metadata,
//! so unknown fields are kept. A field is dropped if its value is not printable ASCII or has two
//! blanks in a row: no version of Tenure writes such a value, and the service could change it.
//!
//! Other programs may write to the blob. Texts that no settings allow are ignored
//! ([`crate::record::text`]). A record is rejected before any acquire if no election can have
//! reached its term, or if it has no room for a leader's writes.

mod field;
#[cfg(test)]
mod tests;
mod turns;
mod validate;

pub use turns::{
    End, Ended, FailureDetail, Finished, LastSlot, MissedSlots, Outcome, Started, Trigger,
    TriggerState, Triggers,
};
pub(crate) use turns::{Kind, is_current};
pub(crate) use validate::{UnusableRecord, ValidatedRecord};

use core::time::Duration;

use crate::record::history::{History, Incumbent};
use crate::record::text::{MAX_ADDRESS, MAX_NAME, MAX_REASON, MAX_SCHEDULE, encode, one_line};
use crate::schedule::slots::{Delivery, WHILE_LEADING};
use crate::step::clocks::{Timestamp, is_ahead};
use field::Fields;
use serde::{Deserialize, Serialize};
use tenure_azure::blob::Metadata;
use tenure_base::prelude::*;

/// The format that this version reads and writes.
const FORMAT: u64 = 1;

/// The format of an election that is closed forever.
const CLOSED_FORMAT: &str = "closed";

/// Maximum bytes of metadata, by the service's limit. Names and addresses in non-ASCII text can
/// fill more than half of them.
const MAX_BYTES: usize = 8192;

/// Bytes of metadata that a new leader's record must leave free for later additions, as encoded: a
/// successor, the outcome of a transfer, the detail of a failure, triggers, slots, attempts and
/// outcomes.
const RESERVED_BYTES: usize = 3328;

/// Maximum lead of a term over the service's clock. A term is the Unix time in seconds at which it
/// was won, or one more than the previous term. So it leads the clock only after more terms than
/// seconds, or when that clock was set back. Neither can reach ten years: no candidate wrote such a
/// term.
const MAX_TERM_LEAD: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// The texts for the outcome of a transfer.
const REFUSED: &str = "refused";
const FAILED: &str = "failed";

/// The leader name for a record with an invalid name.
const UNNAMED: &str = "unnamed";

fn size(metadata: &Metadata) -> usize {
    metadata.iter().map(|(name, value)| name.len() + value.len()).sum()
}

/// Returns the fields that can be written back unchanged. It is unknown whether the service folds
/// blanks when it checks a signature.
pub(crate) fn retain_printable(fields: Metadata) -> Metadata {
    let is_printable = |value: &str| {
        value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
            && value.as_bytes().windows(2).all(|pair| *pair != *b"  ")
    };
    fields.iter().filter(|(_, value)| is_printable(value)).collect()
}

/// The record of an election.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The newest term that was won.
    pub term: u64,
    /// The name of its leader.
    pub leader: String,
    /// Random number that the leader drew when it started. It distinguishes candidates of one name.
    pub nonce: u64,
    /// Time at which the term was won.
    pub since: Timestamp,
    /// Address at which the leader can be reached.
    pub address: Option<String>,
    /// Description of the leader's schedule.
    pub schedule: Option<String>,
    /// Time from each slot of that schedule until it is due.
    pub delay: Duration,
    /// The newest slot that was claimed.
    pub last_slot: Option<LastSlot>,
    /// The delivery rule under which that slot was claimed. The settings of later leaders may have
    /// another rule.
    pub delivery: Delivery,
    /// The newest turn whose end was recorded; it may belong to an earlier slot.
    pub finished: Option<Finished>,
    /// The newest turn that succeeded, scheduled or triggered.
    pub success: Option<Ended>,
    /// The newest turn that did not succeed.
    pub failure: Option<Ended>,
    /// The candidate and the reason of that failure.
    pub failure_detail: Option<FailureDetail>,
    /// The newest slots that had no turn.
    pub missed: Option<MissedSlots>,
    /// The triggers that had their turn.
    pub triggers: Triggers,
    /// Name of the candidate that the leader wants to hand over to.
    pub successor: Option<String>,
    /// The newest transfer of this term that was refused or failed.
    pub refusal: Option<Refusal>,
    /// The newest term whose leader reads orders. None if there was none.
    pub orders_term: Option<u64>,
    /// The newest beat, if the leader promises to have stopped a given time after it.
    pub beat: Option<Beat>,
    /// The newest term whose leader coordinated shares (protocol.md §14.6). None if the work was
    /// never split.
    pub coordinator_term: Option<u64>,
    /// Number of terms that were won.
    pub changes: u64,
    /// The former leaders.
    pub history: History,
    /// Fields of other versions, kept as they are.
    pub unknown: Metadata,
}

/// A transfer that was refused or failed, so that the leader stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The id of the transfer.
    pub id: String,
    /// True if the leader began the transfer and it failed; false if the leader refused it.
    pub has_begun: bool,
    /// The reason.
    pub reason: String,
}

/// A heartbeat: a write of the record. protocol.md §13.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// Number of this write within its term; no two tries share one.
    pub number: u64,
    /// Time after which the leader has certainly stopped, unless another beat follows.
    pub promise: Duration,
}

/// The reason why metadata is not a record of this version. The blob is left untouched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The metadata belongs to another program: the names found.
    Foreign(Vec<String>),
    /// The format is not that of this version.
    Format(String),
    /// A field cannot be read.
    Malformed(String),
    /// The election is closed forever. protocol.md §14.2.
    Closed,
}

impl Record {
    /// Reads metadata as the service returns it (names without `x-ms-meta-`). None if there is no
    /// metadata at all.
    ///
    /// # Errors
    /// The metadata is not a record that this version may overwrite.
    pub fn from_metadata(metadata: &Metadata) -> Result<Option<Self>, RecordError> {
        Self::parse_with_ignored(metadata).map(|(record, _)| record)
    }

    /// Returns the metadata of an election that is closed forever: no candidate contends for it any
    /// more.
    pub fn closed() -> Metadata {
        Metadata::from_iter([(field::FORMAT, CLOSED_FORMAT)])
    }

    /// Parses metadata, and returns the ignored fields too: those with texts that no candidate
    /// writes.
    fn parse_with_ignored(
        metadata: &Metadata,
    ) -> Result<(Option<Self>, Vec<&'static str>), RecordError> {
        let Some(format) = metadata.get(field::FORMAT) else {
            return match metadata.is_empty() {
                true => Ok((None, Vec::new())),
                false => Err(RecordError::Foreign(
                    metadata.iter().map(|(name, _)| name.into()).collect(),
                )),
            };
        };
        match format.parse::<u64>() {
            Ok(FORMAT) => {}
            Ok(_) => return Err(RecordError::Format(format.into())),
            Err(_) if format == CLOSED_FORMAT => return Err(RecordError::Closed),
            Err(_) => return Err(RecordError::Malformed(field::FORMAT.into())),
        }
        if size(metadata) > MAX_BYTES {
            return Err(RecordError::Malformed("its size (over 8 KiB)".into()));
        }
        let mut remaining = metadata.clone();
        remaining.remove(field::FORMAT);
        let mut fields = Fields { remaining, malformed: None, ignored: Vec::new() };
        let slot = fields.instant(field::SLOT);
        let attempt = fields.number(field::ATTEMPT);
        let finished = fields.instant(field::FINISHED);
        let outcome = fields.outcome(metadata, [field::FINISHED, field::OUTCOME]);
        let triggers = Triggers {
            newest: fields.started(metadata),
            term: fields.optional(field::TRIGGER_TERM, |text| text.parse().ok()).unwrap_or(0),
            earlier: fields.optional(field::TRIGGERS, Triggers::parse_earlier).unwrap_or_default(),
        };
        let term = fields.required(field::TERM, |text| text.parse().ok());
        if fields.remaining.get(field::LEADER).is_none() {
            fields.mark_malformed(field::LEADER, " (missing)");
        }
        let mut history = fields.optional(field::HISTORY, History::parse).unwrap_or_default();
        if !history.retain_valid() {
            fields.ignored.push(field::HISTORY);
        }
        let failure = fields.informational(field::FAILURE, Ended::parse);
        let failure_detail = fields.informational(field::FAILURE_DETAIL, FailureDetail::parse);
        let delay = fields.informational(field::DELAY, |text| text.parse::<u32>().ok());
        let record = Self {
            term,
            leader: fields.bounded_text(field::LEADER, MAX_NAME).unwrap_or_else(|| UNNAMED.into()),
            nonce: fields.required(field::NONCE, |text| u64::from_str_radix(text, 16).ok()),
            since: fields.required(field::SINCE, Timestamp::parse),
            address: fields.bounded_text(field::ADDRESS, MAX_ADDRESS),
            schedule: fields.bounded_text(field::SCHEDULE, MAX_SCHEDULE),
            delay: Duration::from_millis(delay.unwrap_or(0).into()),
            last_slot: slot.map(|slot| LastSlot { slot, attempt: attempt.unwrap_or(1) }),
            delivery: fields.delivery(field::MAX_ATTEMPTS),
            finished: finished.zip(outcome).map(|(slot, outcome)| Finished { slot, outcome }),
            success: fields.informational(field::SUCCESS, Ended::parse),
            failure,
            failure_detail: failure_detail
                .filter(|detail| failure.is_some_and(|failure| failure.end.at == detail.at)),
            missed: fields.informational(field::MISSED, MissedSlots::parse),
            triggers,
            successor: fields.successor(term),
            refusal: fields.refusal(),
            orders_term: fields.optional(field::ORDERS_TERM, |text| text.parse().ok()),
            beat: fields.beat(term),
            coordinator_term: fields.optional(field::COORDINATOR_TERM, |text| text.parse().ok()),
            changes: fields.optional(field::CHANGES, |text| text.parse().ok()).unwrap_or(0),
            history,
            unknown: retain_printable(fields.remaining),
        };
        match fields.malformed {
            Some(field) => Err(RecordError::Malformed(field)),
            None => Ok((Some(record), fields.ignored)),
        }
    }

    /// Returns the metadata of this record.
    pub fn to_metadata(&self) -> Metadata {
        let mut metadata = self.unknown.clone();
        let mut put = |name: &str, value: &str| {
            metadata.insert(name.into(), encode(value));
        };
        put(field::FORMAT, &FORMAT.to_string());
        put(field::TERM, &self.term.to_string());
        put(field::LEADER, &self.leader);
        put(field::NONCE, &format!("{:016x}", self.nonce));
        put(field::SINCE, &self.since.to_rfc3339());
        if let Some(address) = &self.address {
            put(field::ADDRESS, address);
        }
        if let Some(schedule) = &self.schedule {
            put(field::SCHEDULE, schedule);
        }
        if !self.delay.is_zero() {
            put(field::DELAY, &self.delay.as_millis().to_string());
        }
        if let Some(last) = &self.last_slot {
            put(field::SLOT, &last.slot.to_rfc3339());
            put(field::ATTEMPT, &last.attempt.to_string());
            if let Delivery::AtLeastOnce { max_attempts } = self.delivery {
                put(field::MAX_ATTEMPTS, &max_attempts.to_string());
            }
        }
        if let Some(finished) = &self.finished {
            put(field::FINISHED, &finished.slot.to_rfc3339());
            put(field::OUTCOME, finished.outcome.name());
        }
        for (name, ended) in [(field::SUCCESS, &self.success), (field::FAILURE, &self.failure)] {
            if let Some(ended) = ended {
                put(name, &ended.to_text());
            }
        }
        if let Some(detail) = &self.failure_detail {
            put(field::FAILURE_DETAIL, &detail.to_text());
        }
        if let Some(missed) = &self.missed {
            put(field::MISSED, &missed.to_text());
        }
        if let Some(newest) = &self.triggers.newest {
            put(field::TRIGGER, &newest.id);
            put(field::TRIGGER_SLOT, &newest.slot.to_rfc3339());
            put(field::TRIGGER_ATTEMPT, &newest.attempt.to_string());
            if let Delivery::AtLeastOnce { max_attempts } = newest.delivery {
                put(field::TRIGGER_MAX_ATTEMPTS, &max_attempts.to_string());
            }
            if let Some(outcome) = newest.outcome {
                put(field::TRIGGER_OUTCOME, outcome.name());
            }
            put(field::TRIGGER_TERM, &self.triggers.term.to_string());
        }
        if let Some(earlier) = self.triggers.write_earlier() {
            put(field::TRIGGERS, &earlier);
        }
        if let Some(successor) = &self.successor {
            put(field::SUCCESSOR, successor);
            put(field::SUCCESSOR_TERM, &self.term.to_string());
        }
        if let Some(Refusal { id, has_begun, reason }) = &self.refusal {
            put(field::TRANSFER, id);
            put(field::TRANSFER_OUTCOME, if *has_begun { FAILED } else { REFUSED });
            put(field::TRANSFER_REASON, reason);
        }
        if let Some(term) = self.orders_term {
            put(field::ORDERS_TERM, &term.to_string());
        }
        if let Some(Beat { number, promise }) = self.beat {
            put(field::BEAT, &number.to_string());
            put(field::PROMISE, &promise.as_millis().to_string());
            put(field::PROMISE_TERM, &self.term.to_string());
        }
        if let Some(term) = self.coordinator_term {
            put(field::COORDINATOR_TERM, &term.to_string());
        }
        if self.changes > 0 {
            put(field::CHANGES, &self.changes.to_string());
        }
        if !self.history.is_empty() {
            put(field::HISTORY, &self.history.to_text());
        }
        metadata
    }

    /// Returns true if the newest claimed slot needs no further turn by its delivery rule.
    pub(crate) fn is_done(&self) -> bool {
        let Some(last) = self.last_slot.filter(|last| last.attempt > 0) else { return true };
        let finished = self.finished.filter(|finished| finished.slot == last.slot);
        self.delivery == Delivery::AtMostOnce || finished.is_some_and(|f| f.outcome.is_final())
    }

    /// Returns the newest turn for a trigger. None for the kind of slots.
    pub(crate) fn newest(&self, kind: Kind) -> Option<&Started> {
        match kind {
            Kind::Slot => None,
            Kind::Trigger => self.triggers.newest.as_ref(),
        }
    }

    /// Returns the newest claim of that kind.
    pub(crate) fn claim(&self, kind: Kind) -> Option<LastSlot> {
        match kind {
            Kind::Slot => self.last_slot,
            _ => self.newest(kind).map(Started::claim),
        }
    }

    /// Returns true if the end of the newest scheduled turn is on record, and so is that of the
    /// newest turn for a trigger.
    pub(crate) fn is_ended(&self) -> bool {
        let is_slot_ended = self.last_slot.is_none_or(|last| {
            last.attempt == 0 || self.finished.is_some_and(|f| f.slot == last.slot)
        });
        let triggered = self.triggers.newest.as_ref();
        is_slot_ended && triggered.is_none_or(|newest| newest.outcome.is_some())
    }

    /// Prepares the record for a leadership that has one turn for its whole length. Unfinished
    /// turns of earlier leaders are abandoned. The count continues from the last claimed slot,
    /// unless that lies in the future.
    pub(crate) fn restart_slots(&mut self, first_slot: LastSlot) {
        let previous = self.last_slot.unwrap_or(first_slot);
        let end = End { outcome: Outcome::Abandoned, at: first_slot.slot, took: None };
        if !self.is_done() {
            self.put_outcome(Kind::Slot, end);
        }
        // Such a leadership makes no further attempt for a trigger.
        let is_unfinished = |newest: &Started| {
            newest.delivery != Delivery::AtMostOnce
                && !newest.outcome.is_some_and(Outcome::is_final)
        };
        if self.triggers.newest.as_ref().is_some_and(is_unfinished) {
            self.put_outcome(Kind::Trigger, end);
        }
        let earliest_slot =
            if is_ahead(previous.slot, first_slot.slot) { first_slot.slot } else { previous.slot };
        self.last_slot = Some(LastSlot { slot: earliest_slot.max(first_slot.slot), attempt: 0 });
    }

    /// Removes the outcome of this slot, because it is claimed again. The newest failure stays on
    /// record.
    pub(crate) fn forget_end(&mut self, slot: Timestamp) {
        self.finished = self.finished.filter(|finished| finished.slot != slot);
        // An outcome that only a newer version knows belongs to the earlier attempt.
        if self.unknown.get(field::FINISHED) == Some(slot.to_rfc3339().as_str()) {
            self.unknown.remove(field::FINISHED);
            self.unknown.remove(field::OUTCOME);
        }
    }

    /// Records the outcome of the newest turn of that kind.
    #[inline(never)]
    pub(crate) fn put_outcome(&mut self, kind: Kind, end: End) {
        let outcome = end.outcome;
        let newest = match kind {
            Kind::Slot => None,
            Kind::Trigger => self.triggers.newest.as_mut(),
        };
        let slot = match (newest, self.last_slot) {
            (Some(newest), _) => {
                newest.outcome = Some(outcome);
                newest.slot
            }
            (None, Some(last)) if kind == Kind::Slot => {
                self.finished = Some(Finished { slot: last.slot, outcome });
                last.slot
            }
            _ => return,
        };
        let triggered = kind == Kind::Trigger;
        // Truncated, so that the end reads back unchanged.
        let ended = Some(Ended { slot, triggered, end: end.in_millis() });
        match outcome {
            Outcome::Succeeded => self.success = ended,
            // The failure of the last attempt says more than that the slot is abandoned.
            Outcome::Abandoned
                if self
                    .failure
                    .is_some_and(|last| (last.slot, last.triggered) == (slot, triggered)) => {}
            // Work that lasts as long as the leadership has not failed if it was cut off with it.
            Outcome::CutOff if kind == Kind::Slot && self.is_while_leading() => {}
            _ => {
                self.failure = ended;
                // The end of this abandoned turn is unknown, and so is a reason.
                self.failure_detail =
                    ended.filter(|_| outcome != Outcome::Abandoned).map(|ended| {
                        let (at, candidate) = (ended.end.at, self.leader.clone());
                        FailureDetail { at, candidate, reason: String::new() }
                    });
            }
        }
    }

    /// Adds the reason to the newest failure, if `end` is the end of that turn.
    pub(crate) fn put_reason(&mut self, end: End, reason: &str) {
        let detail = self.failure_detail.as_mut();
        if let Some(detail) = detail.filter(|detail| detail.at == end.in_millis().at) {
            detail.reason = one_line(reason, MAX_REASON);
        }
    }

    /// Returns true if the leader's work is one turn that lasts as long as the leadership.
    fn is_while_leading(&self) -> bool {
        self.schedule.as_deref() == Some(WHILE_LEADING)
    }

    /// Claims the turn for a trigger.
    pub(crate) fn start(&mut self, started: Started) {
        // An outcome that only a newer version knows belongs to another claim.
        self.unknown.remove(field::TRIGGER_OUTCOME);
        self.triggers.claim(started, self.term);
    }

    /// Returns true if `self`, read from the blob, is the result of writing `written`. Within a
    /// term, leaders change only the fields that are compared here.
    pub fn is_result_of(&self, written: &Self) -> bool {
        self.is_same_beat(written)
            && self.has_same_turns(written)
            && self.successor == written.successor
            && self.refusal == written.refusal
    }

    /// Returns true if both records have the same term, candidate and beat.
    pub(crate) fn is_same_beat(&self, other: &Self) -> bool {
        (self.nonce, self.term, self.beat) == (other.nonce, other.term, other.beat)
    }

    /// Returns true if both records have the same turns.
    #[inline(never)]
    pub(crate) fn has_same_turns(&self, other: &Self) -> bool {
        let turn_fields =
            |record: &Self| (record.last_slot, record.finished, record.success, record.failure);
        turn_fields(self) == turn_fields(other) && self.triggers.newest == other.triggers.newest
    }

    /// Adds the leader of this record to the history, before the next leader takes its place.
    pub(crate) fn enter_history(&mut self) {
        if self.term > 0 {
            self.history.add(self.incumbent());
        }
    }

    /// Returns the former leaders, the last one first.
    pub fn earlier_leaders(&self) -> Vec<Incumbent> {
        self.history.leaders().to_vec()
    }

    /// Returns the leader according to this record.
    pub fn incumbent(&self) -> Incumbent {
        Incumbent {
            name: self.leader.clone(),
            term: self.term,
            since: self.since,
            address: self.address.clone(),
            coordinates: self.is_coordinated(),
        }
    }

    /// Returns true if the leader of the newest term reads orders.
    pub(crate) fn reads_orders(&self) -> bool {
        self.orders_term == Some(self.term)
    }

    /// Returns true if the leader of the newest term coordinates shares, and runs no work itself.
    pub(crate) fn is_coordinated(&self) -> bool {
        self.coordinator_term == Some(self.term)
    }
}
