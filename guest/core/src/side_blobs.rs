//! Blobs with content beside an election's, which a host keeps there. Nothing of an election is decided by them.

use super::credential_state::CredentialState;
use super::problem::{Problem, ProblemClass};
use super::settings::Settings;
use super::state;
use chrono::TimeDelta;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use tenure_azure::answer::{Answer, Class};
use tenure_azure::listing::Page;
use tenure_azure::name::BlobName;
use tenure_azure::operation::{ETag, Operation, WriteCondition};
use tenure_base::prelude::*;

/// The format of a session.
const VERSION: u8 = 1;

/// What is remembered from one request to the next.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Session {
    /// A token, if the credential needs one.
    pub credential: CredentialState,
    /// How far the service's clock is ahead of this machine's, in seconds, where a request was refused for that.
    clock_skew: i64,
}

impl Session {
    /// One from before; bytes that are none are as good as none.
    pub fn from_bytes(bytes: Option<&[u8]>) -> Self {
        let session =
            bytes.and_then(<[u8]>::split_first).filter(|(version, _)| **version == VERSION);
        session.and_then(|(_, rest)| state::decode(rest)).unwrap_or_default()
    }

    /// The first one, with a credential that has been used.
    pub fn new(credential: CredentialState) -> Self {
        Self { credential, clock_skew: 0 }
    }

    /// For the next request.
    pub fn to_bytes(&self) -> Vec<u8> {
        state::encode(VERSION, self)
    }

    /// How far the service's clock is ahead.
    pub fn clock_skew(&self) -> TimeDelta {
        TimeDelta::try_seconds(self.clock_skew).unwrap_or_default()
    }

    /// It is so far ahead.
    pub fn set_clock_skew(&mut self, ahead: TimeDelta) {
        self.clock_skew = ahead.num_seconds();
    }
}

/// A request about blobs with content beside an election's own: `BLOB.SUFFIX` for an election in `BLOB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SideRequest {
    /// Reads the content of a blob.
    Read {
        /// Its suffix.
        suffix: String,
        /// Unless it is still this version.
        if_none_match: Option<ETag>,
    },
    /// Writes a blob.
    Write(SideWrite),
    /// Deletes a blob.
    Delete {
        /// Its suffix.
        suffix: String,
        /// Only if it is still this version.
        tag: Option<ETag>,
    },
    /// Lists all blobs whose suffix begins so.
    List(String),
}

/// What is written to a blob beside an election's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideWrite {
    /// Its suffix.
    pub suffix: String,
    /// Its content.
    pub content: String,
    /// Names of lower-case letters only; values of printable ASCII. 8 KiB at most, all in all.
    pub metadata: Vec<(String, String)>,
    /// What may be there.
    pub over: WriteCondition,
}

/// A blob in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedBlob {
    /// Its suffix.
    pub suffix: String,
    /// Its version.
    pub tag: ETag,
    /// How long ago it was written, by the service's clock; up to a second more or less.
    pub age: Duration,
    /// Its metadata.
    pub metadata: Vec<(String, String)>,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SideAnswer {
    /// What was read, and its version.
    Content(String, ETag),
    /// It is still the version that is known.
    Unchanged,
    /// There is no such blob.
    Missing,
    /// It is that version now.
    Written(ETag),
    /// It is gone.
    Deleted,
    /// The blob is another version than the one that may be written over or deleted.
    Declined,
    /// A lease is held on it.
    Leased,
    /// All of a list.
    Listed(Vec<ListedBlob>),
}

/// The settings with the blob of that suffix in place of the election's.
///
/// # Errors
/// No blob can have that name.
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

/// What the names of all blobs beside an election begin with.
pub fn side_blob_prefix(election: &BlobName) -> String {
    format!("{}.", election.blob())
}

/// What an answer comes to, with the body that it had.
///
/// # Errors
/// Whether it was done is not known (classes `Unavailable` and `Nonsense`), or it is refused.
pub fn side_answer(
    operation: &Operation,
    answer: &Answer,
    body: Vec<u8>,
    settings: &Settings,
) -> Result<SideAnswer, Problem> {
    let nonsense = |problem: &str| nonsense(operation, settings, problem);
    match (answer.class, operation) {
        (Class::Done, Operation::ReadContent { .. }) => {
            let content_length = answer.properties.as_ref().map(|properties| properties.content_length);
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

/// A page of a list; none where there is not even the container.
///
/// # Errors
/// As [`judged`].
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
