//! A URL as a handler: each turn is one POST, sent from here.
//!
//! What is sent and what an answer means is decided in [`tenure_webhook`], for `tenure.wasm` too. The call has the connections of its turn, which end with it: when the leadership does,
//! nothing more is written. What it set going behind the URL goes on all the same; there only the term
//! protects.

#[cfg(test)]
mod tests;

use super::{BoxFuture, Handler, TurnEnd};
use crate::contract::{Request, Turn};
use crate::deadline::Deadline;
use crate::egress::direct::{self, as_sent};
use crate::egress::{
    AllowList, Answers, Authorities, Budget, Gate, InvalidOrigin, Names, Outlet, Policy,
};
use http_body_util::BodyExt;
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
        trigger: turn.trigger,
        attempt: turn.attempt,
        past_due: turn.past_due,
        missed: turn.missed,
        valid_for: Duration::from_nanos(turn.valid_for),
        time_limit: turn.time_limit.map(Duration::from_nanos),
    };
    (turn, id)
}

fn request(call: &Call) -> http::Result<http::Request<WasiBody>> {
    let asked = &call.request;
    let request = Request {
        method: asked.method.as_str().to_owned(),
        url: format!("{}{}", asked.origin, asked.path_and_query),
        headers: asked.headers.clone(),
        body: asked.body.reveal().to_owned(),
        timeout: call.timeout,
    };
    Ok(request.to_http()?.map(as_sent))
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

/// Why there was no answer. Only what was set for the call ends it: a time-out is another one.
fn failure(error: Error) -> Failure {
    match error {
        Error::ConnectionTimeout => {
            Failure { kind: FailureKind::Connect, detail: "it took too long".to_owned() }
        }
        Error::ConnectionReadTimeout => Failure { kind: FailureKind::Reset, detail: String::new() },
        error => direct::failure(error),
    }
}

fn other(detail: &str) -> Failure {
    Failure { kind: FailureKind::Other, detail: detail.to_owned() }
}
