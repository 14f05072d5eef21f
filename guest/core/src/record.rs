//! The record: what the blob's metadata tells about the election. protocol.md §9.
//!
//! Names are lower-case letters only, so that they survive header lower-casing and
//! stand in the same place in every sort order. Values are percent-encoded ASCII.
//! Fields that this version does not know are kept, because a write replaces all. One whose value is not
//! printable ASCII, or has two blanks in a row, is not kept: no version writes it, and it could come back changed.
//!
//! Others may write to the blob. Texts that no settings allow are as if they were not there
//! ([`super::text`]); a term that no election reaches, or a record with no room for what a leader
//! writes, is refused before anything is acquired.

mod field;
mod judge;
#[cfg(test)]
mod tests;
mod triggers;
mod turns;

pub(super) use judge::{ValidatedRecord, UnusableRecord};
pub(crate) use triggers::is_current;
pub use triggers::{Trigger, TriggerState, Triggers};
pub(crate) use turns::Kind;
pub use turns::{End, Ended, FailureDetail, Finished, LastSlot, MissedSlots, Outcome, Started};

use field::Fields;

use core::time::Duration;

use super::history::{History, Incumbent};
use super::service_clock::{Timestamp, is_ahead};
use super::slots::{Delivery, WHILE_LEADING};
use super::text::{
    LONGEST_ADDRESS, LONGEST_NAME, LONGEST_REASON, LONGEST_SCHEDULE, encode, one_line,
};
use serde::{Deserialize, Serialize};
use tenure_azure::metadata::Metadata;
use tenure_base::prelude::*;

/// The format that this version writes, and the newest that it reads.
const FORMAT: u64 = 1;

/// The format of an election that is over for ever.
const CLOSED_FORMAT: &str = "closed";

/// As much as the service takes: names and addresses with no ASCII in them fill more than half of it.
const MOST_BYTES: usize = 8192;

/// The bytes of that which a leader needs for what it adds to the record with which it won: a successor, the outcome of
/// a transfer and the detail of a failure, all encoded, triggers, slots, attempts and outcomes.
const RESERVED_BYTES: usize = 3328;

/// A term is the seconds since 1970 at which it was won, or one more than the term before. So it is ahead
/// of the service's clock only after more terms than seconds, or when that clock was set back. Ten years of
/// seconds are out of reach of both: whoever wrote such a term is no candidate.
const MAX_TERM_LEAD: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// The words for what a transfer came to.
const REFUSED: &str = "refused";
const FAILED: &str = "failed";

/// The leader of a record whose name no candidate has.
const UNNAMED: &str = "unnamed";

fn size(metadata: &Metadata) -> usize {
    metadata.iter().map(|(name, value)| name.len() + value.len()).sum()
}

/// The fields that go back as they came. Whether the service folds blanks when it checks a signature is not known.
pub(super) fn retain_printable(fields: Metadata) -> Metadata {
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
    /// Tells incarnations of one name apart; random, chosen once per candidate.
    pub nonce: u64,
    /// When the term was won.
    pub since: Timestamp,
    /// Where the leader can be reached.
    pub address: Option<String>,
    /// The schedule that the leader follows, in words.
    pub schedule: Option<String>,
    /// How long after its instant each slot of it is due.
    pub delay: Duration,
    /// The newest slot that was claimed.
    pub last_slot: Option<LastSlot>,
    /// The rule under which it was claimed: whoever leads next may have another one.
    pub delivery: Delivery,
    /// The newest turn whose end was recorded; it may be an earlier one.
    pub finished: Option<Finished>,
    /// The newest turn that succeeded, be it of the schedule or for a trigger.
    pub success: Option<Ended>,
    /// The newest turn that ended in another way.
    pub failure: Option<Ended>,
    /// The candidate and the reason of that failure.
    pub failure_detail: Option<FailureDetail>,
    /// The newest slots that had no turn.
    pub missed: Option<MissedSlots>,
    /// The triggers that had their turn.
    pub triggers: Triggers,
    /// To whom the leader wants to hand over.
    pub successor: Option<String>,
    /// The transfer of this term that came to nothing last.
    pub refusal: Option<Refusal>,
    /// The newest term whose leader reads orders. None: there was none.
    pub orders_term: Option<u64>,
    /// The newest beat of a leader that promises to have stopped soon after it.
    pub beat: Option<Beat>,
    /// The newest term whose leader coordinated shares (protocol.md §14.6). None: the work was never split.
    pub coordinator_term: Option<u64>,
    /// How many terms were won.
    pub changes: u64,
    /// The leaders before the newest.
    pub history: History,
    /// Fields of other versions, kept as they are.
    pub unknown: Metadata,
}

