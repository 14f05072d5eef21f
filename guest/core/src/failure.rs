//! A request that was not answered: why, and what to do about it.

use super::problem::{Problem, ProblemClass};
use serde::{Deserialize, Serialize};
use tenure_base::prelude::*;

/// Why there was no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind.
    pub kind: FailureKind,
    /// What the host says about it; empty when it says nothing.
    pub detail: String,
}

/// What kind of failure kept an answer away. None of them tells whether the
/// service acted on the request, except [`FailureKind::Denied`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// The time allowed passed.
    Timeout,
    /// The host name could not be resolved.
    Name,
    /// Nobody listens, or there is no way there.
    Connect,
    /// The connection ended before the answer.
    Reset,
    /// The certificate or the protocol of TLS.
    Tls,
    /// The host of this component does not let the request out.
    Denied,
    /// Anything else.
    Other,
}

impl Failure {
    /// The problem in one sentence. `name` is the request.
    pub fn to_problem(&self, name: &str, origin: &str) -> Problem {
        self.to_problem_with_advice(name, origin, None)
    }

    /// The same with advice of the caller's in place of the general one.
    pub(super) fn to_problem_with_advice(&self, name: &str, origin: &str, custom_advice: Option<&str>) -> Problem {
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
                "could not be asked",
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
