//! Sends what a member and the coordinator ask for.

use super::translate::{answer, requests, sign_of};
use std::sync::Arc;
use tenure::engine::Election;
use tenure_azure::operation::ETag;
use tenure_core::{LeaseState, Problem, ProblemClass, Request, Snapshot};
use tenure_shares::{Answer, Ask, Share, Tag};

/// The blobs beside the coordinating election, as one member uses them.
#[derive(Clone, Debug)]
pub struct SharesStore {
    election: Arc<Election>,
    member: String,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// For the member, or the leader.
    pub answer: Answer,
    /// For people, where something went wrong.
    pub problem: Option<Problem>,
}

impl SharesStore {
    /// Those beside that election, which was [checked](Election::check), for the member of that name.
    pub fn of(election: Arc<Election>, member: impl Into<String>) -> Self {
        Self { election, member: member.into() }
    }

    /// Does what is asked for: each blob that it concerns gets one request. It lasts as long as these do, a request
    /// time-out each at most. A sign is given up after its period: one that is lost must not delay the next one.
    pub async fn ask(&self, ask: &Ask) -> Told {
        if let Ask::Break { share, of } = ask {
            return self.break_lease(*share, *of).await;
        }
        let limit = match ask {
            Ask::Sign(sign) => Some(sign.pace.sign()),
            _ => None,
        };
        let mut outcomes = Vec::new();
        for request in requests(ask, &self.member) {
            outcomes.push(self.election.side_blob(request, limit).await);
        }
        let problem = outcomes.iter().find_map(|outcome| outcome.as_ref().err().cloned());
        let (answer, unread) = answer(ask, &self.member, outcomes);
        Told { answer, problem: problem.or(unread) }
    }

    /// Breaks the lease of a share whose holder does not give it up, and reports who that is.
    async fn break_lease(&self, share: Share, of: u32) -> Told {
        let election = self.election.for_suffix(&share.suffix(of));
        if let Err(invalid) = election.check() {
            let detail = invalid.to_string();
            let problem = Some(Problem { class: ProblemClass::Configuration, detail });
            return Told { answer: Answer::Refused, problem };
        }
        let holder = match election.inspect().await {
            Ok(Snapshot { lease, .. })
                if !matches!(lease, LeaseState::Leased | LeaseState::Breaking) =>
            {
                // It was given up meanwhile, or another failure keeps the share from being closed.
                return Told { answer: Answer::Done, problem: None };
            }
            Ok(Snapshot { incumbent: Some(leader), .. }) => leader.name,
            _ => "a process that could not be found out".to_owned(),
        };
        let (answer, outcome) = match election.break_lease(None).await {
            Ok(_) => {
                (Answer::Done, "its lease is broken, and ends without another renewal".to_owned())
            }
            Err(problem) => {
                (Answer::Unknown, format!("its lease could not be broken: {}", problem.detail))
            }
        };
        let detail = format!(
            "share {} of {of} is held by {holder}, which does not give it up although the work is split anew: {outcome}. Find out \
             why {holder} cannot read the plan, or restart it",
            share.index
        );
        let problem = Some(Problem { class: ProblemClass::Configuration, detail });
        Told { answer, problem }
    }

    /// The request that deletes the member's own sign if it is still this one, for a process that outlives this one. None:
    /// nothing authorises it now.
    pub fn deletion(&self, Tag(sign): &Tag) -> Option<Request> {
        self.election.deletion(&sign_of(&self.member), ETag(sign.clone()))
    }
}
