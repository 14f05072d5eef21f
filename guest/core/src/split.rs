//! The check of a candidate without shares before it leads an election whose work was split: it lists signs of life and
//! shares, and leads only if no member is alive and no share is held. protocol.md §14.6.

use core::time::Duration;

use super::context::Answered;
use super::phase::{List, SplitCheck};
use super::problem::{Problem, ProblemClass};
use super::record::Record;
use super::settings::Settings;
use super::side_blobs::beside_prefix;
use super::text::{LONGEST_NAME, fit};
use tenure_azure::answer::Class;
use tenure_azure::metadata::Metadata;
use tenure_azure::operation::Operation;
use tenure_base::prelude::*;

/// The milliseconds from one sign of life of a member to the next.
const EVERY: &str = "tenureinterval";

/// The longest time that a member may have between two signs.
const LONGEST_EVERY: Duration = Duration::from_secs(20);

/// Ages are differences of whole seconds.
const SECOND: Duration = Duration::from_secs(1);

impl List {
    fn suffix(self) -> &'static str {
        match self {
            Self::Signs => "member.",
            Self::Shares => "share.",
        }
    }
}

impl SplitCheck {
    /// The check that a candidate needs before it leads with `record`. None: its work was never split, or the candidate
    /// coordinates shares itself.
    pub fn begin(record: Option<&Record>, settings: &Settings) -> Option<Self> {
        let was_split = record.is_some_and(|record| record.coordinator_term.is_some());
        (was_split && !settings.coordinates).then_some(Self { list: List::Signs, marker: None })
    }

    /// The problem of a check that the validity of the lease was too short for.
    pub fn unfinished() -> Problem {
        let detail = "the signs of life and the shares could not all be listed while the new lease was valid, so this candidate \
                      does not lead; delete the blobs BLOB.share.… of earlier splits, and check the network to the account"
            .into();
        Problem { class: ProblemClass::Configuration, detail }
    }

    /// The request for the next page.
    pub fn operation(&self, settings: &Settings) -> Operation {
        let prefix = beside_prefix(&settings.election) + self.list.suffix();
        Operation::List { prefix, marker: self.marker.clone() }
    }

    /// Takes the answer. Returns the check with the page that follows, or none when nothing is left to list.
    ///
    /// # Errors
    /// A member is alive, a share is held, or neither can be found out now.
    pub fn answered(
        self,
        answered: &Answered<'_>,
        settings: &Settings,
    ) -> Result<Option<Self>, Problem> {
        let answer = match answered.reply {
            Ok(answer) => answer,
            Err(failure) => {
                return Err(failure.problem(answered.operation.name(), settings.account.origin()));
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
                let mut problem = Problem::of_answer(answer, answered.operation, settings);
                problem.detail += "; the work was split into shares before, so this candidate leads only after it has seen \
                                   that no process with --shares is left";
                return Err(problem);
            }
        };
        let prefix = beside_prefix(&settings.election);
        for entry in &page.blobs {
            let Some(suffix) = entry.name.strip_prefix(&prefix) else { continue };
            let found = at_work(suffix, &entry.metadata, entry.age, entry.leased);
            if let Some(found) = found {
                let detail = format!(
                    "{} is split into shares, and {found}. This candidate would run all of the work beside it, so it \
                     does not lead. Start it with --shares, or end the processes that have it",
                    settings.election
                );
                return Err(Problem { class: ProblemClass::Configuration, detail });
            }
        }
        Ok(match (&page.next, self.list) {
            (Some(next), list) => Some(Self { list, marker: Some(next.clone()) }),
            (None, List::Signs) => Some(Self { list: List::Shares, marker: None }),
            (None, List::Shares) => None,
        })
    }
}

/// Returns the member that is alive or the share that is held, for people, if a blob beside an election shows that.
/// `suffix` is what its name has behind that of the election and a dot.
pub fn at_work(suffix: &str, metadata: &Metadata, age: Duration, leased: bool) -> Option<String> {
    living_member(suffix, metadata, age).or_else(|| held_share(suffix, leased))
}

/// The member whose sign of life this is, if the sign is younger than three of its periods.
fn living_member(suffix: &str, metadata: &Metadata, age: Duration) -> Option<String> {
    let encoded = suffix.strip_prefix(List::Signs.suffix())?;
    let every = metadata.get(EVERY)?.parse().ok()?;
    let every = Duration::from_millis(every).clamp(SECOND, LONGEST_EVERY);
    (age <= every * 3 + SECOND).then(|| {
        let name = fit(encoded, LONGEST_NAME).unwrap_or_else(|| encoded.into());
        format!("the member {name} left a sign of life {} s before", age.as_secs())
    })
}

/// The share whose election this is, if its lease is held.
fn held_share(suffix: &str, leased: bool) -> Option<String> {
    let (split, rest) = suffix.strip_prefix(List::Shares.suffix())?.split_once('.')?;
    let (index, of) = rest.split_once("-of-")?;
    let are_numbers = [split, index, of].iter().all(|part| part.parse::<u32>().is_ok());
    (are_numbers && leased).then(|| format!("share {index} of {of} is held"))
}
