//! What is answered to whom.

use super::board::{Board, Readiness, Role};
use super::control::{self, Control};
use super::page::view::millis;
use crate::clock::Reading;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, Response, StatusCode, Uri, header};
use axum::routing::get;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone)]
pub(super) struct Face {
    pub board: Arc<Board>,
    pub clock: Reading,
    /// None: nobody may steer.
    pub control: Option<Control>,
}

pub(super) fn router(face: Face) -> Router {
    Router::new()
        .merge(control::routes())
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/leader", get(leader))
        .route("/history", get(history))
        .route("/metrics", get(metrics))
        .fallback(nothing)
        .method_not_allowed_fallback(not_so)
        .with_state(face)
}

async fn healthz(State(face): State<Face>) -> Response<Body> {
    match face.board.runs(face.clock.now()) {
        true => answer(StatusCode::OK, &json!({ "status": "ok" })),
        false => refuse("the loop stands still"),
    }
}

async fn readyz(State(face): State<Face>, uri: Uri) -> Response<Body> {
    let now = face.clock.now();
    if let Readiness::NotReady(why) = face.board.readiness(now) {
        return refuse(&why);
    }
    let leads = matches!(face.board.role(now), Role::Leading { .. });
    if has(&uri, "leader") && !leads {
        return refuse("another candidate leads, or nobody");
    }
    answer(StatusCode::OK, &json!({ "status": "ready", "leading": leads }))
}

async fn leader(State(face): State<Face>, uri: Uri) -> Response<Body> {
    let (board, now) = (&face.board, face.clock.now());
    let role = board.role(now);
    if has(&uri, "redirect") {
        return redirect(&role);
    }
    let (leading, leader, valid_for) = match &role {
        Role::Leading { term, until } => {
            let left = until.saturating_sub(now);
            (true, json!({ "name": board.candidate, "term": term }), json!(millis(left)))
        }
        Role::Following(Some(leader)) => (false, json!(leader), Value::Null),
        Role::Following(None) | Role::Undecided | Role::Left => (false, Value::Null, Value::Null),
    };
    let told = json!({
        "election": board.election,
        "candidate": board.candidate,
        "leading": leading,
        "leader": leader,
        "valid_for_ms": valid_for,
        "handing_over_to": board.heir(),
        "paused": board.is_paused(),
        "trouble": board.trouble(),
    });
    answer(StatusCode::OK, &told)
}

/// To where the leader can be reached. The leader itself is not sent anywhere.
fn redirect(role: &Role) -> Response<Body> {
    let address = match role {
        Role::Leading { .. } => return answer(StatusCode::OK, &json!({ "leading": true })),
        Role::Following(Some(leader)) => leader.address.as_deref(),
        _ => return refuse("nobody is known to lead"),
    };
    // What a candidate calls its address is for people too; only a URL can be followed.
    let url = address.filter(|address| {
        let scheme = address.starts_with("http://") || address.starts_with("https://");
        scheme && address.bytes().all(|byte| byte.is_ascii_graphic())
    });
    match url {
        Some(url) => {
            let mut response = answer(StatusCode::TEMPORARY_REDIRECT, &json!({ "leader": url }));
            if let Ok(value) = url.parse() {
                response.headers_mut().insert(header::LOCATION, value);
            }
            response
        }
        None => refuse("the leader gave no http:// or https:// address (--address)"),
    }
}

async fn history(State(face): State<Face>) -> Response<Body> {
    let told = json!({ "election": face.board.election, "changes": face.board.history() });
    answer(StatusCode::OK, &told)
}

async fn metrics(State(face): State<Face>) -> Response<Body> {
    let (board, now) = (&face.board, face.clock.now());
    let (term, left) = match board.role(now) {
        Role::Leading { term, until } => (Some(term), until.saturating_sub(now)),
        _ => (None, Duration::ZERO),
    };
    let ready = board.readiness(now) == Readiness::Ready;
    shown(super::metrics::CONTENT_TYPE, board.metrics.text(term, left, ready))
}

async fn nothing() -> Response<Body> {
    let told = json!({ "error": "there is nothing here; try /, /leader, /readyz or /metrics" });
    answer(StatusCode::NOT_FOUND, &told)
}

async fn not_so(method: Method) -> Response<Body> {
    let told = json!({ "error": format!("this can be read, and nothing else: not {method}") });
    answer(StatusCode::METHOD_NOT_ALLOWED, &told)
}

pub(super) fn refuse(why: &str) -> Response<Body> {
    answer(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "unavailable", "reason": why }))
}

pub(crate) fn answer(status: StatusCode, told: &Value) -> Response<Body> {
    let mut response = shown("application/json", format!("{told}\n"));
    *response.status_mut() = status;
    response
}

/// A text that is what it is said to be, and true only now.
pub(super) fn shown(kind: &'static str, text: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(text.into());
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, header::HeaderValue::from_static(value));
    }
    response
}

/// Whether a word is in the query, with or without a value.
fn has(uri: &Uri, word: &str) -> bool {
    let words = uri.query().unwrap_or_default().split('&');
    words.map(|pair| pair.split('=').next().unwrap_or_default()).any(|name| name == word)
}
