//! The token that a candidate authorises its requests with, and when to ask for the next one.
//!
//! A token is renewed long before it expires. One that cannot be renewed is a problem, and harms nobody
//! while the old one is good.

use core::time::Duration;

use super::Moment;
use super::chance::Chance;
use super::failure::Failure;
use super::pace::Pace;
use super::problem::{Problem, ProblemClass};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tenure_azure::answer::Answer;
use tenure_azure::credential::{Credential, Pass};
use tenure_azure::identity::Identity;
use tenure_azure::operation::Kind;
use tenure_azure::request::Request;
use tenure_azure::secret::Secret;
use tenure_azure::token::{NoToken, Token};
use tenure_base::prelude::*;

/// How long before its end a token is renewed, and never before half of its time is over.
const EARLY: Duration = Duration::from_secs(5 * 60);

/// The longest wait between two tries for a token.
const PATIENCE: Duration = Duration::from_secs(10);

/// The least time that a request for a token is given.
pub(super) const LEAST_FETCH: Duration = Duration::from_millis(500);

/// The longest that a request for a token may take: identity endpoints are slower than storage.
pub const LONGEST_FETCH: Duration = Duration::from_secs(10);

/// A token that the service refuses is asked for anew, but not more often than this.
const YOUNG: Duration = Duration::from_secs(30);

/// A request for a token.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// What to send.
    pub request: Request,
    /// The longest that it may take, everything included.
    pub timeout: Duration,
}

/// The answer to one: status, body, and the time of day.
pub type Fetched = Result<(u16, Vec<u8>), Failure>;

/// The state of a credential between requests: its token, and when to ask for the next one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CredentialState {
    token: Option<Held>,
    /// When to ask for a token again, after it failed.
    pace: Option<Pace>,
    /// Number of times that the key or token in use was replaced. Wraps around.
    changes: u32,
}

/// A token.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Held {
    #[serde(with = "tenure_azure::secret::revealed")]
    secret: Secret,
    since: Moment,
    renew_at: Moment,
    until: Moment,
}

impl CredentialState {
    /// What a request at `now` is authorised with; none when a token is needed first.
    pub fn pass(&self, credential: &Credential, now: Moment) -> Option<Pass> {
        match (credential, &self.token) {
            (Credential::Identity(_), Some(held)) if now < held.until => {
                Some(Pass::Token(held.secret.clone()))
            }
            (Credential::Identity(_), _) => None,
            _ => Some(Pass::Own),
        }
    }

    /// Identifies the key or token that signs requests now: it differs after each change.
    pub fn changes(&self) -> u32 {
        self.changes
    }

    /// Another key or token is used from now on.
    pub fn changed(&mut self) {
        self.changes = self.changes.wrapping_add(1);
    }

    /// Until when the token in hand is good; none where none is needed.
    pub fn until(&self, credential: &Credential, now: Moment) -> Option<Moment> {
        let Credential::Identity(_) = credential else { return None };
        Some(self.token.as_ref().map_or(now, |held| held.until))
    }

    /// When a token is to be asked for; none when none is needed.
    pub fn due(&self, credential: &Credential) -> Option<Moment> {
        let Credential::Identity(_) = credential else { return None };
        let renew_at = self.token.as_ref().map_or(Moment::ZERO, |held| held.renew_at);
        Some(self.pace.map_or(renew_at, |pace| pace.next.max(renew_at)))
    }

    /// The request for a token.
    pub fn fetch(credential: &Credential, timeout: Duration) -> Option<Fetch> {
        let Credential::Identity(identity) = credential else { return None };
        Some(Fetch { request: identity.request(), timeout })
    }