/// A transfer that came to nothing: the leader stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The id of the transfer.
    pub id: String,
    /// The leader had begun it.
    pub has_begun: bool,
    /// Why.
    pub reason: String,
}

/// A sign of life: a write of the record. protocol.md §13.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// Of this write within its term; no two tries have the same.
    pub number: u64,
    /// So long after it the leader has certainly stopped, unless another one follows.
    pub promise: Duration,
}

/// Why metadata is no record of ours. The blob is then left untouched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// It belongs to somebody else: the names found.
    Foreign(Vec<String>),
    /// It has another format than this version's.
    Format(String),
    /// A field cannot be read.
    Malformed(String),
    /// The election is over for ever. protocol.md §14.2.
    Closed,
}

impl Record {
    /// Reads metadata as the service gives it (names without `x-ms-meta-`). None: there is no
    /// record, and nothing else either.
    ///
    /// # Errors
    /// The metadata is not a record that this version may write over.
    pub fn from_metadata(metadata: &Metadata) -> Result<Option<Self>, RecordError> {
        Self::parse_with_ignored(metadata).map(|(record, _)| record)
    }

    /// The metadata of an election that is over for ever: no candidate contends for it any more.
    pub fn closed() -> Metadata {
        Metadata::from_iter([(field::FORMAT, CLOSED_FORMAT)])
    }

