//! Who decides for the runner.

use crate::election::Election;
use std::time::Duration;
use tenure_core::{Event, Failure, FailureKind, Report, Request, Response, State};
use thiserror::Error;

/// A step failed, and the state of its candidate is void. The text says why, for people.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ElectorError(String);

impl ElectorError {
    /// A failure that `text` describes.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Decides and does what is due in an election: [`Election`], or what plays its part.
pub trait Elector: Send + Sync {
    /// One step, as the WIT's `election.step`. Never called twice at a time.
    fn step(
        &self,
        state: Option<State>,
        elapsed: Duration,
        event: Option<Event>,
    ) -> impl Future<Output = Result<Report, ElectorError>> + Send;

    /// Sends a request of a report beside the steps.
    fn send(&self, _: Request) -> impl Future<Output = Result<Response, Failure>> + Send {
        let detail = "this elector sends nothing beside its steps".to_owned();
        std::future::ready(Err(Failure { kind: FailureKind::Denied, detail }))
    }

    /// How long the newest step waited for others before it began. None: it has not begun, and may
    /// wait for as long as it takes. Only what comes after that can take too long.
    fn queue_time(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    /// How late the newest step began, where that is to be told: the host has too much to do.
    fn lateness(&self) -> Option<Duration> {
        None
    }

    /// What decides, for people and logs: `native` for [`Election`], `component` for the election component.
    fn kind(&self) -> &'static str {
        "other"
    }

    /// The election, and the name of the candidate: for the spans of `tracing`. Empty where nobody says.
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
