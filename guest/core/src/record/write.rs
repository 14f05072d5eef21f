//! Writing the record under the lease, with `If-Match`. After a try with an unknown outcome, a read
//! shows whether it was applied. protocol.md §4.3, §5.

use crate::Moment;
use crate::record::metadata::Record;
use crate::step::pace::RetrySchedule;
use serde::{Deserialize, Serialize};
use tenure_azure::answer::{Answer, Class};
use tenure_azure::blob::LeaseId;
use tenure_azure::operation::{ETag, Operation};
use tenure_base::prelude::*;

/// A record to be written to the blob.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Write {
    pub record: Record,
    /// The tag of the blob when this write was planned.
    pub etag: ETag,
    /// Time at which the newest try was sent, if its outcome is unknown. Then the record is read
    /// back before the next try.
    pub uncertain_since: Option<Moment>,
    pub pace: RetrySchedule,
}

/// The meaning of an answer for a write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The newest try, sent at this instant, is on the blob. The blob has this tag now.
    Done(ETag, Moment),
    /// The newest try is not on the blob. The blob has this record and tag instead.
    NotApplied(Option<Box<Record>>, ETag),
    /// The write is not confirmed: there was no usable answer, the service refused, or the blob has
    /// another version. An earlier try may have written that version, so the record is read back
    /// after a pause.
    Retry,
    /// The lease is lost.
    LeaseLost,
    /// The lease is held, but another candidate or program overwrote the record.
    Superseded,
}

impl Write {
    pub fn new(record: Record, etag: ETag, pace: RetrySchedule) -> Self {
        Self { record, etag, uncertain_since: None, pace }
    }

    /// Returns the next request: a read while in doubt, else the write. The read carries the lease
    /// id, so that it succeeds only while the lease is held.
    pub fn operation(&self, lease: LeaseId) -> Operation {
        if self.uncertain_since.is_some() {
            return Operation::Read { lease: Some(lease) };
        }
        Operation::WriteMetadata {
            lease,
            if_match: self.etag.clone(),
            metadata: self.record.to_metadata(),
        }
    }

    /// Handles the answer to the request of [`Write::operation`], which was sent at `sent`.
    pub fn on_answer(&mut self, answer: Option<&Answer>, sent: Moment) -> Progress {
        let Some(answer) = answer else { return self.mark_uncertain(sent) };
        match (answer.class, &answer.etag, self.uncertain_since) {
            (Class::Done, Some(etag), Some(sent_at)) => self.read_back(answer, etag, sent_at),
            (Class::Done, Some(etag), None) => Progress::Done(etag.clone(), sent),
            (Class::LeaseMismatch | Class::MissingBlob | Class::MissingContainer, ..) => {
                Progress::LeaseLost
            }
            // Not every conflict is about the lease: a policy may protect the blob.
            (Class::Conflict, ..)
                if answer.code.as_ref().is_none_or(|code| code.starts_with("Lease")) =>
            {
                Progress::LeaseLost
            }
            // Includes `ConditionNotMet`: a try of this write may have replaced the version in
            // `If-Match`.
            _ => self.mark_uncertain(sent),
        }
    }

    /// Prepares the next try, after a read found another record on the blob.
    pub fn restart(&mut self, found: Option<Box<Record>>, etag: ETag, now: Moment) {
        self.record.unknown = found.map(|found| found.unknown).unwrap_or_default();
        self.try_again(etag, now);
        if let Some(beat) = &mut self.record.beat {
            // An earlier try may still be applied, so the next one must differ from it.
            beat.number += 1;
        }
    }

    /// Prepares the next try, which replaces the version with that tag.
    pub fn try_again(&mut self, etag: ETag, now: Moment) {
        self.etag = etag;
        self.uncertain_since = None;
        self.pace.next_at = now;
    }

    fn mark_uncertain(&mut self, sent: Moment) -> Progress {
        self.uncertain_since.get_or_insert(sent);
        Progress::Retry
    }

    fn read_back(&mut self, answer: &Answer, etag: &ETag, sent_at: Moment) -> Progress {
        let metadata = answer.properties.as_ref().map(|properties| &properties.metadata);
        let Some(metadata) = metadata else { return self.mark_uncertain(sent_at) };
        match Record::from_metadata(metadata) {
            Ok(Some(found)) if found.is_result_of(&self.record) => {
                Progress::Done(etag.clone(), sent_at)
            }
            Ok(Some(found)) if self.is_superseded_by(&found) => Progress::Superseded,
            // Foreign or malformed: another program wrote this record, which must not be
            // overwritten.
            Err(_) => Progress::Superseded,
            Ok(found) => Progress::NotApplied(found.map(Box::new), etag.clone()),
        }
    }

    fn is_superseded_by(&self, found: &Record) -> bool {
        let is_own = found.term == self.record.term && found.nonce == self.record.nonce;
        found.term >= self.record.term && !is_own
    }
}