    /// Takes the answer. `sent` was read before it was asked for; `wall` is the time of day.
    ///
    /// # Errors
    /// There is no token in it. It is asked for again after a pause.
    pub fn fetched(
        &mut self,
        credential: &Credential,
        reply: Fetched,
        (sent, now): (Moment, Moment),
        wall: DateTime<Utc>,
        chance: &mut dyn Chance,
    ) -> Result<(), Problem> {
        let Credential::Identity(identity) = credential else { return Ok(()) };
        let read = match reply {
            Ok((status, body)) => {
                Token::read(status, &body, wall).map_err(|no| problem_of(&no, identity))
            }
            Err(failure) => {
                let instead = matches!(identity, Identity::Imds { .. }).then_some(NOT_ON_AZURE);
                Err(failure.advised(Kind::AskForToken.name(), identity.origin(), instead))
            }
        };
        match read {
            Ok(Token { secret, valid_for }) => {
                let early = EARLY.min(valid_for / 2);
                let (renew_at, until) = (sent + (valid_for - early), sent + valid_for);
                self.token = Some(Held { secret, since: now, renew_at, until });
                self.pace = None;
                self.changed();
                Ok(())
            }
            Err(problem) => {
                // Nothing can be sent when the one in hand has ended: the first try after that, with all the
                // time that there is, does not wait, and those that follow do not pay for the early ones.
                let ends = self.token.as_ref().map_or(Moment::ZERO, |held| held.until);
                let goes_on = |pace: &Pace| sent < ends || ends <= pace.next;
                let mut pace = self.pace.filter(goes_on).unwrap_or(Pace::at(now));
                pace.failed(now, PATIENCE, chance);
                if sent < ends && ends.max(now) <= pace.next {
                    pace = Pace::at(ends.max(now));
                }
                self.pace = Some(pace);
                Err(problem)
            }
        }
    }

    /// Takes notice of an answer of the service. Returns a problem if the same request is worth sending again
    /// at once, with another token.
    pub fn answered(
        &mut self,
        credential: &Credential,
        answer: &Answer,
        now: Moment,
    ) -> Option<Problem> {
        let Credential::Identity(identity) = credential else { return None };
        // Revoked, or the directory has another end for it.
        let old = self.token.as_ref().is_some_and(|held| now >= held.since + YOUNG);
        if answer.status != 401 || !old {
            return None;
        }
        self.token = None;
        let name = identity.name();
        let detail = format!("the service refused the token of {name}; a new one is requested");
        Some(Problem { class: ProblemClass::Refused, detail })
    }
}

/// Returns true if an answer refuses the key or token that signed the request.
pub(super) fn is_refused(answer: &Answer) -> bool {
    answer.status == 401
        || answer.status == 403 && answer.code.as_deref() == Some("AuthenticationFailed")
}

/// The metadata service exists on machines of Azure alone. The usual other machine is a laptop after `az login`.
const NOT_ON_AZURE: &str = "only machines of Azure have a managed identity. After az login, this gives a token for \
     about an hour: export AZURE_STORAGE_AUTH_TOKEN=\"$(az account get-access-token --resource \
     https://storage.azure.com/ --query accessToken -o tsv)\"";

fn problem_of(no: &NoToken, identity: &Identity) -> Problem {
    let (origin, name) = (identity.origin(), identity.name());
    let (class, what) = match no {
        // At the metadata service it is the identity that is not known yet.
        NoToken::Unavailable(404) if !matches!(identity, Identity::Imds { .. }) => {
            (ProblemClass::Refused, "answered 404; check its address".into())
        }
        NoToken::Refused(words) if identity.is_told_by(words) => (
            ProblemClass::Refused,
            format!(
                "refused {name}; the answer is not shown, since it holds the secret; check {}",
                advice(identity)
            ),
        ),
        NoToken::Refused(words) => {
            (ProblemClass::Refused, format!("answered {words}; check {name}: {}", advice(identity)))
        }
        NoToken::Unavailable(status) => (
            ProblemClass::Unavailable,
            format!(
                "answered {status}: it issues no tokens now; the request is retried after a pause"
            ),
        ),
        NoToken::Nonsense(what) => (
            ProblemClass::Nonsense,
            format!("gave no token: {what}; check that it is an identity endpoint"),
        ),
    };
    Problem { class, detail: format!("{}: {origin} {what}", Kind::AskForToken.name()) }
}

fn advice(identity: &Identity) -> &'static str {
    match identity {
        Identity::Imds { .. } | Identity::Endpoint { .. } => {
            "this machine or app needs a managed identity; AZURE_CLIENT_ID chooses among several"
        }
        Identity::Application { .. } => {
            "AZURE_TENANT_ID, AZURE_CLIENT_ID, and the secret or the federated credential of the \
             application"
        }
    }
}
