//! Store requests of a member and of the coordinator.

use super::translate::{side_requests, sign_suffix, to_response};
use std::sync::Arc;
use tenure::engine::Election;
use tenure_azure::operation::ETag;
use tenure_core::{LeaseState, Problem, ProblemClass, Request, Snapshot};
use tenure_shares::{Share, StoreRequest, StoreResponse, Tag};

/// Blobs next to the coordinating election's blob, as one member uses them.
#[derive(Clone, Debug)]
pub struct SharesStore {
    election: Arc<Election>,
    member: String,
}

/// Outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreReply {
    /// Response for the member or the leader.
    pub response: StoreResponse,
    /// Problem to report to the operator.
    pub problem: Option<Problem>,
}

impl SharesStore {
    /// Creates the store for the member of that name. The election was [checked](Election::check).
    pub fn new(election: Arc<Election>, member: impl Into<String>) -> Self {
        Self { election, member: member.into() }
    }

    /// Sends one request for each blob concerned, and waits for all of them. Each takes at most a
    /// request timeout.
    ///
    /// A sign of life times out after its interval, because a lost one must not delay the next one.
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
    /// outlives this one sends it. Returns `None` if nothing authorises the request now.
    pub fn delete_request(&self, Tag(sign): &Tag) -> Option<Request> {
        self.election.delete_request(&sign_suffix(&self.member), ETag(sign.clone()))
    }
}
