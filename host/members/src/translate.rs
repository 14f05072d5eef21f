//! Translates between the requests of [`tenure_shares`] and blob requests.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::fmt::Display;
use std::time::Duration;
use tenure_azure::operation::{ETag, WriteCondition};
use tenure_core::{
    ListedBlob, Problem, ProblemClass, Record, SideAnswer as Done, SideRequest as Request,
    SideWrite as Write,
};
use tenure_shares::{ListedSign, Plan, Sign, SignTiming, StoreRequest, StoreResponse, Tag};

const PLAN_SUFFIX: &str = "plan";

const MEMBER_PREFIX: &str = "member.";

/// Escapes everything but letters, digits, `-` and `_`. A blob's name must not end with a dot.
const ENCODED_IN_NAMES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

const WEIGHT_FIELD: &str = "tenureweight";
const MAX_SHARES_FIELD: &str = "tenuremaxshares";
/// In milliseconds.
const INTERVAL_FIELD: &str = "tenureinterval";

type Outcome = Result<Done, Problem>;

/// Returns the blob requests for a store request of member `own_name`, in order.
pub(super) fn side_requests(store_request: &StoreRequest, own_name: &str) -> Vec<Request> {
    let side_request = match store_request {
        StoreRequest::WriteSign(sign) => {
            let max_shares =
                sign.max_shares.map(|most| (MAX_SHARES_FIELD.to_owned(), most.to_string()));
            let weight = (WEIGHT_FIELD.to_owned(), sign.weight.to_string());
            let interval =
                (INTERVAL_FIELD.to_owned(), sign.timing.interval().as_millis().to_string());
            let empty =
                write(sign_suffix(&sign.member), String::new(), WriteCondition::Unconditional);
            with_metadata(empty, [weight, interval].into_iter().chain(max_shares))
        }
        StoreRequest::WithdrawSign => Request::Delete { suffix: sign_suffix(own_name), tag: None },
        StoreRequest::ReadPlan(known) => {
            let unless = known.as_ref().map(|Tag(tag)| ETag(tag.clone()));
            Request::Read { suffix: PLAN_SUFFIX.to_owned(), if_none_match: unless }
        }
        StoreRequest::ListSigns => Request::List(MEMBER_PREFIX.to_owned()),
        StoreRequest::WritePlan(plan, over) => {
            let over = over.as_ref().map_or(WriteCondition::IfAbsent, |Tag(tag)| {
                WriteCondition::IfMatch(ETag(tag.clone()))
            });
            // Serialization fails only for maps whose keys are not text.
            let content = serde_json::to_string(plan).unwrap_or_default();
            Request::Write(write(PLAN_SUFFIX.to_owned(), content, over))
        }
        StoreRequest::CloseShares { shares, count } => {
            let closed = Record::closed();
            let fields = || closed.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
            let empty = |suffix| write(suffix, String::new(), WriteCondition::Unconditional);
            return shares
                .iter()
                .map(|share| with_metadata(empty(share.suffix(*count)), fields()))
                .collect();
        }
        // This concerns the election of a share, not a blob next to it.
        StoreRequest::BreakLease { .. } => return Vec::new(),
        StoreRequest::RemoveSign(name, Tag(tag)) => {
            Request::Delete { suffix: sign_suffix(name), tag: Some(ETag(tag.clone())) }
        }
    };
    vec![side_request]
}

