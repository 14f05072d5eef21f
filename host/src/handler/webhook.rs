//! A URL as a handler: each turn is a POST, sent from here.
//!
//! What is sent and what an answer means is decided in [`tenure_webhook`], for `tenure.wasm` too; when a call that
//! failed is made again, in `again`. Calls have the connections of their turn, which end with it: when the leadership
//! does, nothing more is written. What they set going behind the URL goes on all the same; there only the term
//! protects.

mod again;
#[cfg(test)]
mod tests;

use super::lines::HandlerLines;
use super::{BoxFuture, Handler, LineSink, TurnEnd};
use crate::egress::direct::{self, to_body, to_http};
use crate::egress::{AllowList, RootCertificates, Body, Budget, Error, Gate, Limits, Outlet, Policy};
use crate::lease::Lease;
use crate::settings::Variables;
use again::CallFailure;
use http_body_util::BodyExt;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure_clock::Clock;
use tenure_core::{Complaint, Failure, FailureKind, Request, SettingId, Turn, format_duration};
use tenure_webhook::{Call, Credentials, Target, variable, body_limit};
use tokio::time::{Instant, sleep, timeout};

/// Longer than any turn: what ends the call is its own time-out, or the end of the turn.
const NO_TIME_LIMIT: Duration = Duration::from_secs(366 * 24 * 3600);

/// How long the beginning of an error is waited for after its status came.
const BODY_TIMEOUT: Duration = Duration::from_secs(2);

/// A handler that posts each turn to a URL.
pub struct WebhookHandler {
    target: Target,
    variables: Arc<Variables>,
    /// As they were when they were last read.
    credentials: Mutex<Credentials>,
    /// Turns are delivered at least once.
    retries: bool,
    policy: Arc<Policy>,
    outlet: Outlet,
    lines: HandlerLines,
}

impl WebhookHandler {
    /// Posts as `variables` say, which are those of `tenure-webhook`. It trusts `authorities` beside whom the platform
    /// trusts. `repeats`: turns are delivered at least once. `clock` is the one that the runner uses.
    ///
    /// # Errors
    ///
    /// All that is wrong with the variables, and with the files that they name.
    pub fn new(
        variables: Variables,
        authorities: RootCertificates,
        retries: bool,
        output: Option<LineSink>,
        clock: &impl Clock,
    ) -> Result<Self, Vec<Complaint>> {
        let (target, credentials) = Target::read(&variables)?;
        let mut allow = AllowList::default();
        allow.allow(target.origin()).map_err(|_| {
            vec![Complaint {
                setting: SettingId::new(variable::URL),
                problem: "names a host that is neither a name nor an address".to_owned(),
                advice: "write it like https://example.com/tick".to_owned(),
            }]
        })?;
        let policy = Policy::streamed(allow, NO_TIME_LIMIT, u64::MAX);
        // A sidecar is reached by `localhost`.
        let outlet = Outlet::for_operator().with_root_certificates(authorities);
        Ok(Self {
            target,
            variables: Arc::new(variables),
            credentials: Mutex::new(credentials),
            retries,
            policy: Arc::new(policy),
            outlet,
            lines: HandlerLines::new(output, clock.handle()),
        })
    }

    /// Scheme, host and port that it calls: all of the URL that may be shown.
    pub fn origin(&self) -> &str {
        self.target.origin()
    }

    /// Calls until a call succeeds, or no other is to follow.
    async fn run_turn(&self, mut turn: Turn, lease: &Lease) -> Result<(), String> {
        let connections = self.outlet.open(turn.term, &turn.election, lease.clone());
        // Nothing is refused: the one URL is allowed.
        let (no_notices, budget) = (Arc::new(|_| {}), Budget::unlimited());
        let gate = Gate::for_turn(self.policy.clone(), &connections, no_notices, budget);
        let log_line = self.lines.turn().host_writer();
        let (started_at, time_limit) = (Instant::now(), turn.time_limit);
        let time_left = |bound: Option<Duration>| Some(bound?.saturating_sub(started_at.elapsed()));
        let mut calls = 0;
        loop {
            let (credentials, now) =
                (self.read_credentials(&log_line).await, chrono::Utc::now().timestamp());
            let mut call = Call::new(&turn, &self.target, &credentials, now);
            // Its lease is renewed meanwhile: only what was set for the calls ends them here.
            call.timeout = time_left(self.target.timeout()).unwrap_or(NO_TIME_LIMIT);
            calls += 1;
            let Err((failure, text)) = call_once(&call, gate.clone(), now).await else { return Ok(()) };
            let text = match (failure, self.target.timeout()) {
                // The time is that of all calls.
                (CallFailure::TimedOut, Some(total_timeout)) => {
                    call.timeout = total_timeout;
                    call.failure_text(&Failure { kind: FailureKind::Timeout, detail: String::new() })
                }
                _ => text,
            };
            let time_limit_left = [time_left(self.target.timeout()), time_left(time_limit)].into_iter().flatten().min();
            let Some(wait) = again::retry_delay(failure, self.retries, calls, time_limit_left) else {
                return Err(match calls {
                    1 => text,
                    calls => format!("{text}, at call {calls} of the turn"),
                });
            };
            log_line(format!("{text}; it is called again in {}", format_duration(wait)));
            sleep(wait).await;
            turn.valid_for = lease.remaining();
            turn.time_limit = time_left(time_limit);
        }
    }

