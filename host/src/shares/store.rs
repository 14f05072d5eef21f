//! Sends what a member and the coordinator ask for.

use super::translate::{answer, requests, sign_of};
use crate::component::{CheckError, ComponentError, ElectionComponent};
use crate::contract::{LeaseState, Problem, ProblemClass, Request, Snapshot};
use std::sync::Arc;
use tenure_shares::{Answer, Ask, Share, Tag};

/// The blobs beside the coordinating election, as one member uses them.
#[derive(Clone, Debug)]
pub struct SharesStore {
    component: Arc<ElectionComponent>,
    member: String,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// For the member, or the leader.
    pub answer: Answer,
    /// For people, where something went wrong.
    pub problem: Option<Problem>,
}

impl SharesStore {
    /// Those beside the election of that component, which was [checked](ElectionComponent::check), for the member of
    /// that name.
    pub fn of(component: Arc<ElectionComponent>, member: impl Into<String>) -> Self {
        Self { component, member: member.into() }
    }

    /// Does what is asked for: each blob that it concerns gets one request. It lasts as long as these do, a request
    /// time-out each at most. A sign is given up after its period: one that is lost must not delay the next one.
    ///
    /// # Errors
    ///
    /// When the component trapped. It may have been done.
    pub async fn ask(&self, ask: &Ask) -> Result<Told, ComponentError> {
        if let Ask::Break { share, of } = ask {
            return self.break_lease(*share, *of).await;
        }
        let limit = match ask {
            Ask::Sign(sign) => Some(sign.pace.sign()),
            _ => None,
        };
        let mut outcomes = Vec::new();
        for request in requests(ask, &self.member) {
            outcomes.push(self.component.side_blob(request, limit).await?);
        }
        let problem = outcomes.iter().find_map(|outcome| outcome.as_ref().err().cloned());
        let (answer, unread) = answer(ask, &self.member, outcomes);
        Ok(Told { answer, problem: problem.or(unread) })
    }

    /// Breaks the lease of a share whose holder does not give it up, and reports who that is.
    async fn break_lease(&self, share: Share, of: u32) -> Result<Told, ComponentError> {
        let election = self.component.for_suffix(&share.suffix(of));
        if let Err(CheckError::Component(error)) = election.check().await {
            return Err(error);
        }
        let holder = match election.inspect().await? {
            Ok(Snapshot { lease, .. })
                if !matches!(lease, LeaseState::Leased | LeaseState::Breaking) =>
            {
                // It was given up meanwhile, or another failure keeps the share from being closed.
                return Ok(Told { answer: Answer::Done, problem: None });
            }
            Ok(Snapshot { incumbent: Some(leader), .. }) => leader.name,
            _ => "a process that could not be found out".to_owned(),
        };
        let (answer, outcome) = match election.break_lease(None).await? {
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
        Ok(Told { answer, problem })
    }

    /// The request that deletes the member's own sign if it is still this one, for a process that outlives this one. None:
    /// nothing authorises it now.
    ///
    /// # Errors
    ///
    /// When the component trapped.
    pub async fn prepare(&self, Tag(sign): &Tag) -> Result<Option<Request>, ComponentError> {
        self.component.prepare(&sign_of(&self.member), sign).await
    }
}