/// Returns the response of a store request, and the problem with the content that was read.
pub(super) fn to_response(
    store_request: &StoreRequest,
    own_name: &str,
    outcomes: Vec<Outcome>,
) -> (StoreResponse, Option<Problem>) {
    if let StoreRequest::CloseShares { shares, .. } = store_request {
        let is_written = |outcome: &Outcome| matches!(outcome, Ok(Done::Written(_)));
        let closed = shares.iter().zip(&outcomes).filter(|(_, outcome)| is_written(outcome));
        return (StoreResponse::Closed(closed.map(|(share, _)| *share).collect()), None);
    }
    let response = match (store_request, outcomes.into_iter().next()) {
        (_, None) => StoreResponse::Unknown,
        (_, Some(Err(problem))) if may_be_done(problem.class) => StoreResponse::Unknown,
        (_, Some(Err(_))) => StoreResponse::Refused,
        (_, Some(Ok(Done::Leased))) => {
            return (StoreResponse::Refused, Some(lease_problem(store_request, own_name)));
        }
        (StoreRequest::ReadPlan(_), Some(Ok(Done::Content(text, ETag(tag))))) => {
            return match serde_json::from_str::<Plan>(&text) {
                Ok(plan) if plan.is_valid(super::MAX_SHARES) => {
                    (StoreResponse::Plan(plan, Tag(tag)), None)
                }
                Ok(_) => {
                    (StoreResponse::Unknown, Some(invalid_plan(&"no leader writes such a plan")))
                }
                Err(error) => (StoreResponse::Unknown, Some(invalid_plan(&error))),
            };
        }
        (StoreRequest::ReadPlan(_), Some(Ok(Done::Unchanged))) => StoreResponse::PlanUnchanged,
        (StoreRequest::ReadPlan(_), Some(Ok(Done::Missing))) => StoreResponse::NoPlan,
        (StoreRequest::ListSigns, Some(Ok(Done::Listed(blobs)))) => {
            StoreResponse::Signs(blobs.into_iter().filter_map(parse_sign).collect())
        }
        (StoreRequest::ListSigns, Some(Ok(Done::Missing))) => StoreResponse::Signs(Vec::new()),
        (StoreRequest::WritePlan(plan, _), Some(Ok(Done::Written(ETag(tag))))) => {
            StoreResponse::Plan(plan.clone(), Tag(tag))
        }
        (StoreRequest::WriteSign(_), Some(Ok(Done::Written(ETag(tag))))) => {
            StoreResponse::Signed(Tag(tag))
        }
        (
            StoreRequest::WithdrawSign | StoreRequest::RemoveSign(..),
            Some(Ok(Done::Deleted | Done::Missing)),
        ) => StoreResponse::Done,
        _ => StoreResponse::Refused,
    };
    (response, None)
}

/// Returns true if the request may have succeeded despite the problem.
fn may_be_done(class: ProblemClass) -> bool {
    use ProblemClass::{Nonsense, Unavailable, Unreachable};
    matches!(class, Unreachable | Unavailable | Nonsense)
}

/// Returns the problem of a lease on a blob that Tenure never leases.
fn lease_problem(store_request: &StoreRequest, own_name: &str) -> Problem {
    let (failure, suffix) = match store_request {
        StoreRequest::WriteSign(sign) => {
            ("the sign of life cannot be written", sign_suffix(&sign.member))
        }
        StoreRequest::RemoveSign(name, _) => {
            ("the sign of life cannot be deleted", sign_suffix(name))
        }
        StoreRequest::WithdrawSign => ("the sign of life cannot be deleted", sign_suffix(own_name)),
        _ => ("the plan of the shares cannot be written", PLAN_SUFFIX.to_owned()),
    };
    let detail = format!(
        "{failure}: another program holds a lease on the blob whose name is that of the election's and .{suffix}. Find out \
         which one, and end that lease (az storage blob lease break)"
    );
    Problem { class: ProblemClass::Configuration, detail }
}

fn invalid_plan(error: &dyn Display) -> Problem {
    let detail = format!(
        "the plan of the shares cannot be read ({error}), so nothing changes; find out who else may write next to the \
         election's blob. Then end all processes with shares, delete the blob that ends with .{PLAN_SUFFIX} and those with \
         .share. in their names, and start the processes again"
    );
    Problem { class: ProblemClass::Configuration, detail }
}

pub(super) fn sign_suffix(member: &str) -> String {
    format!("{MEMBER_PREFIX}{}", utf8_percent_encode(member, ENCODED_IN_NAMES))
}

/// Parses a listed sign. Returns `None` if no member wrote it.
fn parse_sign(blob: ListedBlob) -> Option<ListedSign> {
    let number = |name: &str| {
        let field = blob.metadata.iter().find(|(known, _)| known == name);
        field.map(|(_, value)| value.parse::<u32>().ok())
    };
    let member = percent_decode_str(blob.suffix.strip_prefix(MEMBER_PREFIX)?).decode_utf8().ok()?;
    let weight = number(WEIGHT_FIELD)??;
    let pace = SignTiming::from_interval(Duration::from_millis(number(INTERVAL_FIELD)??.into()));
    let max_shares = match number(MAX_SHARES_FIELD) {
        None => None,
        Some(most) => Some(most?),
    };
    let sign = Sign { member: member.into_owned(), weight, max_shares, timing: pace };
    Some(ListedSign { sign, tag: Tag(blob.tag.0), age: blob.age })
}

fn write(suffix: String, content: String, condition: WriteCondition) -> Write {
    Write { suffix, content, metadata: Vec::new(), condition }
}

fn with_metadata(
    mut write: Write,
    metadata: impl IntoIterator<Item = (String, String)>,
) -> Request {
    write.metadata.extend(metadata);
    Request::Write(write)
}

#[cfg(test)]
mod tests;
