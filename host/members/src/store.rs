//! Store requests of a member and of the coordinator, and their translation to requests for the
//! blobs next to the election's blob.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tenure::engine::Election;
use tenure_azure::operation::{ETag, WriteCondition};
use tenure_core::{
    LeaseState, ListedBlob, Problem, ProblemClass, Record, Request, SideAnswer, SideRequest,
    SideWrite, Snapshot,
};
use tenure_shares::{ListedSign, Plan, Share, Sign, SignTiming, StoreRequest, StoreResponse, Tag};

/// Blobs next to the coordinating election's blob, as one member uses them.
#[derive(Clone, Debug)]
pub struct SharesStore {
    election: Arc<Election>,
    member: String,
}

/// Outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreReply {
    /// Response for the member or the coordinator.
    pub response: StoreResponse,
    /// Problem to report to the operator.
    pub problem: Option<Problem>,
}

impl SharesStore {
    /// Creates the store for the member of that name. `election` was [checked](Election::check).
    pub fn new(election: Arc<Election>, member: impl Into<String>) -> Self {
        Self { election, member: member.into() }
    }

    /// Sends one request for each blob concerned, one after the other. Each takes at most a request
    /// timeout.
    ///
    /// The write of a sign of life times out after the interval between signs, because a lost write
    /// must not delay the next sign.
    pub async fn send(&self, store_request: &StoreRequest) -> StoreReply {
        if let StoreRequest::BreakLease { share, count } = store_request {
            return self.break_lease(*share, *count).await;
        }
        let limit = match store_request {
            StoreRequest::WriteSign(sign) => Some(sign.timing.interval()),
            _ => None,
        };
        let mut outcomes = Vec::new();
        for request in side_requests(store_request, &self.member) {
            outcomes.push(self.election.send_side_request(request, limit).await);
        }
        let problem = outcomes.iter().find_map(|outcome| outcome.as_ref().err().cloned());
        let (response, read_problem) = to_response(store_request, &self.member, outcomes);
        StoreReply { response, problem: problem.or(read_problem) }
    }

    /// Breaks the lease of a share whose holder does not release it, and reports the holder.
    async fn break_lease(&self, share: Share, count: u32) -> StoreReply {
        let election = self.election.with_suffix(&share.suffix(count));
        if let Err(invalid) = election.check() {
            let detail = invalid.to_string();
            let problem = Some(Problem { class: ProblemClass::Configuration, detail });
            return StoreReply { response: StoreResponse::Refused, problem };
        }
        let holder = match election.inspect().await {
            Ok(Snapshot { lease, .. })
                if !matches!(lease, LeaseState::Leased | LeaseState::Breaking) =>
            {
                // The lease was released meanwhile, or another failure prevents closing the share.
                return StoreReply { response: StoreResponse::Done, problem: None };
            }
            Ok(Snapshot { incumbent: Some(leader), .. }) => leader.name,
            _ => "an unknown process".to_owned(),
        };
        let (response, outcome) = match election.break_lease(None).await {
            Ok(_) => {
                (StoreResponse::Done, "its lease is broken, so it cannot be renewed".to_owned())
            }
            Err(problem) => (
                StoreResponse::Unknown,
                format!("its lease could not be broken: {}", problem.detail),
            ),
        };
        let detail = format!(
            "share {} of {count} is held by {holder}, which does not release it although the split changes: {outcome}. Find out \
             why {holder} cannot read the plan, or restart it",
            share.index
        );
        let problem = Some(Problem { class: ProblemClass::Configuration, detail });
        StoreReply { response, problem }
    }

    /// Returns the request that deletes the member's own sign if it is unchanged. A process that
    /// outlives this one sends it. Returns `None` if no credential can authorise the request now.
    pub fn delete_request(&self, Tag(tag): &Tag) -> Option<Request> {
        self.election.delete_request(&sign_suffix(&self.member), ETag(tag.clone()))
    }
}

const PLAN_SUFFIX: &str = "plan";

const MEMBER_PREFIX: &str = "member.";

/// Escaped characters in members' names: all but letters, digits, `-` and `_`. Dots are escaped,
/// because a blob's name must not end with one.
const ENCODED_IN_NAMES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

const WEIGHT_FIELD: &str = "tenureweight";
const MAX_SHARES_FIELD: &str = "tenuremaxshares";
/// In milliseconds.
const INTERVAL_FIELD: &str = "tenureinterval";

type Outcome = Result<SideAnswer, Problem>;

