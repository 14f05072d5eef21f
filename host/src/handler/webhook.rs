//! Handler that sends a POST request to a URL for each turn.
//!
//! [`tenure_webhook`] builds the requests and interprets the responses, for `tenure.wasm` too.
//!
//! Calls that may have arrived are retried only with at-least-once delivery.
//!
//! Calls use the connections of their turn. When leadership ends, the connections close, and
//! nothing more is sent. Work that the receiver has started continues; only fencing by the term
//! protects against it.

#[cfg(test)]
mod retry_tests;
#[cfg(test)]
mod tests;

use super::lines::HandlerLines;
use super::{BoxFuture, Handler, LineSink, TurnEnd};
use crate::egress::direct::{self, to_body, to_http};
use crate::egress::{
    AllowList, Body, Budget, Error, Gate, Limits, Outlet, Policy, RootCertificates,
};
use crate::lease::Lease;
use crate::settings::Variables;
use http_body_util::BodyExt;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure_clock::Clock;
use tenure_core::{Complaint, Failure, FailureKind, Request, SettingId, Turn, format_duration};
use tenure_webhook::{Call, Credentials, Target, body_limit, variable};
use tokio::time::{Instant, sleep, timeout};

/// Stands for no timeout. It is longer than any turn, so the turn ends first.
const NO_TIME_LIMIT: Duration = Duration::from_secs(366 * 24 * 3600);

/// Longest wait for the start of an error body after its status.
const BODY_TIMEOUT: Duration = Duration::from_secs(2);

/// Handler that posts each turn to a URL.
pub struct WebhookHandler {
    target: Target,
    variables: Arc<Variables>,
    /// Credentials as of the last successful read.
    credentials: Mutex<Credentials>,
    /// True for at-least-once delivery.
    retries: bool,
    policy: Arc<Policy>,
    outlet: Outlet,
    lines: HandlerLines,
}

impl WebhookHandler {
    /// Creates a handler from `variables`, which are those of `tenure-webhook`.
    ///
    /// `root_certificates` are trusted in addition to those of the platform. `retries` is true for
    /// at-least-once delivery. `clock` is the clock of the runner.
    ///
    /// # Errors
    ///
    /// Returns all complaints about the variables and the files that they name.
    pub fn new(
        variables: Variables,
        root_certificates: RootCertificates,
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
        // The URL may name a sidecar on `localhost`, so local addresses are allowed.
        let outlet = Outlet::for_operator().with_root_certificates(root_certificates);
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

    /// Returns the scheme, host and port of the URL. The remaining URL may be secret.
    pub fn origin(&self) -> &str {
        self.target.origin()
    }

    /// Calls the URL until a call succeeds or must not be retried.
    async fn run_turn(&self, mut turn: Turn, lease: &Lease) -> Result<(), String> {
        let connections = self.outlet.open(turn.term, &turn.election, lease.clone());
        // The only URL is allowed, so no request is denied.
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
            // The lease is renewed during the call, so only the configured timeout bounds the call.
            call.timeout = time_left(self.target.timeout()).unwrap_or(NO_TIME_LIMIT);
            calls += 1;
            let Err((failure, text)) = call_once(&call, gate.clone(), now).await else {
                return Ok(());
            };
            let text = match (failure, self.target.timeout()) {
                // The timeout applies to all calls together.
                (CallFailure::TimedOut, Some(total_timeout)) => {
                    call.timeout = total_timeout;
                    call.failure_text(&Failure {
                        kind: FailureKind::Timeout,
                        detail: String::new(),
                    })
                }
                _ => text,
            };
            let time_limit_left = [time_left(self.target.timeout()), time_left(time_limit)]
                .into_iter()
                .flatten()
                .min();
            let Some(wait) = retry_delay(failure, self.retries, calls, time_limit_left) else {
                return Err(match calls {
                    1 => text,
                    calls => format!("{text}, at call {calls} of the turn"),
                });
            };
            log_line(format!("{text}; retrying in {}", format_duration(wait)));
            sleep(wait).await;
            turn.valid_for = lease.remaining();
            turn.time_limit = time_left(time_limit);
        }
    }

    /// Reads the credentials for the next call. On failure it logs the complaints and returns the
    /// last known credentials, because files may be in the middle of a change.
    async fn read_credentials(&self, log_line: &impl Fn(String)) -> Credentials {
        let variables = self.variables.clone();
        let read = tokio::task::spawn_blocking(move || Credentials::read(&*variables)).await;
        let mut last_known = self.credentials.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(Ok(read)) => *last_known = read,
            Ok(Err(complaints)) => {
                let complaint_text = Complaint::join_all(&complaints);
                log_line(format!(
                    "the credentials could not be read again, so the former ones stay in use: {complaint_text}"
                ));
            }
            // The runtime is shutting down.
            Err(_) => {}
        }
        last_known.clone()
    }
}

