//! Validation of the election's blob before a candidate acquires its lease.

use super::{MAX_BYTES, MAX_TERM_LEAD, RESERVED_BYTES, Record, RecordError, size};
use crate::step::clocks::Timestamp;
use tenure_azure::answer::Properties;
use tenure_azure::blob::BlobName;
use tenure_base::prelude::*;

/// The record of a blob that a candidate can lead with.
#[derive(Clone, Debug)]
pub struct ValidatedRecord {
    /// The record. None if no candidate has led yet.
    pub record: Option<Record>,
    /// Text about ignored fields, for the operator.
    pub ignored: Option<String>,
}

/// A blob that no candidate can lead with. It stays untouched.
#[derive(Clone, Debug)]
pub struct UnusableRecord {
    /// The reason and the advice.
    pub detail: String,
    /// True if the blob may become usable with time.
    pub depends_on_time: bool,
    /// True if the election is closed forever, so that no action is needed.
    pub is_closed: bool,
}

const UNTOUCHED: &str = "it is left untouched";
const OWN_BLOB: &str = "Give the election a blob of its own";

impl Record {
    /// Validates the election's blob as read at `time`, if that is known.
    ///
    /// # Errors
    /// No candidate can lead with the blob.
    pub fn validate(
        election: &BlobName,
        properties: &Properties,
        time: Option<Timestamp>,
    ) -> Result<ValidatedRecord, UnusableRecord> {
        let unusable = |detail| UnusableRecord { detail, depends_on_time: false, is_closed: false };
        let length = properties.content_length;
        if length > 0 {
            let problem = format!("{election} holds {length} bytes of data");
            return Err(unusable(format!("{problem}; {UNTOUCHED}. {OWN_BLOB}")));
        }
        let (record, ignored) = Self::parse_with_ignored(&properties.metadata).map_err(|error| {
            let is_closed = error == RecordError::Closed;
            let detail = match error {
                RecordError::Closed => format!(
                    "{election} is closed for good: the work was split again, and this share no longer exists"
                ),
                RecordError::Foreign(names) => {
                    let names = names.join(", ");
                    format!(
                        "{election} has metadata that is not Tenure's ({names}); {UNTOUCHED}. {OWN_BLOB}"
                    )
                }
                RecordError::Format(format) => format!(
                    "{election} has a record of format {format}, which this version does not \
                     know; {UNTOUCHED}. Update this candidate, or give the election a blob of its own"
                ),
                RecordError::Malformed(field) => format!(
                    "the record of {election} cannot be read: {field}; {UNTOUCHED}. {OWN_BLOB}, or \
                     delete the blob while no candidate runs"
                ),
            };
            UnusableRecord { is_closed, ..unusable(detail) }
        })?;
        if let (Some(record), Some(time)) = (&record, time) {
            record.validate_term(election, time)?;
        }
        let ignored = (!ignored.is_empty()).then(|| {
            format!(
                "the record of {election} holds data that no candidate wrote ({}), which is ignored. Find out who \
                 else may write to the blob",
                ignored.join(", ")
            )
        });
        Ok(ValidatedRecord { record, ignored })
    }

    /// Validates that an election can have reached this term at `time`. A term is one more than the
    /// previous term or the Unix time at which it was won, whichever is higher. So it cannot be far
    /// ahead of the clock.
    ///
    /// # Errors
    /// The term is too far ahead of `time`.
    pub fn validate_term(
        &self,
        election: &BlobName,
        time: Timestamp,
    ) -> Result<(), UnusableRecord> {
        if self.term <= time.plus(MAX_TERM_LEAD).seconds() {
            return Ok(());
        }
        let detail = format!(
            "the record of {election} has the term {}: as a Unix time, over ten years ahead of the service's \
             clock; {UNTOUCHED}. Find out who else may write to the blob, and delete it \
             while no candidate runs. Terms then start from the present time again, so reset the highest term in \
             every sink",
            self.term
        );
        Err(UnusableRecord { detail, depends_on_time: true, is_closed: false })
    }

    /// Validates the record with which a candidate would begin to lead.
    ///
    /// # Errors
    /// The record has no room for later additions, or would be unreadable.
    pub fn validate_next(&self, election: &BlobName) -> Result<(), UnusableRecord> {
        let written = self.to_metadata();
        let size = size(&written);
        let detail = match Self::from_metadata(&written) {
            Ok(_) if size + RESERVED_BYTES <= MAX_BYTES => return Ok(()),
            Ok(_) => format!(
                "the record of {election} is too large: with the fields that this version does not know, it takes \
                 {size} of {MAX_BYTES} bytes, and a leader needs {RESERVED_BYTES} of them free"
            ),
            Err(error) => {
                let part = match &error {
                    RecordError::Malformed(field) => field,
                    _ => "its format",
                };
                format!("the next record of {election} would be unreadable: {part}")
            }
        };
        let advice =
            "Find out who else may write to the blob, and delete it while no candidate runs";
        let detail = format!("{detail}; {UNTOUCHED}. {advice}");
        Err(UnusableRecord { detail, depends_on_time: false, is_closed: false })
    }
}
