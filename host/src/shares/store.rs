//! Sends what a member and the coordinator ask for.

use super::translate::{answer, requests, sign_of};
use crate::component::{ComponentError, ElectionComponent};
use crate::contract::{Problem, Request};
use std::sync::Arc;
use tenure_shares::{Answer, Ask, Tag};

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
        let limit = match ask {
            Ask::Sign(sign) => Some(sign.pace.sign()),
            _ => None,
        };
        let mut outcomes = Vec::new();
        for request in requests(ask, &self.member) {
            outcomes.push(self.component.side_blob(request, limit).await?);
        }
        let problem = outcomes.iter().find_map(|outcome| outcome.as_ref().err().cloned());
        let (answer, unread) = answer(ask, outcomes);
        Ok(Told { answer, problem: problem.or(unread) })
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
