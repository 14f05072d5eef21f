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
use crate::egress::direct::{self, as_sent, to_http};
use crate::egress::{AllowList, Authorities, Body, Budget, Error, Gate, Limits, Outlet, Policy};
use crate::lease::Lease;
use crate::settings::Variables;
use again::Failed;
use http_body_util::BodyExt;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure_clock::Clock;
use tenure_core::{Complaint, Failure, FailureKind, Request, SettingId, Turn, format_duration};
use tenure_webhook::{Call, Credentials, Target, variable, wanted};
use tokio::time::{Instant, sleep, timeout};

/// Longer than any turn: what ends the call is its own time-out, or the end of the turn.
const PATIENCE: Duration = Duration::from_secs(366 * 24 * 3600);

/// How long the beginning of an error is waited for after its status came.
const WORDS: Duration = Duration::from_secs(2);

/// A handler that posts each turn to a URL.
pub struct WebhookHandler {
    target: Target,
    variables: Arc<Variables>,
    /// As they were when they were last read.
    credentials: Mutex<Credentials>,
    /// Turns are delivered at least once.
    repeats: bool,
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
        authorities: Authorities,
        repeats: bool,
        output: Option<LineSink>,
        clock: &impl Clock,
    ) -> Result<Self, Vec<Complaint>> {
        let (target, credentials) = Target::read(&variables)?;
        let mut allow = AllowList::default();
        allow.allow(target.origin()).map_err(|_| {
            vec![Complaint {
                setting: SettingId::of(variable::URL),
                problem: "names a host that is neither a name nor an address".to_owned(),
                advice: "write it like https://example.com/tick".to_owned(),
            }]
        })?;
        let policy = Policy::streamed(allow, PATIENCE, u64::MAX);
        // A sidecar is reached by `localhost`.
        let outlet = Outlet::of_operator().trusting(authorities);
        Ok(Self {
            target,
            variables: Arc::new(variables),
            credentials: Mutex::new(credentials),
            repeats,
            policy: Arc::new(policy),
            outlet,
            lines: HandlerLines::new(output, clock.reading()),
        })
    }

    /// Scheme, host and port that it calls: all of the URL that may be shown.
    pub fn origin(&self) -> &str {
        self.target.origin()
    }

    /// Calls until a call succeeds, or no other is to follow.
    async fn run(&self, mut turn: Turn, lease: &Lease) -> Result<(), String> {
        let connections = self.outlet.open(turn.term, &turn.election, lease.clone());
        // Nothing is refused: the one URL is allowed.
        let (nothing, budget) = (Arc::new(|_| {}), Budget::unlimited());
        let gate = Gate::of_turn(self.policy.clone(), &connections, nothing, budget);
        let tell = self.lines.turn().of_host();
        let (began, time_limit) = (Instant::now(), turn.time_limit);
        let left = |bound: Option<Duration>| Some(bound?.saturating_sub(began.elapsed()));
        let mut made = 0;
        loop {
            let (credentials, now) =
                (self.credentials(&tell).await, chrono::Utc::now().timestamp());
            let mut call = Call::of(&turn, &self.target, &credentials, now);
            // Its lease is renewed meanwhile: only what was set for the calls ends them here.
            call.timeout = left(self.target.timeout()).unwrap_or(PATIENCE);
            made += 1;
            let Err((failed, text)) = one(&call, gate.clone(), now).await else { return Ok(()) };
            let text = match (failed, self.target.timeout()) {
                // The time is that of all calls.
                (Failed::Late, Some(all)) => {
                    call.timeout = all;
                    call.failed(&Failure { kind: FailureKind::Timeout, detail: String::new() })
                }
                _ => text,
            };
            let bound = [left(self.target.timeout()), left(time_limit)].into_iter().flatten().min();
            let Some(wait) = again::wait(failed, self.repeats, made, bound) else {
                return Err(match made {
                    1 => text,
                    made => format!("{text}, at call {made} of the turn"),
                });
            };
            tell(format!("{text}; it is called again in {}", format_duration(wait)));
            sleep(wait).await;
            turn.valid_for = lease.remaining();
            turn.time_limit = left(time_limit);
        }
    }

    /// With what the next call is authorised, read anew. What cannot be used is told, and what was read before is
    /// used: files may be in the middle of a change.
    async fn credentials(&self, tell: &impl Fn(String)) -> Credentials {
        let variables = self.variables.clone();
        let read = tokio::task::spawn_blocking(move || Credentials::read(&*variables)).await;
        let mut known = self.credentials.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(Ok(read)) => *known = read,
            Ok(Err(complaints)) => {
                let told = Complaint::sentences(&complaints);
                tell(format!(
                    "the credentials that were read before are used, since others cannot be: {told}"
                ));
            }
            // The runtime ends.
            Err(_) => {}
        }
        known.clone()
    }
}

/// Makes one call.
async fn one(call: &Call, gate: Gate, now: i64) -> Result<(), (Failed, String)> {
    let request =
        request(call).map_err(|_| (Failed::Final, call.failed(&other("the URL is not valid"))))?;
    let began = Instant::now();
    let answer = match timeout(call.timeout, gate.send(request, Limits::default())).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err((known_of(&error), call.failed(&failure(error)))),
        Err(_) => {
            let failure = Failure { kind: FailureKind::Timeout, detail: String::new() };
            return Err((Failed::Late, call.failed(&failure)));
        }
    };
    let status = answer.status().as_u16();
    let asked = again::asked(answer.headers().get(http::header::RETRY_AFTER), now);
    let left = call.timeout.saturating_sub(began.elapsed());
    let words = read(answer.into_body(), wanted(status), WORDS.min(left)).await;
    call.judge(status, &words).map_err(|text| (Failed::Answered(status, asked), text))
}

impl Handler for WebhookHandler {
    fn on_tick(&self, turn: Turn, lease: Lease) -> BoxFuture<'_, TurnEnd> {
        Box::pin(async move {
            match self.run(turn, &lease).await {
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

fn request(call: &Call) -> http::Result<http::Request<Body>> {
    let request = Request::of(call.request.clone(), call.timeout);
    Ok(to_http(&request)?.map(as_sent))
}

/// The beginning of a body, as much as comes in time: an answer is no less one without it.
async fn read(mut body: Body, most: usize, within: Duration) -> Vec<u8> {
    let mut read = Vec::new();
    let reading = async {
        while read.len() < most {
            let Some(Ok(frame)) = body.frame().await else { return };
            read.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        }
    };
    let _ = timeout(within, reading).await;
    read
}

/// What an error tells of whether the call arrived.
fn known_of(error: &Error) -> Failed {
    match error {
        Error::Name(_) | Error::NotConnected | Error::ConnectTimeout | Error::Unroutable => {
            Failed::Unsent
        }
        Error::Denied | Error::Alert { .. } | Error::Tls(_) => Failed::Final,
        _ => Failed::Unanswered,
    }
}

/// Why there was no answer. Only what was set for the call ends it: a time-out is another one.
fn failure(error: Error) -> Failure {
    match error {
        Error::ConnectTimeout => {
            Failure { kind: FailureKind::Connect, detail: "it took too long".to_owned() }
        }
        Error::AnswerTimeout => Failure { kind: FailureKind::Reset, detail: String::new() },
        error => direct::failure(error),
    }
}

fn other(detail: &str) -> Failure {
    Failure { kind: FailureKind::Other, detail: detail.to_owned() }
}
