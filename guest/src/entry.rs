//! The entry points by which platforms call the component: requests and answers, as pure functions
//! over values. Each call is one whole turn ([`tenure_core::OneTurn`]), or a read.
//!
//! | request | answer |
//! |---|---|
//! | `POST /tick` | one turn, with the bearer token `TENURE_TICK_TOKEN` |
//! | `GET /leader` | the current leader |
//! | `GET /healthz` | 200 if the settings are valid; sends no request |
//!
//! The status of a turn is 200 if it succeeded, if another candidate led, or if nothing was due. It
//! is 500 if the handler failed or overran, which needs attention. It is 503 if the service was
//! unreachable, if no candidate won in time, or if settings are missing or wrong. Calling again is
//! always harmless: a claimed slot is not run again, except with at-least-once delivery.
//!
//! `wasi:cli/run` prints the same JSON and succeeds if the status would be 200. Spin's
//! `handle-cron-event` succeeds in the same cases, and otherwise returns the JSON as its error.
//!
//! A handler that traps ends the whole instance, including this part. There is no answer, and the
//! slot stays claimed. The lease is not released but runs out, within
//! [`tenure_core::Timings::lease`].

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use tenure_base::json::{Object, Value, array};
use tenure_base::prelude::*;
use tenure_core::{
    Complaint, Incumbent, Inspection, OneTurnOutcome, OneTurnResult, Problem, SettingId,
};

/// The target of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// One whole turn.
    Tick,
    /// The current leader.
    Leader,
    /// The validity of the settings.
    Health,
}

/// The reason why a request has no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// There is no such path.
    UnknownPath,
    /// The path supports only these methods.
    MethodNotAllowed(&'static str),
}

const READ_METHODS: &str = "GET, HEAD";
const WRITE_METHODS: &str = "POST";

impl Route {
    /// Parses a request. `target` is the path, with or without a query.
    ///
    /// # Errors
    /// Fails if the path is unknown, or does not support this method.
    pub fn parse(method: &str, target: &str) -> Result<Self, RouteError> {
        let path = target.split('?').next().unwrap_or(target);
        let (route, methods) = match path {
            "/tick" => (Self::Tick, WRITE_METHODS),
            "/leader" => (Self::Leader, READ_METHODS),
            "/healthz" => (Self::Health, READ_METHODS),
            _ => return Err(RouteError::UnknownPath),
        };
        match methods.split(',').any(|known| known.trim() == method) {
            true => Ok(route),
            false => Err(RouteError::MethodNotAllowed(methods)),
        }
    }
}

/// The variables that control the access to turns.
pub mod variable {
    /// The bearer token that a call for a turn has to present.
    pub const TOKEN: &str = "TENURE_TICK_TOKEN";
    /// `true`: any caller may start a turn.
    pub const OPEN: &str = "TENURE_TICK_OPEN";
}

/// The callers that may start a turn.
pub enum Access {
    /// Callers that present this token.
    Token(String),
    /// Any caller: the operator has allowed it.
    Open,
    /// No caller, until one of the two variables is set.
    Closed(Complaint),
}

/// The result of the access check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The caller may start a turn.
    Granted,
    /// The caller presents no token, or a wrong one.
    Denied,
    /// No caller may start a turn.
    Closed,
}

impl Access {
    /// Reads both variables. A variable that is set but empty counts as not set.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let get = |name| variable(name).filter(|value| !value.trim().is_empty());
        let complaint = |setting: &'static str, problem: &str, advice: &str| {
            Self::Closed(Complaint {
                setting: SettingId::new(setting),
                problem: problem.into(),
                advice: advice.into(),
            })
        };
        let open = get(variable::OPEN);
        match (get(variable::TOKEN), open.as_deref().map(str::trim)) {
            (Some(_), Some("true")) => complaint(
                variable::OPEN,
                "is true although a token is set",
                "leave out one of the two",
            ),
            (_, Some(other)) if !matches!(other, "true" | "false") => complaint(
                variable::OPEN,
                "is neither true nor false",
                "leave it out, or choose one",
            ),
            (Some(token), _) => Self::Token(token.trim().into()),
            (None, Some("true")) => Self::Open,
            (None, _) => complaint(
                variable::TOKEN,
                "no token is set, so no caller may start a turn over HTTP",
                "set it to a long random text, and have the caller send it as a bearer token; or \
                 set TENURE_TICK_OPEN=true where only trusted callers can reach this",
            ),
        }
    }

    /// Checks the `authorization` header of a call.
    #[must_use]
    pub fn check(&self, authorization: Option<&[u8]>) -> Admission {
        let is_granted = match self {
            Self::Open => true,
            Self::Closed(_) => return Admission::Closed,
            Self::Token(token) => authorization
                .and_then(bearer)
                .is_some_and(|presented| is_same_token(token.as_bytes(), presented.trim_ascii())),
        };
        if is_granted { Admission::Granted } else { Admission::Denied }
    }
}

/// Returns the token of an `authorization` header. The scheme may be in any case (RFC 9110, 11.1).
fn bearer(header: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let (scheme, token) = header.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then_some(token)
}

/// Returns true if two tokens are equal. The time of the comparison depends only on their lengths,
/// because `verify` compares their MACs in constant time. The key is no secret.
fn is_same_token(token: &[u8], presented: &[u8]) -> bool {
    let mac = |bytes: &[u8]| {
        let mut signature = <Hmac<Sha256> as KeyInit>::new_from_slice(b"tenure").ok()?;
        signature.update(bytes);
        Some(signature)
    };
    match (mac(token), mac(presented)) {
        (Some(token), Some(presented)) => presented.verify(&token.finalize().into_bytes()).is_ok(),
        _ => false,
    }
}

