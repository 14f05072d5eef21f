//! The token with which a candidate authorises its requests, and the time of the next token
//! request.
//!
//! A token is renewed long before it expires. A failed renewal is reported, and is harmless while
//! the old token is valid.

use core::time::Duration;

use super::pace::{Chance, RetrySchedule};
use super::problem::{Failure, Problem, ProblemClass};
use crate::Moment;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tenure_azure::answer::Answer;
use tenure_azure::credential::{AuthSource, Credential};
use tenure_azure::identity::{Identity, Token, TokenError};
use tenure_azure::operation::Kind;
use tenure_azure::request::Request;
use tenure_azure::secret::Secret;
use tenure_base::prelude::*;

/// Time before a token's expiry at which it is renewed. It is at most half of the token's validity.
const RENEWAL_LEAD: Duration = Duration::from_secs(5 * 60);

/// Maximum wait between two tries of a failed token request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Minimum time-out of a token request.
pub(crate) const MIN_FETCH: Duration = Duration::from_millis(500);

/// Maximum time-out of a token request: identity endpoints are slower than storage.
pub const MAX_FETCH: Duration = Duration::from_secs(10);

/// Minimum age of a refused token before a new one is requested.
const MIN_AGE: Duration = Duration::from_secs(30);

/// A request for a token.
#[derive(Clone, Debug)]
pub struct TokenRequest {
    /// The request to send.
    pub request: Request,
    /// Time limit of the whole request.
    pub timeout: Duration,
}

/// The reply to a token request: status and body.
pub type TokenReply = Result<(u16, Vec<u8>), Failure>;

/// The state of a credential between requests: its token, and the time of the next token request.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CredentialState {
    token: Option<CachedToken>,
    /// The next try after a failed token request.
    pace: Option<RetrySchedule>,
    /// Number of times that the key or token in use was replaced. Wraps around.
    replacements: u32,
}

/// A token, and the instants of its life.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct CachedToken {
    #[serde(with = "tenure_azure::secret::revealed")]
    secret: Secret,
    fetched_at: Moment,
    renew_at: Moment,
    valid_until: Moment,
}

impl CredentialState {
    /// Returns the authorisation of a request at `now`. None if a token is needed first.
    pub fn auth_source(&self, credential: &Credential, now: Moment) -> Option<AuthSource> {
        match (credential, &self.token) {
            (Credential::Identity(_), Some(token)) if now < token.valid_until => {
                Some(AuthSource::Token(token.secret.clone()))
            }
            (Credential::Identity(_), _) => None,
            _ => Some(AuthSource::Credential),
        }
    }

    /// Returns a number that identifies the key or token in use: it changes with each replacement.
    pub fn replacements(&self) -> u32 {
        self.replacements
    }

    /// Records that another key or token is in use.
    pub fn on_replaced(&mut self) {
        self.replacements = self.replacements.wrapping_add(1);
    }

    /// Returns the end of the current token's validity. None if no token is needed.
    pub fn valid_until(&self, credential: &Credential, now: Moment) -> Option<Moment> {
        let Credential::Identity(_) = credential else { return None };
        Some(self.token.as_ref().map_or(now, |token| token.valid_until))
    }

    /// Returns the time of the next token request. None if no token is needed.
    pub fn due_at(&self, credential: &Credential) -> Option<Moment> {
        let Credential::Identity(_) = credential else { return None };
        let renew_at = self.token.as_ref().map_or(Moment::ZERO, |token| token.renew_at);
        Some(self.pace.map_or(renew_at, |pace| pace.next_at.max(renew_at)))
    }

    /// Returns the request for a token.
    pub fn token_request(credential: &Credential, timeout: Duration) -> Option<TokenRequest> {
        let Credential::Identity(identity) = credential else { return None };
        Some(TokenRequest { request: identity.request(), timeout })
    }

