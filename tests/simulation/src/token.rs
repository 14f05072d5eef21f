//! Tokens that expire, the endpoint that issues them, and their check by the service.

use std::sync::Arc;
use std::time::Duration;

use tenure_azure::Account;
use tenure_azure::credential::Credential;
use tenure_azure::shared_key::{authorization, decoded_query, string_to_sign};
use tenure_core::{Failure, FailureKind, TokenReply};
use tenure_store::{Request, Response};

use super::fault::Fault;
use super::history::{Answer, CandidateId, HistoryEvent};
use super::network;
use super::plan::Trait;
use super::world::{Millis, World};

/// Shortest and longest lifetime of a token, in seconds.
pub const LIFETIME_RANGE: (u64, u64) = (20, 90);

const BEARER: &str = "Bearer until-";

/// Requests a token from the identity endpoint.
///
/// # Errors
/// If the endpoint does not respond in time.
pub async fn fetch(world: &Arc<World>, candidate: CandidateId, timeout: Duration) -> TokenReply {
    world.note(HistoryEvent::TokenRequested(candidate));
    let now = world.now();
    let (answered_at, result) = {
        let mut state = world.state();
        let latency = world.plan.latency;
        let answered_at = now + state.network.between(2 * latency.least, 2 * latency.most);
        let has_noise = now < world.plan.calm && state.network.permille(world.plan.noise_permille);
        let failure = match state.token_failure(candidate, now) {
            Some(Ok(status)) => Some(Ok((status, b"{}".to_vec()))),
            Some(Err(_)) => Some(Err(())),
            None if has_noise || network::current_outage(&state, candidate, now).is_some() => {
                Some(Err(()))
            }
            None => None,
        };
        let result = failure.unwrap_or_else(|| {
            let seconds = state.network.between(LIFETIME_RANGE.0, LIFETIME_RANGE.1);
            let token = format!("until-{}", answered_at + 1_000 * seconds);
            let body = format!(r#"{{"access_token":"{token}","expires_in":"{seconds}"}}"#);
            Ok((200, body.into_bytes()))
        });
        (answered_at, result)
    };
    if result.is_err() {
        let until = now + u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        world.note(HistoryEvent::FaultInjected(Fault::AnswerLost, Some(candidate), until));
    }
    let timeout_error = Err(Failure { kind: FailureKind::Timeout, detail: String::new() });
    let wait = Duration::from_millis(answered_at - now);
    let Ok(answer) = result else {
        tokio::time::sleep(timeout).await;
        world.wait_until_running(candidate).await;
        return timeout_error;
    };
    tokio::time::sleep(wait.min(timeout)).await;
    world.wait_until_running(candidate).await;
    if wait > timeout {
        return timeout_error;
    }
    if answer.0 == 200 {
        world.state().coverage.add_trait(Trait::Tokens);
    }
    Ok(answer)
}

/// Returns the expiry of a request's token, or `None` without a token.
pub fn expiry_of(request: &Request) -> Option<Millis> {
    let (_, value) = request.headers.iter().find(|(name, _)| name == "authorization")?;
    value.strip_prefix(BEARER)?.parse().ok()
}

/// Returns a request with a checked token in the form that the store accepts.
pub fn sign_as_account(account: &Account, request: &Request, date: &str) -> Request {
    let Credential::SharedKey(key) = account.credential() else { return request.clone() };
    let mut request = request.clone();
    request.headers.retain(|(name, _)| name != "authorization");
    request.headers.push(("x-ms-date".into(), date.into()));
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let (query, name) = (decoded_query(query), account.name());
    let text = string_to_sign(&request.method, path, &query, &request.headers, name);
    request.headers.push(("authorization".into(), authorization(name, key, &text)));
    request
}

/// Returns the response to an expired token.
pub fn expired_response(date: &str) -> (Response, Answer) {
    const CODE: &str = "InvalidAuthenticationInfo";
    let headers = [
        ("x-ms-error-code", CODE),
        ("x-ms-request-id", "of-the-front-end"),
        ("Date", date),
        ("Content-Length", "0"),
    ];
    let headers = headers.map(|(name, value)| (name.to_string(), value.to_string()));
    let response = Response { status: 401, headers: headers.into(), ..Response::default() };
    (response, Answer { status: 401, code: CODE, lease: None })
}
