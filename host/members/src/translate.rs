//! Between the requests of [`tenure_shares`] and those about blobs.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::fmt::Display;
use std::time::Duration;
use tenure_azure::operation::{ETag, Over};
use tenure_core::{
    ListedBlob, Problem, ProblemClass, Record, SideAnswer as Done, SideRequest as Request,
    SideWrite as Write,
};
use tenure_shares::{Answer, Ask, Listed, Pace, Plan, Sign, Tag};

/// The suffix of the plan's blob.
const PLAN: &str = "plan";

/// What the suffixes of signs begin with.
const MEMBER: &str = "member.";

/// What stays as it is in a member's name: no dot, with which no blob's name may end.
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

const WEIGHT: &str = "tenureweight";
const MOST: &str = "tenuremaxshares";
/// In milliseconds.
const EVERY: &str = "tenureinterval";

type Outcome = Result<Done, Problem>;

/// The requests for it, in their order. `own`: the member that asks.
pub(super) fn requests(ask: &Ask, own: &str) -> Vec<Request> {
    let one = match ask {
        Ask::Sign(sign) => {
            let most = sign.most.map(|most| (MOST.to_owned(), most.to_string()));
            let weight = (WEIGHT.to_owned(), sign.weight.to_string());
            let every = (EVERY.to_owned(), sign.pace.sign().as_millis().to_string());
            let empty = write(sign_of(&sign.member), String::new(), Over::Anything);
            with(empty, [weight, every].into_iter().chain(most))
        }
        Ask::TakeBack => Request::Delete { suffix: sign_of(own), tag: None },
        Ask::ReadPlan(known) => {
            let unless = known.as_ref().map(|Tag(tag)| ETag(tag.clone()));
            Request::Read { suffix: PLAN.to_owned(), unless }
        }
        Ask::List => Request::List(MEMBER.to_owned()),
        Ask::WritePlan(plan, over) => {
            let over =
                over.as_ref().map_or(Over::Nothing, |Tag(tag)| Over::This(ETag(tag.clone())));
            // It fails for maps whose keys are no text alone.
            let content = serde_json::to_string(plan).unwrap_or_default();
            Request::Write(write(PLAN.to_owned(), content, over))
        }
        Ask::Close { shares, of } => {
            let closed = Record::closed();
            let fields = || closed.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
            let empty = |suffix| write(suffix, String::new(), Over::Anything);
            return shares.iter().map(|share| with(empty(share.suffix(*of)), fields())).collect();
        }
        // It is about the election of a share, and not about a blob beside it.
        Ask::Break { .. } => return Vec::new(),
        Ask::Remove(name, Tag(tag)) => {
            Request::Delete { suffix: sign_of(name), tag: Some(ETag(tag.clone())) }
        }
    };
    vec![one]
}