    /// Handles the reply to a token request. `sent` was read before the request was sent, `now`
    /// after the reply; `wall` is the time of day.
    ///
    /// # Errors
    /// The reply has no token. The request is retried after a pause.
    pub fn on_token_reply(
        &mut self,
        credential: &Credential,
        reply: TokenReply,
        (sent, now): (Moment, Moment),
        wall: DateTime<Utc>,
        chance: &mut dyn Chance,
    ) -> Result<(), Problem> {
        let Credential::Identity(identity) = credential else { return Ok(()) };
        let read = match reply {
            Ok((status, body)) => Token::from_response(status, &body, wall)
                .map_err(|error| token_problem(&error, identity)),
            Err(failure) => {
                let custom_advice =
                    matches!(identity, Identity::Imds { .. }).then_some(NOT_ON_AZURE);
                Err(failure.to_problem_with_advice(
                    Kind::RequestToken.name(),
                    identity.origin(),
                    custom_advice,
                ))
            }
        };
        match read {
            Ok(Token { secret, valid_for }) => {
                let lead = RENEWAL_LEAD.min(valid_for / 2);
                let (renew_at, valid_until) = (sent + (valid_for - lead), sent + valid_for);
                self.token = Some(CachedToken { secret, fetched_at: now, renew_at, valid_until });
                self.pace = None;
                self.on_replaced();
                Ok(())
            }
            Err(problem) => {
                // Failed tries are harmless until the current token expires; after that, nothing
                // can be sent. So the first try after the expiry comes at once, and the back-off
                // starts anew with it.
                let valid_until =
                    self.token.as_ref().map_or(Moment::ZERO, |token| token.valid_until);
                let is_same_outage =
                    |pace: &RetrySchedule| sent < valid_until || valid_until <= pace.next_at;
                let mut pace =
                    self.pace.filter(is_same_outage).unwrap_or(RetrySchedule::due_at(now));
                pace.on_failure(now, PATIENCE, chance);
                if sent < valid_until && valid_until.max(now) <= pace.next_at {
                    pace = RetrySchedule::due_at(valid_until.max(now));
                }
                self.pace = Some(pace);
                Err(problem)
            }
        }
    }

    /// Handles an answer of the service. Returns a problem if the same request is worth sending
    /// again at once, with another token.
    pub fn on_answer(
        &mut self,
        credential: &Credential,
        answer: &Answer,
        now: Moment,
    ) -> Option<Problem> {
        let Credential::Identity(identity) = credential else { return None };
        // An old token that is refused was revoked, or expired earlier than expected.
        let is_old = self.token.as_ref().is_some_and(|token| now >= token.fetched_at + MIN_AGE);
        if answer.status != 401 || !is_old {
            return None;
        }
        self.token = None;
        let name = identity.name();
        let detail = format!("the service refused the token of {name}; a new one is requested");
        Some(Problem { class: ProblemClass::Refused, detail })
    }
}

/// Returns true if an answer refuses the key or token that signed the request.
pub(crate) fn is_refused(answer: &Answer) -> bool {
    answer.status == 401
        || answer.status == 403 && answer.code.as_deref() == Some("AuthenticationFailed")
}

/// Advice if the metadata service does not answer. It exists only on Azure machines. Other machines
/// are usually laptops after `az login`.
const NOT_ON_AZURE: &str = "only machines of Azure have a managed identity. After az login, this gives a token for \
     about an hour: export AZURE_STORAGE_AUTH_TOKEN=\"$(az account get-access-token --resource \
     https://storage.azure.com/ --query accessToken -o tsv)\"";

fn token_problem(error: &TokenError, identity: &Identity) -> Problem {
    let (origin, name) = (identity.origin(), identity.name());
    let (class, detail) = match error {
        // At the metadata service, 404 means that the identity is not known yet.
        TokenError::Unavailable(404) if !matches!(identity, Identity::Imds { .. }) => {
            (ProblemClass::Refused, "answered 404; check its address".into())
        }
        TokenError::Refused(message) if identity.is_quoted_in(message) => (
            ProblemClass::Refused,
            format!(
                "refused {name}; the answer is not shown, since it holds the secret; check {}",
                advice(identity)
            ),
        ),
        TokenError::Refused(message) => (
            ProblemClass::Refused,
            format!("answered {message}; check {name}: {}", advice(identity)),
        ),
        TokenError::Unavailable(status) => (
            ProblemClass::Unavailable,
            format!(
                "answered {status}: it issues no tokens now; the request is retried after a pause"
            ),
        ),
        TokenError::Nonsense(what) => (
            ProblemClass::Nonsense,
            format!("gave no token: {what}; check that it is an identity endpoint"),
        ),
    };
    Problem { class, detail: format!("{}: {origin} {detail}", Kind::RequestToken.name()) }
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