    /// The same, and the fields whose texts no candidate writes.
    fn parse_with_ignored(metadata: &Metadata) -> Result<(Option<Self>, Vec<&'static str>), RecordError> {
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
        if size(metadata) > MOST_BYTES {
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
            leader: fields.bounded_text(field::LEADER, LONGEST_NAME).unwrap_or_else(|| UNNAMED.into()),
            nonce: fields.required(field::NONCE, |text| u64::from_str_radix(text, 16).ok()),
            since: fields.required(field::SINCE, Timestamp::parse),
            address: fields.bounded_text(field::ADDRESS, LONGEST_ADDRESS),
            schedule: fields.bounded_text(field::SCHEDULE, LONGEST_SCHEDULE),
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

    /// The metadata that tells this record.
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

    /// Whether the rule under which the newest slot was claimed is done with it.
    pub(super) fn is_done(&self) -> bool {
        let Some(last) = self.last_slot.filter(|last| last.attempt > 0) else { return true };
        let finished = self.finished.filter(|finished| finished.slot == last.slot);
        self.delivery == Delivery::AtMostOnce || finished.is_some_and(|f| f.outcome.is_final())
    }

    /// The newest turn for a trigger, if that is the kind.
    pub(super) fn newest(&self, kind: Kind) -> Option<&Started> {
        match kind {
            Kind::Slot => None,
            Kind::Trigger => self.triggers.newest.as_ref(),
        }
    }

    /// Its claim, or that of the newest slot.
    pub(super) fn claim(&self, kind: Kind) -> Option<LastSlot> {
        match kind {
            Kind::Slot => self.last_slot,
            _ => self.newest(kind).map(Started::claim),
        }
    }

    /// Returns true if the ends of the newest turns, of the schedule and for a trigger, are on record.
    pub(super) fn is_ended(&self) -> bool {
        let last = self.last_slot.is_none_or(|last| {
            last.attempt == 0 || self.finished.is_some_and(|f| f.slot == last.slot)
        });
        let triggered = self.triggers.newest.as_ref();
        last && triggered.is_none_or(|newest| newest.outcome.is_some())
    }

    /// Begins with a leadership that has one turn, whatever was claimed before. Its slot is later than
    /// any before, unless that is one of the future.
    pub(super) fn restart_slots(&mut self, first_slot: LastSlot) {
        let previous = self.last_slot.unwrap_or(first_slot);
        let end = End { outcome: Outcome::Abandoned, at: first_slot.slot, took: None };
        if !self.is_done() {
            self.put_outcome(Kind::Slot, end);
        }
        // Nobody makes another attempt at it as long as it has none for others.
        let is_unfinished = |newest: &Started| {
            newest.delivery != Delivery::AtMostOnce
                && !newest.outcome.is_some_and(Outcome::is_final)
        };
        if self.triggers.newest.as_ref().is_some_and(is_unfinished) {
            self.put_outcome(Kind::Trigger, end);
        }
        let earliest_slot = if is_ahead(previous.slot, first_slot.slot) { first_slot.slot } else { previous.slot };
        self.last_slot = Some(LastSlot { slot: earliest_slot.max(first_slot.slot), attempt: 0 });
    }

    /// Forgets how a turn of this slot ended: it is claimed again. The newest failure stays on record.
    pub(super) fn forget_end(&mut self, slot: Timestamp) {
        self.finished = self.finished.filter(|finished| finished.slot != slot);
        // A word of a newer version was about the attempt before.
        if self.unknown.get(field::FINISHED) == Some(slot.to_rfc3339().as_str()) {
            self.unknown.remove(field::FINISHED);
            self.unknown.remove(field::OUTCOME);
        }
    }

    /// Puts on record how the newest turn of that kind ended.
    #[inline(never)]
    pub(super) fn put_outcome(&mut self, kind: Kind, end: End) {
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
        // What is read back is to be the same.
        let ended = Some(Ended { slot, triggered, end: end.in_millis() });
        match outcome {
            Outcome::Succeeded => self.success = ended,
            // The last attempt tells more, where its end was seen.
            Outcome::Abandoned
                if self
                    .failure
                    .is_some_and(|last| (last.slot, last.triggered) == (slot, triggered)) => {}
            // Work that was to last as long as the leadership, and did.
            Outcome::CutOff if kind == Kind::Slot && self.is_while_leading() => {}
            _ => {
                self.failure = ended;
                // The end of an abandoned turn is unknown.
                self.failure_detail =
                    ended.filter(|_| outcome != Outcome::Abandoned).map(|ended| {
                        let (at, candidate) = (ended.end.at, self.leader.clone());
                        FailureDetail { at, candidate, reason: String::new() }
                    });
            }
        }
    }

    /// Puts on record why the turn failed whose end was put on record last.
    pub(super) fn put_reason(&mut self, end: End, reason: &str) {
        let detail = self.failure_detail.as_mut();
        if let Some(detail) = detail.filter(|detail| detail.at == end.in_millis().at) {
            detail.reason = one_line(reason, LONGEST_REASON);
        }
    }

    /// Whether its work is one turn, which lasts as long as the leadership.
    fn is_while_leading(&self) -> bool {
        self.schedule.as_deref() == Some(WHILE_LEADING)
    }

    /// Claims the turn for a trigger.
    pub(super) fn start(&mut self, started: Started) {
        // A word of a newer version was about another claim.
        self.unknown.remove(field::TRIGGER_OUTCOME);
        self.triggers.claim(started, self.term);
    }

    /// Whether `self`, read from the blob, is what `written` was to put there.
    pub fn is_result_of(&self, written: &Self) -> bool {
        self.is_same_beat(written)
            && self.has_same_turns(written)
            && self.successor == written.successor
            && self.refusal == written.refusal
    }

    /// Whether both are of one term of one candidate, and of the same beat of it.
    pub(super) fn is_same_beat(&self, other: &Self) -> bool {
        (self.nonce, self.term, self.beat) == (other.nonce, other.term, other.beat)
    }

    /// Whether both tell the same of turns: what of the record changes within a term, beside beats and
    /// the successor.
    #[inline(never)]
    pub(super) fn has_same_turns(&self, other: &Self) -> bool {
        let turn_fields = |record: &Self| (record.last_slot, record.finished, record.success, record.failure);
        turn_fields(self) == turn_fields(other) && self.triggers.newest == other.triggers.newest
    }

    /// The leader of this record makes way for another one.
    pub(super) fn enter_history(&mut self) {
        if self.term > 0 {
            self.history.add(self.incumbent());
        }
    }

    /// The leaders before, the last one first.
    pub fn earlier_leaders(&self) -> Vec<Incumbent> {
        self.history.leaders().to_vec()
    }

    /// Who leads according to this record.
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
    pub(super) fn reads_orders(&self) -> bool {
        self.orders_term == Some(self.term)
    }

    /// Returns true if the leader of the newest term coordinates shares, and runs no work itself.
    pub(super) fn is_coordinated(&self) -> bool {
        self.coordinator_term == Some(self.term)
    }
}
