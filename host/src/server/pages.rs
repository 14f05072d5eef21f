//! What is answered to whom.

use super::board::{Board, Readiness, Role};
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
struct Face {
    boards: Arc<[Arc<Board>]>,
    clock: Reading,
}

impl Face {
    /// The candidate of the election that the query names; the only one goes without saying.
    fn board(&self, uri: &Uri) -> Result<&Board, Box<Response<Body>>> {
        let named = value(uri, "election");
        let found = match (&named, &*self.boards) {
            (None, [only]) => Some(only),
            (None, _) => None,
            (Some(named), boards) => boards.iter().find(|board| board.election == *named),
        };
        found.map(|board| &**board).ok_or_else(|| {
            let elections: Vec<_> = self.boards.iter().map(|board| &board.election).collect();
            let (status, error) = match named {
                Some(_) => (StatusCode::NOT_FOUND, "no candidate of that election is here"),
                None => (StatusCode::BAD_REQUEST, "choose one: ?election=container/blob"),
            };
            Box::new(answer(status, &json!({ "error": error, "elections": elections })))
        })
    }

    /// A sentence about a candidate, where there are several.
    fn about(&self, board: &Board, why: &str) -> String {
        match &*self.boards {
            [_] => why.to_owned(),
            _ => format!("{}: {why}", board.election),
        }
    }
}

pub(super) fn router(boards: Vec<Arc<Board>>, clock: Reading) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/leader", get(leader))
        .route("/history", get(history))
        .route("/metrics", get(metrics))
        .fallback(nothing)
        .method_not_allowed_fallback(not_so)
        .with_state(Face { boards: boards.into(), clock })
}

async fn healthz(State(face): State<Face>) -> Response<Body> {
    let now = face.clock.now();
    match face.boards.iter().find(|board| !board.runs(now)) {
        None => answer(StatusCode::OK, &json!({ "status": "ok" })),
        Some(board) => refuse(&face.about(board, "the loop stands still")),
    }
}

async fn readyz(State(face): State<Face>, uri: Uri) -> Response<Body> {
    let now = face.clock.now();
    // Of one election when one is named, or when there is a leader to be found; else of all.
    let one = value(&uri, "election").is_some() || has(&uri, "leader");
    let boards: Vec<&Board> = match one.then(|| face.board(&uri)) {
        Some(Ok(board)) => vec![board],
        Some(Err(response)) => return *response,
        None => face.boards.iter().map(|board| &**board).collect(),
    };
    for board in &boards {
        if let Readiness::NotReady(why) = board.readiness(now) {
            return refuse(&face.about(board, &why));
        }
    }
    let leads = boards.iter().any(|board| matches!(board.role(now), Role::Leading { .. }));
    if has(&uri, "leader") && !leads {
        return refuse("another candidate leads, or nobody");
    }
    answer(StatusCode::OK, &json!({ "status": "ready", "leading": leads }))
}

async fn leader(State(face): State<Face>, uri: Uri) -> Response<Body> {
    let now = face.clock.now();
    let board = match face.board(&uri) {
        Ok(board) => board,
        Err(response) => return *response,
    };
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

async fn history(State(face): State<Face>, uri: Uri) -> Response<Body> {
    match face.board(&uri) {
        Ok(board) => {
            let told = json!({ "election": board.election, "changes": board.history() });
            answer(StatusCode::OK, &told)
        }
        Err(response) => *response,
    }
}

async fn metrics(State(face): State<Face>) -> Response<Body> {
    let now = face.clock.now();
    let text = |board: &Arc<Board>| {
        let (term, left) = match board.role(now) {
            Role::Leading { term, until } => (Some(term), until.saturating_sub(now)),
            _ => (None, Duration::ZERO),
        };
        let ready = board.readiness(now) == Readiness::Ready;
        board.metrics.text(term, left, ready)
    };
    let texts: Vec<_> = face.boards.iter().map(text).collect();
    let mut response = Response::new(Body::from(super::metrics::together(&texts)));
    let kind = header::HeaderValue::from_static(super::metrics::CONTENT_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

async fn nothing() -> Response<Body> {
    let told = json!({ "error": "there is nothing here; try /leader, /readyz or /metrics" });
    answer(StatusCode::NOT_FOUND, &told)
}

async fn not_so(method: Method) -> Response<Body> {
    let told = json!({ "error": format!("this can be read, and nothing else: not {method}") });
    answer(StatusCode::METHOD_NOT_ALLOWED, &told)
}

fn refuse(why: &str) -> Response<Body> {
    answer(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "unavailable", "reason": why }))
}

fn answer(status: StatusCode, told: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{told}\n")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}

/// Whether a word is in the query, with or without a value.
fn has(uri: &Uri, word: &str) -> bool {
    let words = uri.query().unwrap_or_default().split('&');
    words.map(|pair| pair.split('=').next().unwrap_or_default()).any(|name| name == word)
}

/// The value of a word in the query, with what is percent-encoded in it.
fn value(uri: &Uri, word: &str) -> Option<String> {
    let words = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = words.into_iter().find(|(name, _)| *name == word)?;
    Some(percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned())
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
