//! A request without an answer: the reason, and the advice.

use super::problem::{Problem, ProblemClass};
use serde::{Deserialize, Serialize};
use tenure_base::prelude::*;

/// The reason why there was no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// Detail from the host; empty if there is none.
    pub detail: String,
}

/// The kind of failure that prevented an answer. Only [`FailureKind::Denied`] proves that the
/// service did not act on the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// The request timed out.
    Timeout,
    /// The host name could not be resolved.
    Name,
    /// The connection was refused, or there is no route.
    Connect,
    /// The connection ended before the answer.
    Reset,
    /// The TLS certificate or protocol was not accepted.
    Tls,
    /// The host of this component does not allow the request.
    Denied,
    /// Any other failure.
    Other,
}

impl Failure {
    /// Returns the problem as one sentence. `name` is the request.
    pub fn to_problem(&self, name: &str, origin: &str) -> Problem {
        self.to_problem_with_advice(name, origin, None)
    }

    /// Returns the problem with the caller's advice in place of the general one.
    pub(crate) fn to_problem_with_advice(
        &self,
        name: &str,
        origin: &str,
        custom_advice: Option<&str>,
    ) -> Problem {
        let (class, description, advice) = match self.kind {
            FailureKind::Timeout => (
                ProblemClass::Unreachable,
                "did not answer in time",
                "check the network and any firewall in between",
            ),
            FailureKind::Name => (
                ProblemClass::Unreachable,
                "cannot be resolved",
                "check the account name, the endpoint suffix, and DNS on this machine",
            ),
            FailureKind::Connect => (
                ProblemClass::Unreachable,
                "does not accept a connection",
                "check that the endpoint and its port are right and the service runs",
            ),
            FailureKind::Reset => (
                ProblemClass::Unreachable,
                "closed the connection before it answered",
                "the request is retried; if this goes on, check proxies and firewalls in between",
            ),
            FailureKind::Tls => (
                ProblemClass::Unreachable,
                "cannot be trusted over TLS",
                "check the endpoint's certificate and the authorities that this machine trusts; --ca-file \
                 of tenure run adds others",
            ),
            FailureKind::Denied => (
                ProblemClass::Configuration,
                "is not an origin that this component may connect to",
                "allow that origin in the host's settings",
            ),
            // The detail is the cause, which need not be the network.
            FailureKind::Other => (
                ProblemClass::Unreachable,
                "could not be reached",
                if self.detail.is_empty() { "check the network" } else { "the request is retried" },
            ),
        };
        let detail = match self.detail.as_str() {
            "" => String::new(),
            detail => format!(" ({detail})"),
        };
        let advice = custom_advice.unwrap_or(advice);
        Problem { class, detail: format!("{name}: {origin} {description}{detail}; {advice}") }
    }
}
