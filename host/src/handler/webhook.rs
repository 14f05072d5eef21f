//! A URL as a handler: each turn is one POST, sent from here.
//!
//! What is sent and what an answer means is decided in [`tenure_webhook`], for `tenure.wasm` too. The call has the connections of its turn, which end with it: when the leadership does,
//! nothing more is written. What it set going behind the URL goes on all the same; there only the term
//! protects.

#[cfg(test)]
mod tests;

use super::{BoxFuture, Handler, TurnEnd};
use crate::contract::Turn;
use crate::deadline::Deadline;
use crate::egress::{
    AllowList, Answers, Authorities, Budget, Gate, InvalidOrigin, Names, Outlet, Policy,
};
use bytes::Bytes;
use http::uri::InvalidUri;
use http::{HeaderName, HeaderValue, Method, Request};
use http_body_util::{BodyExt, Full};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Failure, FailureKind, Timestamp, TurnId};
use tenure_webhook::{Call, Target, wanted};
use tokio::time::timeout;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

/// Longer than any turn: what ends the call is its own time-out, or the end of the turn.
const PATIENCE: Duration = Duration::from_secs(366 * 24 * 3600);

/// How long the beginning of an error is waited for after its status came.
const WORDS: Duration = Duration::from_secs(2);

/// Posts turns to the URL that an operator named.
pub struct WebhookHandler {
    target: Target,
    policy: Arc<Policy>,
    outlet: Outlet,
}

impl WebhookHandler {
    /// Trusts `authorities` beside whom the platform trusts.
    ///
    /// # Errors
    ///
    /// When the host in the URL can be none, an address with five numbers for example.
    pub fn new(target: Target, authorities: Authorities) -> Result<Self, InvalidOrigin> {
        let mut allow = AllowList::default();
        allow.allow(target.origin())?;
        let policy = Policy { allow, patience: PATIENCE, answers: Answers::Streamed(u64::MAX) };
        // It was judged together with the URL.
        let term_header = target.term_header().parse().unwrap_or_default();
        // A sidecar is reached by `localhost`.
        let outlet = Outlet::new(term_header, Names::OfAll).trusting(authorities);
        Ok(Self { target, policy: Arc::new(policy), outlet })
    }

    async fn call(&self, turn: Turn, lease: &Deadline) -> Result<(), String> {
        let connections = self.outlet.open(turn.term, &turn.election, lease.clone());
        let (turn, id) = known(turn);
        let call = Call::of(&turn, &id, &self.target);
        // Its lease is renewed meanwhile: only what was set for the call ends it here.
        let call = Call { timeout: self.target.timeout().unwrap_or(PATIENCE), ..call };
        // Nothing is refused: the one URL is allowed.
        let (tell, budget) = (Arc::new(|_| {}), Budget::unlimited());
        let gate = Gate::of_turn(self.policy.clone(), &connections, tell, budget);
        let request = request(&call).map_err(|_| call.failed(&other("the URL is not valid")))?;
        let sent = timeout(call.timeout, gate.send(request, RequestOptions::default())).await;
        let answer = match sent {
            Ok(answer) => answer.map_err(failure),
            Err(_) => Err(Failure { kind: FailureKind::Timeout, detail: String::new() }),
        };
        let answer = answer.map_err(|failure| call.failed(&failure))?;
        let status = answer.status().as_u16();
        let words = read(answer.into_body(), wanted(status)).await;
        call.judge(status, &words)
    }
}

impl Handler for WebhookHandler {
    fn on_tick(&self, turn: Turn, lease: Deadline) -> BoxFuture<'_, TurnEnd> {
        Box::pin(async move {
            match self.call(turn, &lease).await {
                Ok(()) => TurnEnd::Succeeded,
                Err(_) if lease.passed() => TurnEnd::CutOff,
                Err(text) => TurnEnd::Failed(text),
            }
        })
    }
}

impl fmt::Debug for WebhookHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = self.target.origin();
        f.debug_struct("WebhookHandler").field("origin", &origin).finish_non_exhaustive()
    }
}

/// The same turn, as the core knows it.
fn known(turn: Turn) -> (tenure_core::Turn, TurnId) {
    let id = TurnId { election: turn.election, key: turn.key };
    let turn = tenure_core::Turn {
        term: turn.term,
        slot: Timestamp(turn.slot),
        value: turn.value,
        attempt: turn.attempt,
        past_due: turn.past_due,
        missed: turn.missed,
        valid_for: Duration::from_nanos(turn.valid_for),
        time_limit: turn.time_limit.map(Duration::from_nanos),
    };
    (turn, id)
}

fn request(call: &Call) -> Result<Request<WasiBody>, http::Error> {
    let asked = &call.request;
    let url = format!("{}{}", asked.origin, asked.path_and_query);
    let url: Result<http::Uri, InvalidUri> = url.parse();
    let body = Full::new(Bytes::copy_from_slice(asked.body.reveal().as_bytes()));
    let body = body.map_err(|never| match never {}).boxed_unsync();
    let mut request = Request::builder().method(Method::POST).uri(url?).body(body)?;
    for (name, value) in &asked.headers {
        let name: HeaderName = name.parse()?;
        request.headers_mut().insert(name, HeaderValue::from_str(value)?);
    }
    Ok(request)
}

/// The beginning of a body, as much as comes in time: an answer is no less one without it.
async fn read(mut body: WasiBody, most: usize) -> Vec<u8> {
    let mut read = Vec::new();
    let reading = async {
        while read.len() < most {
            let Some(Ok(frame)) = body.frame().await else { return };
            read.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        }
    };
    let _ = timeout(WORDS, reading).await;
    read
}

/// Why there was no answer. Of the cases of the standard, those that the way out of here has.
fn failure(error: Error) -> Failure {
    let failure = |kind, detail: &str| Failure { kind, detail: detail.to_owned() };
    match error {
        Error::DnsError { rcode, .. } => failure(FailureKind::Name, &rcode.unwrap_or_default()),
        Error::ConnectionTimeout => failure(FailureKind::Connect, "it took too long"),
        Error::ConnectionRefused | Error::DestinationIpUnroutable => {
            failure(FailureKind::Connect, "")
        }
        Error::ConnectionTerminated | Error::ConnectionReadTimeout => {
            failure(FailureKind::Reset, "")
        }
        Error::TlsAlertReceived { alert_message, .. } => {
            failure(FailureKind::Tls, &alert_message.unwrap_or_default())
        }
        Error::InternalError(Some(detail)) if detail.starts_with("TLS") => {
            failure(FailureKind::Tls, &detail)
        }
        Error::InternalError(Some(detail)) => other(&detail),
        error => other(&error.to_string()),
    }
}

fn other(detail: &str) -> Failure {
    Failure { kind: FailureKind::Other, detail: detail.to_owned() }
}