/// An answer: a status and JSON. It holds no secret, and nothing that helps to guess one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status. Entry points other than HTTP succeed only with 200.
    pub status: u16,
    /// One JSON object.
    pub body: String,
}

impl Answer {
    fn new(status: u16, object: Object) -> Self {
        Self { status, body: object.finish() }
    }
}

/// Returns the answer for the result of a turn.
#[must_use]
pub fn turn_answer(result: &OneTurnResult) -> Answer {
    let (status, outcome) = match result.outcome {
        OneTurnOutcome::Succeeded => (200, "succeeded"),
        OneTurnOutcome::NothingDue => (200, "nothing-due"),
        OneTurnOutcome::Followed => (200, "followed"),
        OneTurnOutcome::Failed => (500, "failed"),
        OneTurnOutcome::Overran => (500, "overran"),
        OneTurnOutcome::Undecided => (503, "undecided"),
        OneTurnOutcome::Unanswered => (503, "unanswered"),
    };
    let slot = result.turn.as_ref().map(|turn| turn.slot.to_rfc3339());
    let leading = result.term.is_some();
    let term = result.term.or(result.leader.as_ref().map(|leader| leader.term));
    let mut object = Object::new()
        .with("leading", leading)
        .with("term", term)
        .with("slot", slot.as_ref())
        .with("ran", result.handler_called)
        .with("outcome", outcome)
        .with("next", result.next.map(|next| next.to_rfc3339()).as_ref());
    if let Some(turn) = &result.turn {
        object = object
            .with("trigger", turn.trigger.as_ref())
            .with("attempt", u64::from(turn.attempt))
            .with("past_due", turn.past_due)
            .with("missed", u64::from(turn.missed));
    }
    if let Some(recorded) = result.outcome_recorded {
        object = object.with("recorded", recorded);
    }
    if let Some(leader) = &result.leader {
        object = object.with("leader", &leader.name);
    }
    if let Some(error) = &result.error {
        object = object.with("error", error);
    }
    Answer::new(status, with_problems(object, &result.problems))
}

/// Returns the answer about the current leader.
#[must_use]
pub fn leader_answer(Inspection { snapshot, next_turn }: &Inspection) -> Answer {
    let leader = snapshot.leader().map(incumbent);
    let object = Object::new()
        .with("lease", snapshot.lease.name())
        .with("leader", json(leader.as_ref()))
        .with("last_leader", json(snapshot.incumbent.as_ref().map(incumbent).as_ref()))
        .with("next", next_turn.map(|next| next.to_rfc3339()).as_ref())
        .with("answered_at", &snapshot.answered_at.to_rfc3339());
    Answer::new(200, object)
}

fn incumbent(incumbent: &Incumbent) -> String {
    Object::new()
        .with("name", &incumbent.name)
        .with("term", incumbent.term)
        .with("since", &incumbent.since.to_rfc3339())
        .with("address", incumbent.address.as_ref())
        .finish()
}

/// Returns the answer if the election could not be read.
#[must_use]
pub fn unreachable_answer(problem: &Problem) -> Answer {
    let object = Object::new().with("error", "the storage service could not be reached");
    Answer::new(503, with_problems(object, core::slice::from_ref(problem)))
}

/// Returns the answer for valid settings.
#[must_use]
pub fn healthy_answer() -> Answer {
    Answer::new(200, Object::new().with("healthy", true))
}

/// Returns the answer for invalid settings, with all complaints.
#[must_use]
pub fn invalid_settings_answer(complaints: &[Complaint]) -> Answer {
    with_complaints(complaints, true)
}

/// Returns the answer for invalid settings to callers that may not be the operator. It has only the
/// names of the settings, except that complaints about the access are complete.
#[must_use]
pub fn public_settings_answer(complaints: &[Complaint]) -> Answer {
    with_complaints(complaints, false)
}

fn with_complaints(complaints: &[Complaint], for_operator: bool) -> Answer {
    let complaints = array(complaints.iter().map(|complaint| {
        let setting = complaint.setting.variable();
        let object = Object::new().with("setting", setting);
        let object = match for_operator || setting.starts_with("TENURE_TICK_") {
            true => object.with("problem", &complaint.problem).with("advice", &complaint.advice),
            false => object,
        };
        object.finish()
    }));
    let object = Object::new()
        .with("error", "settings are wrong; nothing was sent")
        .with("complaints", Value::Json(&complaints));
    Answer::new(503, object)
}

/// Returns the answer to a request that is not served.
#[must_use]
pub fn refusal_answer(status: u16, error: &str) -> Answer {
    Answer::new(status, Object::new().with("error", error))
}

fn with_problems(object: Object, problems: &[Problem]) -> Object {
    if problems.is_empty() {
        return object;
    }
    let problems = array(problems.iter().map(|problem| {
        Object::new().with("class", problem.class.name()).with("detail", &problem.detail).finish()
    }));
    object.with("problems", Value::Json(&problems))
}

fn json(object: Option<&String>) -> Value<'_> {
    object.map_or(Value::Null, |object| Value::Json(object))
}

#[cfg(test)]
mod access_tests;
#[cfg(test)]
mod answer_tests;
#[cfg(test)]
mod route_tests;
