//! Who decides for the runner.

use crate::component::{ComponentError, ElectionComponent};
use crate::contract::{Event, Failure, FailureKind, Report, Request, Response, State};
use std::time::Duration;

/// Decides and does what is due in an election: the election component, or what plays its part.
pub trait Elector: Send + Sync {
    /// One step, as the WIT's `election.step`. Never called twice at a time.
    fn step(
        &self,
        state: Option<State>,
        elapsed: Duration,
        event: Option<Event>,
    ) -> impl Future<Output = Result<Report, ComponentError>> + Send;

    /// Sends a request of a report beside the steps.
    fn send(&self, _: Request) -> impl Future<Output = Result<Response, Failure>> + Send {
        let detail = "this elector sends nothing beside its steps".to_owned();
        std::future::ready(Err(Failure { kind: FailureKind::Denied, detail }))
    }

    /// How long the newest step waited for others before it began. None: it has not begun, and may
    /// wait for as long as it takes. Only what comes after that can take too long.
    fn waited(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    /// How late the newest step began, where that is to be told: the host has too much to do.
    fn late(&self) -> Option<Duration> {
        None
    }

    /// The election, and the name of the candidate: for the spans of `tracing`. Empty where nobody says.
    fn names(&self) -> (&str, &str) {
        ("", "")
    }
}

impl Elector for ElectionComponent {
    async fn step(
        &self,
        state: Option<State>,
        elapsed: Duration,
        event: Option<Event>,
    ) -> Result<Report, ComponentError> {
        self.is_granted().await?;
        ElectionComponent::step(self, state.as_ref(), elapsed, event).await
    }

    async fn send(&self, request: Request) -> Result<Response, Failure> {
        ElectionComponent::send(self, request).await
    }

    fn waited(&self) -> Option<Duration> {
        ElectionComponent::waited(self)
    }

    fn late(&self) -> Option<Duration> {
        ElectionComponent::late(self)
    }

    fn names(&self) -> (&str, &str) {
        ElectionComponent::names(self)
    }
}