/// Returns the blob requests for a store request of member `own_name`, in order.
fn side_requests(store_request: &StoreRequest, own_name: &str) -> Vec<SideRequest> {
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
        StoreRequest::WithdrawSign => {
            SideRequest::Delete { suffix: sign_suffix(own_name), tag: None }
        }
        StoreRequest::ReadPlan(known) => {
            let if_none_match = known.as_ref().map(|Tag(tag)| ETag(tag.clone()));
            SideRequest::Read { suffix: PLAN_SUFFIX.to_owned(), if_none_match }
        }
        StoreRequest::ListSigns => SideRequest::List(MEMBER_PREFIX.to_owned()),
        StoreRequest::WritePlan(plan, read) => {
            let condition = read.as_ref().map_or(WriteCondition::IfAbsent, |Tag(tag)| {
                WriteCondition::IfMatch(ETag(tag.clone()))
            });
            // Serialization fails only for maps whose keys are not text.
            let content = serde_json::to_string(plan).unwrap_or_default();
            SideRequest::Write(write(PLAN_SUFFIX.to_owned(), content, condition))
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
        // `SharesStore::break_lease` sends this request to the election of the share.
        StoreRequest::BreakLease { .. } => return Vec::new(),
        StoreRequest::RemoveSign(name, Tag(tag)) => {
            SideRequest::Delete { suffix: sign_suffix(name), tag: Some(ETag(tag.clone())) }
        }
    };
    vec![side_request]
}

/// Returns the response of a store request, and the problem with the content that was read.
fn to_response(
    store_request: &StoreRequest,
    own_name: &str,
    outcomes: Vec<Outcome>,
) -> (StoreResponse, Option<Problem>) {
    if let StoreRequest::CloseShares { shares, .. } = store_request {
        let is_written = |outcome: &Outcome| matches!(outcome, Ok(SideAnswer::Written(_)));
        let closed = shares.iter().zip(&outcomes).filter(|(_, outcome)| is_written(outcome));
        return (StoreResponse::Closed(closed.map(|(share, _)| *share).collect()), None);
    }
    let response = match (store_request, outcomes.into_iter().next()) {
        (_, None) => StoreResponse::Unknown,
        (_, Some(Err(problem))) if may_be_done(problem.class) => StoreResponse::Unknown,
        (_, Some(Err(_))) => StoreResponse::Refused,
        (_, Some(Ok(SideAnswer::Leased))) => {
            return (StoreResponse::Refused, Some(lease_problem(store_request, own_name)));
        }
        (StoreRequest::ReadPlan(_), Some(Ok(SideAnswer::Content(text, ETag(tag))))) => {
            return match serde_json::from_str::<Plan>(&text) {
                Ok(plan) if plan.is_valid(crate::MAX_SHARES) => {
                    (StoreResponse::Plan(plan, Tag(tag)), None)
                }
                Ok(_) => {
                    let problem = invalid_plan(&"no coordinator writes such a plan");
                    (StoreResponse::Unknown, Some(problem))
                }
                Err(error) => (StoreResponse::Unknown, Some(invalid_plan(&error))),
            };
        }
        (StoreRequest::ReadPlan(_), Some(Ok(SideAnswer::Unchanged))) => {
            StoreResponse::PlanUnchanged
        }
        (StoreRequest::ReadPlan(_), Some(Ok(SideAnswer::Missing))) => StoreResponse::NoPlan,
        (StoreRequest::ListSigns, Some(Ok(SideAnswer::Listed(blobs)))) => {
            StoreResponse::Signs(blobs.into_iter().filter_map(parse_sign).collect())
        }
        (StoreRequest::ListSigns, Some(Ok(SideAnswer::Missing))) => {
            StoreResponse::Signs(Vec::new())
        }
        (StoreRequest::WritePlan(plan, _), Some(Ok(SideAnswer::Written(ETag(tag))))) => {
            StoreResponse::Plan(plan.clone(), Tag(tag))
        }
        (StoreRequest::WriteSign(_), Some(Ok(SideAnswer::Written(ETag(tag))))) => {
            StoreResponse::Signed(Tag(tag))
        }
        (
            StoreRequest::WithdrawSign | StoreRequest::RemoveSign(..),
            Some(Ok(SideAnswer::Deleted | SideAnswer::Missing)),
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

fn sign_suffix(member: &str) -> String {
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
    let timing = SignTiming::from_interval(Duration::from_millis(number(INTERVAL_FIELD)??.into()));
    let max_shares = match number(MAX_SHARES_FIELD) {
        None => None,
        Some(most) => Some(most?),
    };
    let sign = Sign { member: member.into_owned(), weight, max_shares, timing };
    Some(ListedSign { sign, tag: Tag(blob.tag.0), age: blob.age })
}

fn write(suffix: String, content: String, condition: WriteCondition) -> SideWrite {
    SideWrite { suffix, content, metadata: Vec::new(), condition }
}

fn with_metadata(
    mut write: SideWrite,
    metadata: impl IntoIterator<Item = (String, String)>,
) -> SideRequest {
    write.metadata.extend(metadata);
    SideRequest::Write(write)
}

#[cfg(test)]
mod translate_tests;
