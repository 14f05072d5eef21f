//! The check that a candidate without shares makes before it leads an election whose work was
//! split. protocol.md §14.6.
//!
//! The check lists the members' signs of life and the shares. The candidate leads only if no member
//! is alive and no share is held.

use core::time::Duration;

use super::side_blobs::side_blob_prefix;
use crate::protocol::context::CompletedRequest;
use crate::protocol::phase::{SplitCheck, SplitList};
use crate::record::metadata::Record;
use crate::record::text::{MAX_NAME, decode_allowed};
use crate::step::problem::{Problem, ProblemClass};
use crate::step::settings::Settings;
use tenure_azure::answer::Class;
use tenure_azure::blob::Metadata;
use tenure_azure::operation::Operation;
use tenure_base::prelude::*;

/// The field with a member's interval between two signs of life, in milliseconds.
const SIGN_INTERVAL: &str = "tenureinterval";

/// Maximum interval between two signs of life.
const MAX_SIGN_INTERVAL: Duration = Duration::from_secs(20);

/// Resolution of the dates from which ages are computed.
const SECOND: Duration = Duration::from_secs(1);

impl SplitList {
    fn suffix(self) -> &'static str {
        match self {
            Self::Members => "member.",
            Self::Shares => "share.",
        }
    }
}

impl SplitCheck {
    /// Returns the check that a candidate needs before it leads with `record`. None if the work was
    /// never split, or if the candidate coordinates shares itself.
    pub fn new(record: Option<&Record>, settings: &Settings) -> Option<Self> {
        let was_split = record.is_some_and(|record| record.coordinator_term.is_some());
        (was_split && !settings.coordinates)
            .then_some(Self { list: SplitList::Members, marker: None })
    }

    /// Returns the problem of a check that was not finished while the lease was valid.
    pub fn unfinished_problem() -> Problem {
        let detail = "the signs of life and the shares could not all be listed while the new lease was valid, so this candidate \
                      does not lead; delete the blobs BLOB.share.… of earlier splits, and check the network to the account"
            .into();
        Problem { class: ProblemClass::Configuration, detail }
    }

    /// Returns the request for the next page.
    pub fn operation(&self, settings: &Settings) -> Operation {
        let prefix = side_blob_prefix(&settings.election) + self.list.suffix();
        Operation::List { prefix, marker: self.marker.clone() }
    }

    /// Handles the answer. Returns the check with the next page, or none if the lists are complete.
    ///
    /// # Errors
    /// A member is alive, a share is held, or the list could not be read.
    pub fn on_answer(
        self,
        completed: &CompletedRequest<'_>,
        settings: &Settings,
    ) -> Result<Option<Self>, Problem> {
        let answer = match completed.reply {
            Ok(answer) => answer,
            Err(failure) => {
                return Err(
                    failure.to_problem(completed.operation.name(), settings.account.origin())
                );
            }
        };
        let page = match (answer.class, &answer.page) {
            (Class::Done, Some(page)) => page,
            (Class::Done, None) => {
                let detail =
                    "list blobs: the answer is not a list, or is incomplete; it is retried".into();
                return Err(Problem { class: ProblemClass::Nonsense, detail });
            }
            _ => {
                let mut problem = Problem::from_answer(answer, completed.operation, settings);
                problem.detail += "; the work was split into shares before, so this candidate leads only after it has seen \
                                   that no process with --shares is left";
                return Err(problem);
            }
        };
        let prefix = side_blob_prefix(&settings.election);
        for entry in &page.blobs {
            let Some(suffix) = entry.name.strip_prefix(&prefix) else { continue };
            let active = active_member_or_share(suffix, &entry.metadata, entry.age, entry.leased);
            if let Some(active) = active {
                let detail = format!(
                    "{} is split into shares, and {active}. This candidate would run all of the work beside it, so it \
                     does not lead. Start it with --shares, or end the processes that have it",
                    settings.election
                );
                return Err(Problem { class: ProblemClass::Configuration, detail });
            }
        }
        Ok(match (&page.next, self.list) {
            (Some(next), list) => Some(Self { list, marker: Some(next.clone()) }),
            (None, SplitList::Members) => Some(Self { list: SplitList::Shares, marker: None }),
            (None, SplitList::Shares) => None,
        })
    }
}

/// Returns a description of the live member or the held share that a side blob stands for, if any.
/// `suffix` is the part of the blob's name after that of the election's blob and a dot.
pub fn active_member_or_share(
    suffix: &str,
    metadata: &Metadata,
    age: Duration,
    is_leased: bool,
) -> Option<String> {
    living_member(suffix, metadata, age).or_else(|| held_share(suffix, is_leased))
}

/// Returns a description of the member with this sign of life, if the sign is at most three of its
/// intervals and a second old.
fn living_member(suffix: &str, metadata: &Metadata, age: Duration) -> Option<String> {
    let encoded = suffix.strip_prefix(SplitList::Members.suffix())?;
    let interval = metadata.get(SIGN_INTERVAL)?.parse().ok()?;
    let interval = Duration::from_millis(interval).clamp(SECOND, MAX_SIGN_INTERVAL);
    (age <= interval * 3 + SECOND).then(|| {
        let name = decode_allowed(encoded, MAX_NAME).unwrap_or_else(|| encoded.into());
        format!("the member {name} left a sign of life {} s ago", age.as_secs())
    })
}

/// Returns a description of the share with this blob, if its lease is held.
fn held_share(suffix: &str, is_leased: bool) -> Option<String> {
    let (split, rest) = suffix.strip_prefix(SplitList::Shares.suffix())?.split_once('.')?;
    let (index, count) = rest.split_once("-of-")?;
    let are_numbers = [split, index, count].iter().all(|part| part.parse::<u32>().is_ok());
    (are_numbers && is_leased).then(|| format!("share {index} of {count} is held"))
}
