//! Blobs with content next to an election's, for use by the host. The election does not depend on
//! them.

use core::time::Duration;

use crate::step::credential_state::CredentialState;
use crate::step::problem::{Problem, ProblemClass};
use crate::step::report;
use crate::step::settings::Settings;
use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use tenure_azure::answer::{Answer, Class, Page};
use tenure_azure::blob::BlobName;
use tenure_azure::operation::{ETag, Operation, WriteCondition};
use tenure_base::prelude::*;

/// The version of a session's format.
const VERSION: u8 = 1;

/// State that the host keeps from one request about side blobs to the next.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Session {
    /// The state of the credential, such as a token.
    pub credential: CredentialState,
    /// Lead of the service's clock over this machine's, in seconds, measured when a request was
    /// refused for its date.
    clock_skew: i64,
}

impl Session {
    /// Decodes a session. Returns a new one if the bytes are missing or invalid.
    pub fn from_bytes(bytes: Option<&[u8]>) -> Self {
        let session =
            bytes.and_then(<[u8]>::split_first).filter(|(version, _)| **version == VERSION);
        session.and_then(|(_, rest)| report::decode_state(rest)).unwrap_or_default()
    }

    /// Creates a session with the state of a credential that was in use before.
    pub fn new(credential: CredentialState) -> Self {
        Self { credential, clock_skew: 0 }
    }

    /// Encodes the session, for the next request.
    pub fn to_bytes(&self) -> Vec<u8> {
        report::encode_state(VERSION, self)
    }

    /// Returns the lead of the service's clock.
    pub fn clock_skew(&self) -> TimeDelta {
        TimeDelta::try_seconds(self.clock_skew).unwrap_or_default()
    }

    /// Sets the lead of the service's clock.
    pub fn set_clock_skew(&mut self, skew: TimeDelta) {
        self.clock_skew = skew.num_seconds();
    }
}

/// A request about blobs with content next to an election's own: `BLOB.SUFFIX` for an election in
/// `BLOB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SideRequest {
    /// Reads the content of a blob.
    Read {
        /// Suffix of the blob.
        suffix: String,
        /// Known tag: if the blob still has it, the answer has no content.
        if_none_match: Option<ETag>,
    },
    /// Writes a blob.
    Write(SideWrite),
    /// Deletes a blob.
    Delete {
        /// Suffix of the blob.
        suffix: String,
        /// The tag that the blob must have to be deleted. None deletes any version.
        tag: Option<ETag>,
    },
    /// Lists all blobs whose suffix starts with this text.
    List(String),
}

/// A write to a blob next to an election's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideWrite {
    /// Suffix of the blob.
    pub suffix: String,
    /// The new content.
    pub content: String,
    /// The new metadata: names of lower-case letters only, values of printable ASCII. At most 8 KiB
    /// in total.
    pub metadata: Vec<(String, String)>,
    /// Condition on the existing blob.
    pub condition: WriteCondition,
}

/// A blob in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedBlob {
    /// Its suffix.
    pub suffix: String,
    /// Its version.
    pub tag: ETag,
    /// Time since it was written, by the service's clock; up to a second more or less.
    pub age: Duration,
    /// Its metadata.
    pub metadata: Vec<(String, String)>,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SideAnswer {
    /// The content and its version.
    Content(String, ETag),
    /// The blob still has the known version.
    Unchanged,
    /// There is no such blob.
    Missing,
    /// The blob has this version now.
    Written(ETag),
    /// The blob is deleted.
    Deleted,
    /// The blob has another version than the condition allows.
    Declined,
    /// The blob is leased.
    Leased,
    /// The complete list.
    Listed(Vec<ListedBlob>),
}

/// Returns settings whose election's blob is replaced by the blob with that suffix.
///
/// # Errors
/// The blob name is invalid.
pub fn side_blob_settings(mut settings: Settings, suffix: &str) -> Result<Settings, Problem> {
    settings.election = settings.election.side_blob(suffix).map_err(|broken_rules| Problem {
        class: ProblemClass::Configuration,
        detail: format!(
            "no blob can be named {}.{suffix}: {}",
            settings.election,
            broken_rules.join("; ")
        ),
    })?;
    Ok(settings)
}

/// Returns the common prefix of the names of all blobs next to an election.
pub fn side_blob_prefix(election: &BlobName) -> String {
    format!("{}.", election.blob())
}

/// Interprets the answer with this body.
///
/// # Errors
/// The request was refused, or it is unknown whether it was applied (classes `Unavailable` and
/// `Nonsense`).
pub fn side_answer(
    operation: &Operation,
    answer: &Answer,
    body: Vec<u8>,
    settings: &Settings,
) -> Result<SideAnswer, Problem> {
    let nonsense = |problem: &str| nonsense(operation, settings, problem);
    match (answer.class, operation) {
        (Class::Done, Operation::ReadContent { .. }) => {
            let content_length =
                answer.properties.as_ref().map(|properties| properties.content_length);
            let read_length = u64::try_from(body.len()).ok();
            let (Some(tag), true) = (answer.etag.clone(), content_length == read_length) else {
                return Err(nonsense("the answer is incomplete; the request is retried"));
            };
            let text = String::from_utf8(body);
            let text = text
                .map_err(|_| nonsense("the blob holds no text; find out who else writes to it"));
            Ok(SideAnswer::Content(text?, tag))
        }
        (Class::Done, Operation::Delete { .. }) => Ok(SideAnswer::Deleted),
        (Class::Done, _) => match answer.etag.clone() {
            Some(tag) => Ok(SideAnswer::Written(tag)),
            None => Err(nonsense("the answer has no version (ETag)")),
        },
        (Class::MissingBlob | Class::MissingContainer, _) => Ok(SideAnswer::Missing),
        (Class::ConditionNotMet, Operation::ReadContent { .. }) => Ok(SideAnswer::Unchanged),
        (Class::ConditionNotMet, _) => Ok(SideAnswer::Declined),
        (Class::LeaseMismatch, _) => Ok(SideAnswer::Leased),
        (Class::Conflict, _) if answer.code.as_deref() == Some("BlobAlreadyExists") => {
            Ok(SideAnswer::Declined)
        }
        _ => Err(Problem::from_answer(answer, operation, settings)),
    }
}

/// Interprets the answer to a request for a page of a list. None if there is no container.
///
/// # Errors
/// Same as [`side_answer`].
pub fn page(
    operation: &Operation,
    answer: &Answer,
    settings: &Settings,
) -> Result<Option<Page>, Problem> {
    match (answer.class, &answer.page) {
        (Class::Done, Some(page)) => Ok(Some(page.clone())),
        (Class::Done, None) => {
            Err(nonsense(operation, settings, "the answer is not a list, or is incomplete"))
        }
        (Class::MissingBlob | Class::MissingContainer, _) => Ok(None),
        _ => Err(Problem::from_answer(answer, operation, settings)),
    }
}

fn nonsense(operation: &Operation, settings: &Settings, problem: &str) -> Problem {
    let (name, blob) = (operation.name(), &settings.election);
    Problem { class: ProblemClass::Nonsense, detail: format!("{name} on {blob}: {problem}") }
}

#[cfg(test)]
mod tests;