/// Makes one call. On failure, returns its kind and a text for the log.
async fn call_once(call: &Call, gate: Gate, now: i64) -> Result<(), (CallFailure, String)> {
    let request = to_request(call).map_err(|_| {
        (CallFailure::Permanent, call.failure_text(&direct::other_failure("the URL is not valid")))
    })?;
    let started_at = Instant::now();
    let answer = match timeout(call.timeout, gate.send(request, Limits::default())).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            return Err((classify_error(&error), call.failure_text(&to_failure(error))));
        }
        Err(_) => {
            let failure = Failure { kind: FailureKind::Timeout, detail: String::new() };
            return Err((CallFailure::TimedOut, call.failure_text(&failure)));
        }
    };
    let status = answer.status().as_u16();
    let retry_after = parse_retry_after(answer.headers().get(http::header::RETRY_AFTER), now);
    let time_left = call.timeout.saturating_sub(started_at.elapsed());
    let body = read_body(answer.into_body(), body_limit(status), BODY_TIMEOUT.min(time_left)).await;
    call.check_response(status, &body)
        .map_err(|text| (CallFailure::Answered(status, retry_after), text))
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

/// Reads the start of a body, as far as it arrives in time. The response counts even without it.
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

/// Classifies an error by whether the call may have arrived.
fn classify_error(error: &Error) -> CallFailure {
    match error {
        Error::NameResolution(_)
        | Error::ConnectionRefused
        | Error::ConnectTimeout
        | Error::NoRoute => CallFailure::Unsent,
        Error::Denied | Error::TlsAlert { .. } | Error::Tls(_) => CallFailure::Permanent,
        _ => CallFailure::Unanswered,
    }
}

/// Converts the error of a call without a response. A response timeout that was not configured
/// counts as a lost connection.
fn to_failure(error: Error) -> Failure {
    match error {
        Error::ConnectTimeout => {
            Failure { kind: FailureKind::Connect, detail: "it took too long".to_owned() }
        }
        Error::ResponseTimeout => Failure { kind: FailureKind::Reset, detail: String::new() },
        error => direct::failure(error),
    }
}

/// Maximum number of calls of a turn.
const MAX_CALLS: u32 = 5;

/// Delay before the second call. It doubles with each call.
const FIRST_DELAY: Duration = Duration::from_millis(500);

/// Longest delay that is accepted from a receiver. A longer one ends the retries.
const MAX_DELAY: Duration = Duration::from_secs(3600);

/// Failure of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallFailure {
    /// No connection was established, so the call did not arrive.
    Unsent,
    /// The connection broke, or the response was invalid. The call may have arrived.
    Unanswered,
    /// Status of the response, and the delay that the receiver requested.
    Answered(u16, Option<Duration>),
    /// The call used up all available time.
    TimedOut,
    /// A retry would fail in the same way.
    Permanent,
}

/// Returns the delay before the next call, or `None` if there must be none.
///
/// `at_least_once` is true for at-least-once delivery. `calls` is the number of calls so far, and
/// `time_left` the remaining time if it is limited.
fn retry_delay(
    failure: CallFailure,
    at_least_once: bool,
    calls: u32,
    time_left: Option<Duration>,
) -> Option<Duration> {
    let (is_retryable, requested) = match failure {
        CallFailure::Unsent => (true, None),
        CallFailure::Unanswered => (at_least_once, None),
        CallFailure::Answered(status, retry_after) => {
            (at_least_once && is_transient(status), retry_after)
        }
        CallFailure::TimedOut | CallFailure::Permanent => (false, None),
    };
    let back_off = FIRST_DELAY * 2_u32.pow(calls.saturating_sub(1).min(MAX_CALLS));
    let delay = requested.unwrap_or_default().max(back_off);
    let fits = delay <= MAX_DELAY && time_left.is_none_or(|time_left| delay < time_left);
    (is_retryable && calls < MAX_CALLS && fits).then_some(delay)
}

/// Returns true if a retry may get another status.
fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502..=504)
}

/// Parses the header `Retry-After`: seconds, or a date (RFC 9110, 10.2.3). `now` is in seconds
/// since 1970.
fn parse_retry_after(header: Option<&http::HeaderValue>, now: i64) -> Option<Duration> {
    let text = header?.to_str().ok()?.trim();
    let seconds = text.parse::<u64>().ok().or_else(|| {
        let date = chrono::DateTime::parse_from_rfc2822(text).ok()?;
        Some(u64::try_from(date.timestamp().saturating_sub(now)).unwrap_or(0))
    });
    seconds.map(Duration::from_secs)
}