    /// With what the next call is authorised, read anew. What cannot be used is told, and what was read before is
    /// used: files may be in the middle of a change.
    async fn read_credentials(&self, log_line: &impl Fn(String)) -> Credentials {
        let variables = self.variables.clone();
        let read = tokio::task::spawn_blocking(move || Credentials::read(&*variables)).await;
        let mut last_known = self.credentials.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(Ok(read)) => *last_known = read,
            Ok(Err(complaints)) => {
                let complaint_text = Complaint::join_all(&complaints);
                log_line(format!(
                    "the credentials that were read before are used, since others cannot be: {complaint_text}"
                ));
            }
            // The runtime ends.
            Err(_) => {}
        }
        last_known.clone()
    }
}

/// Makes one call.
async fn call_once(call: &Call, gate: Gate, now: i64) -> Result<(), (CallFailure, String)> {
    let request =
        to_request(call).map_err(|_| (CallFailure::Permanent, call.failure_text(&other_failure("the URL is not valid"))))?;
    let started_at = Instant::now();
    let answer = match timeout(call.timeout, gate.send(request, Limits::default())).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err((failure_kind(&error), call.failure_text(&to_failure(error)))),
        Err(_) => {
            let failure = Failure { kind: FailureKind::Timeout, detail: String::new() };
            return Err((CallFailure::TimedOut, call.failure_text(&failure)));
        }
    };
    let status = answer.status().as_u16();
    let retry_after = again::parse_retry_after(answer.headers().get(http::header::RETRY_AFTER), now);
    let time_left = call.timeout.saturating_sub(started_at.elapsed());
    let body = read_body(answer.into_body(), body_limit(status), BODY_TIMEOUT.min(time_left)).await;
    call.check_response(status, &body).map_err(|text| (CallFailure::Answered(status, retry_after), text))
}

impl Handler for WebhookHandler {
    fn on_tick(&self, turn: Turn, lease: Lease) -> BoxFuture<'_, TurnEnd> {
        Box::pin(async move {
            match self.run_turn(turn, &lease).await {
                Ok(()) => TurnEnd::Succeeded,
                Err(_) if lease.is_lost() => TurnEnd::CutOff,
                Err(text) => TurnEnd::Failed(text),
            }
        })
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.outlet.closed())
    }
}

impl fmt::Debug for WebhookHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = self.target.origin();
        f.debug_struct("WebhookHandler").field("origin", &origin).finish_non_exhaustive()
    }
}

fn to_request(call: &Call) -> http::Result<http::Request<Body>> {
    let request = Request::new(call.request.clone(), call.timeout);
    Ok(to_http(&request)?.map(to_body))
}

/// The beginning of a body, as much as comes in time: an answer is no less one without it.
async fn read_body(mut body: Body, max_bytes: usize, within: Duration) -> Vec<u8> {
    let mut bytes = Vec::new();
    let reading = async {
        while bytes.len() < max_bytes {
            let Some(Ok(frame)) = body.frame().await else { return };
            bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        }
    };
    let _ = timeout(within, reading).await;
    bytes
}

/// What an error tells of whether the call arrived.
fn failure_kind(error: &Error) -> CallFailure {
    match error {
        Error::NameResolution(_) | Error::ConnectionRefused | Error::ConnectTimeout | Error::NoRoute => {
            CallFailure::Unsent
        }
        Error::Denied | Error::TlsAlert { .. } | Error::Tls(_) => CallFailure::Permanent,
        _ => CallFailure::Unanswered,
    }
}

/// Why there was no answer. Only what was set for the call ends it: a time-out is another one.
fn to_failure(error: Error) -> Failure {
    match error {
        Error::ConnectTimeout => {
            Failure { kind: FailureKind::Connect, detail: "it took too long".to_owned() }
        }
        Error::ResponseTimeout => Failure { kind: FailureKind::Reset, detail: String::new() },
        error => direct::failure(error),
    }
}

fn other_failure(detail: &str) -> Failure {
    Failure { kind: FailureKind::Other, detail: detail.to_owned() }
}