/// What became of it, by what became of its requests; and what is wrong with what was read. `own`: the member that asks.
pub(super) fn answer(ask: &Ask, own: &str, outcomes: Vec<Outcome>) -> (Answer, Option<Problem>) {
    if let Ask::Close { shares, .. } = ask {
        let done = |outcome: &Outcome| matches!(outcome, Ok(Done::Written(_)));
        let closed = shares.iter().zip(&outcomes).filter(|(_, outcome)| done(outcome));
        return (Answer::Closed(closed.map(|(share, _)| *share).collect()), None);
    }
    let answer = match (ask, outcomes.into_iter().next()) {
        (_, None) => Answer::Unknown,
        (_, Some(Err(problem))) if may_be_done(problem.class) => Answer::Unknown,
        (_, Some(Err(_))) => Answer::Refused,
        (_, Some(Ok(Done::Leased))) => return (Answer::Refused, Some(leased(ask, own))),
        (Ask::ReadPlan(_), Some(Ok(Done::Content(text, ETag(tag))))) => {
            return match serde_json::from_str::<Plan>(&text) {
                Ok(plan) if plan.is_sound(super::MOST_SHARES) => {
                    (Answer::Plan(plan, Tag(tag)), None)
                }
                Ok(_) => (Answer::Unknown, Some(no_plan(&"no leader writes such a plan"))),
                Err(error) => (Answer::Unknown, Some(no_plan(&error))),
            };
        }
        (Ask::ReadPlan(_), Some(Ok(Done::Unchanged))) => Answer::SamePlan,
        (Ask::ReadPlan(_), Some(Ok(Done::Missing))) => Answer::NoPlan,
        (Ask::List, Some(Ok(Done::Listed(blobs)))) => {
            Answer::Signs(blobs.into_iter().filter_map(sign).collect())
        }
        (Ask::List, Some(Ok(Done::Missing))) => Answer::Signs(Vec::new()),
        (Ask::WritePlan(plan, _), Some(Ok(Done::Written(ETag(tag))))) => {
            Answer::Plan(plan.clone(), Tag(tag))
        }
        (Ask::Sign(_), Some(Ok(Done::Written(ETag(tag))))) => Answer::Signed(Tag(tag)),
        // What is not there need not be deleted.
        (Ask::TakeBack | Ask::Remove(..), Some(Ok(Done::Deleted | Done::Missing))) => Answer::Done,
        _ => Answer::Refused,
    };
    (answer, None)
}

/// Whether it may have been done nevertheless.
fn may_be_done(class: ProblemClass) -> bool {
    use ProblemClass::{Nonsense, Unavailable, Unreachable};
    matches!(class, Unreachable | Unavailable | Nonsense)
}

/// The problem of a lease on a blob that Tenure never leases.
fn leased(ask: &Ask, own: &str) -> Problem {
    let (what, suffix) = match ask {
        Ask::Sign(sign) => ("the sign of life cannot be written", sign_of(&sign.member)),
        Ask::Remove(name, _) => ("the sign of life cannot be deleted", sign_of(name)),
        Ask::TakeBack => ("the sign of life cannot be deleted", sign_of(own)),
        _ => ("the plan of the shares cannot be written", PLAN.to_owned()),
    };
    let detail = format!(
        "{what}: another program holds a lease on the blob that has .{suffix} behind the name of the election's. Find out \
         which one, and end that lease (az storage blob lease break)"
    );
    Problem { class: ProblemClass::Configuration, detail }
}

fn no_plan(error: &dyn Display) -> Problem {
    let detail = format!(
        "the plan of the shares cannot be read ({error}), so nothing changes; find out who else may write beside the \
         election's blob. Then end all processes with shares, delete the blob that ends with .{PLAN} and those with \
         .share. in their names, and start the processes again"
    );
    Problem { class: ProblemClass::Configuration, detail }
}

pub(super) fn sign_of(member: &str) -> String {
    format!("{MEMBER}{}", utf8_percent_encode(member, NAME))
}

/// The sign in a list. None: no member wrote this.
fn sign(blob: ListedBlob) -> Option<Listed> {
    let number = |name: &str| {
        let found = blob.metadata.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.parse::<u32>().ok())
    };
    let member = percent_decode_str(blob.suffix.strip_prefix(MEMBER)?).decode_utf8().ok()?;
    let weight = number(WEIGHT)??;
    let pace = Pace::signing(Duration::from_millis(number(EVERY)??.into()));
    let most = match number(MOST) {
        None => None,
        Some(most) => Some(most?),
    };
    let sign = Sign { member: member.into_owned(), weight, most, pace };
    Some(Listed { sign, tag: Tag(blob.tag.0), age: blob.age })
}

fn write(suffix: String, content: String, over: Over) -> Write {
    Write { suffix, content, metadata: Vec::new(), over }
}

fn with(mut write: Write, metadata: impl IntoIterator<Item = (String, String)>) -> Request {
    write.metadata.extend(metadata);
    Request::Write(write)
}

#[cfg(test)]
mod tests;
