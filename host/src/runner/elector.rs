//! The election logic behind the runner.

use crate::election::Election;
use std::time::Duration;
use tenure_core::{Event, Failure, FailureKind, Report, Request, Response, State};
use thiserror::Error;

/// Error of a failed step. The state of its candidate is void.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ElectorError(String);

impl ElectorError {
    /// Creates an error with this description.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Decides and acts in an election. Implemented by [`Election`] and by hosts of the election
/// component.
pub trait Elector: Send + Sync {
    /// Runs one step, like the WIT's `election.step`. Calls never overlap.
    fn step(
        &self,
        state: Option<State>,
        elapsed: Duration,
        event: Option<Event>,
    ) -> impl Future<Output = Result<Report, ElectorError>> + Send;

    /// Sends a background request of a report, outside the steps.
    fn send(&self, _: Request) -> impl Future<Output = Result<Response, Failure>> + Send {
        let detail = "this elector sends no background requests".to_owned();
        std::future::ready(Err(Failure { kind: FailureKind::Denied, detail }))
    }

    /// Returns the time that the newest step spent in the queue, or `None` if it is still queued.
    ///
    /// Queue time is unlimited; the limit of a step counts from its start.
    fn queue_time(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    /// Returns how late the newest step started, if the host is overloaded and should report it.
    fn lateness(&self) -> Option<Duration> {
        None
    }

    /// Returns the kind of the elector for logs: `native` for [`Election`], `component` for the
    /// election component.
    fn kind(&self) -> &'static str {
        "other"
    }

    /// Returns the names of the election and the candidate for the spans of `tracing`. Empty if
    /// unknown.
    fn names(&self) -> (&str, &str) {
        ("", "")
    }
}

impl Elector for Election {
    async fn step(
        &self,
        state: Option<State>,
        elapsed: Duration,
        event: Option<Event>,
    ) -> Result<Report, ElectorError> {
        self.ensure_checked().map_err(|invalid| ElectorError::new(invalid.to_string()))?;
        Ok(Election::step(self, state.as_ref(), elapsed, event).await)
    }

    async fn send(&self, request: Request) -> Result<Response, Failure> {
        Election::send(self, &request).await
    }

    fn kind(&self) -> &'static str {
        "native"
    }

    fn names(&self) -> (&str, &str) {
        let options = &self.settings().options;
        [&options.election, &options.name].map(|text| text.as_deref().unwrap_or_default()).into()
    }
}
