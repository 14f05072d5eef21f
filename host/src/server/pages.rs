//! What is answered to whom.

use super::board::{Board, Readiness, Role};
use super::control::{self, Control};
use super::exposition::{exposition, figures};
use super::page::Source;
use super::proof::Nonces;
use super::roster::Roster;
use super::triggers;
use super::watch::{Instant, VERSION};
use crate::clock::Reading;
use crate::contract::{candidate_as_json, wall};
use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri, header};
use axum::routing::get;
use serde_json::{Value, json};
use std::sync::Arc;

/// One candidate, and who may steer it.
#[derive(Clone)]
pub(super) struct Face {
    pub board: Arc<Board>,
    pub clock: Reading,
    /// None: nobody may steer.
    pub control: Option<Control>,
    pub nonces: Arc<Nonces>,
    /// What the page shows of it.
    pub source: Source,
}

/// Of so many elections are the names told to who named none of them: an answer that operators' commands
/// read is not endless.
const LISTED: usize = 100;

/// The candidate of the election that the query names; the only one goes without saying.
impl FromRequestParts<Roster> for Face {
    type Rejection = Response<Body>;

    async fn from_request_parts(
        parts: &mut Parts,
        roster: &Roster,
    ) -> Result<Self, Response<Body>> {
        choose(&roster.faces(), &parts.uri).cloned().map_err(|refusal| *refusal)
    }
}

pub(super) fn choose<'f>(faces: &'f [Face], uri: &Uri) -> Result<&'f Face, Box<Response<Body>>> {
    let named = value(uri, "election");
    let found = match (&named, faces) {
        (None, [only]) => Some(only),
        (None, _) => None,
        (Some(named), faces) => faces.iter().find(|face| face.board.election == *named),
    };
    found.ok_or_else(|| {
        let elections = faces.iter().map(|face| face.board.election.as_str());
        let elections: Vec<_> = elections.take(LISTED).collect();
        Box::new(match named {
            Some(_) => unknown(&elections),
            None => {
                let error = "choose one: ?election=container/blob";
                let told = json!({ "error": error, "elections": elections });
                answer(StatusCode::BAD_REQUEST, &told)
            }
        })
    })
}

/// The answer to whoever names an election that is none of these.
pub(super) fn unknown(elections: &[&str]) -> Response<Body> {
    let error = "this process has no candidate of that election";
    answer(StatusCode::NOT_FOUND, &json!({ "error": error, "elections": elections }))
}

pub(super) fn router(roster: Roster) -> Router {
    Router::new()
        .merge(control::routes())
        .merge(triggers::routes())
        .merge(probes())
        .route("/leader", get(leader))
        .route("/history", get(history))
        .route("/candidates", get(candidates))
        .route("/metrics", get(metrics))
        .with_state(roster)
}

/// What a platform asks, to know whether the process is to be restarted or sent requests.
pub(super) fn probes() -> Router<Roster> {
    Router::new().route("/healthz", get(healthz)).route("/readyz", get(readyz))
}

/// What is not there, or not so, is told like all else.
pub(super) fn with_refusals(all: Router) -> Router {
    all.fallback(nothing).method_not_allowed_fallback(not_so)
}

/// What is shown of several elections at once, unless one is named.
fn named<'f>(faces: &'f [Face], uri: &Uri) -> Result<&'f [Face], Box<Response<Body>>> {
    match has(uri, "election") {
        true => choose(faces, uri).map(std::slice::from_ref),
        false => Ok(faces),
    }
}

async fn healthz(State(roster): State<Roster>, uri: Uri) -> Response<Body> {
    let faces = roster.faces();
    let asked = match named(&faces, &uri) {
        Ok(asked) => asked,
        Err(refusal) => return *refusal,
    };
    match asked.iter().find(|face| !face.board.runs(face.clock.now())) {
        None => answer(StatusCode::OK, &json!({ "status": "ok" })),
        Some(face) => refuse(&about(&faces, face, "the loop is stalled")),
    }
}

async fn readyz(State(roster): State<Roster>, uri: Uri) -> Response<Body> {
    let faces = roster.faces();
    // Also when there is a leader to be found, it is asked of one.
    let asked = match has(&uri, "leader") {
        true => choose(&faces, &uri).map(std::slice::from_ref),
        false => named(&faces, &uri),
    };
    let asked = match asked {
        Ok(asked) => asked,
        Err(refusal) => return *refusal,
    };
    let mut leads = false;
    for face in asked {
        let now = face.clock.now();
        if let Readiness::NotReady(why) = face.board.readiness(now) {
            return refuse(&about(&faces, face, &why));
        }
        leads |= matches!(face.board.told_role(now), Role::Leading { .. });
    }
    if has(&uri, "leader") && !leads {
        return refuse("this candidate does not lead");
    }
    answer(StatusCode::OK, &json!({ "status": "ready", "leading": leads }))
}

/// A sentence about one candidate; it is named where there are several.
fn about(faces: &[Face], face: &Face, why: &str) -> String {
    match faces {
        [_] => why.to_owned(),
        _ => format!("{}: {why}", face.board.election),
    }
}

async fn leader(face: Face, uri: Uri) -> Response<Body> {
    let (board, instant) = (&face.board, Instant::of(&face.clock));
    let role = board.told_role(instant.now);
    if has(&uri, "redirect") {
        return redirect(&role);
    }
    let (leading, leader, until) = match &role {
        Role::Leading { term, until } => {
            (true, json!({ "name": board.candidate, "term": term }), Some(*until))
        }
        Role::Following(Some(leader)) => (false, json!(leader), None),
        Role::Following(None) | Role::Undecided | Role::Left => (false, Value::Null, None),
    };
    let (valid_for_ms, valid_until) = until.map(|until| instant.until(until)).unzip();
    let mut told = json!(board.outlook());
    let who = json!({
        "version": VERSION,
        "election": board.election,
        "candidate": board.candidate,
        "leading": leading,
        "leader": leader,
        "valid_for_ms": valid_for_ms,
        "valid_until": valid_until,
        "handing_over_to": board.successor(),
        "order_refused": board.refused_order(),
        "paused": board.is_paused(),
        "problem": board.problem(),
    });
    if let (Some(told), Value::Object(who)) = (told.as_object_mut(), who) {
        told.extend(who);
    }
    answer(StatusCode::OK, &told)
}

/// To where the leader can be reached. The leader itself is not sent anywhere.
fn redirect(role: &Role) -> Response<Body> {
    let address = match role {
        Role::Leading { .. } => return answer(StatusCode::OK, &json!({ "leading": true })),
        Role::Following(Some(leader)) => leader.address.as_deref(),
        _ => return refuse("no leader is known"),
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

async fn history(face: Face) -> Response<Body> {
    let told = json!({ "election": face.board.election, "changes": face.board.history() });
    answer(StatusCode::OK, &told)
}

async fn candidates(face: Face) -> Response<Body> {
    let listed = face.board.state().listed.clone();
    let told = listed.iter().map(|candidate| candidate_as_json(candidate, wall()));
    let told = told.collect::<Vec<_>>();
    answer(StatusCode::OK, &json!({ "election": face.board.election, "candidates": told }))
}

async fn metrics(State(roster): State<Roster>, uri: Uri, headers: HeaderMap) -> Response<Body> {
    let faces = roster.faces();
    let asked = match named(&faces, &uri) {
        Ok(asked) => asked,
        Err(refusal) => return *refusal,
    };
    let boards: Vec<_> = asked.iter().map(|face| face.board.clone()).collect();
    let now = roster.clock().now();
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let (kind, text) = exposition(&accept.collect::<Vec<_>>().join(","), figures(&boards, now));
    shown(kind, text)
}

async fn nothing() -> Response<Body> {
    let told = json!({
        "error": "there is nothing here; try /, /healthz, /readyz, /leader, /watch, /history, /candidates or /metrics"
    });
    answer(StatusCode::NOT_FOUND, &told)
}

async fn not_so(method: Method, uri: Uri) -> Response<Body> {
    let why = match control::ORDERS.contains(&uri.path()) {
        true => format!("send it as POST, not {method}"),
        false => format!("this is read-only; {method} is not allowed"),
    };
    answer(StatusCode::METHOD_NOT_ALLOWED, &json!({ "error": why }))
}

pub(super) fn refuse(why: &str) -> Response<Body> {
    answer(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "unavailable", "reason": why }))
}

/// An answer in JSON.
pub fn answer(status: StatusCode, told: &Value) -> Response<Body> {
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
pub(super) fn has(uri: &Uri, word: &str) -> bool {
    let words = uri.query().unwrap_or_default().split('&');
    words.map(|pair| pair.split('=').next().unwrap_or_default()).any(|name| name == word)
}

/// The value of a word in the query, with what is percent-encoded in it.
pub(super) fn value(uri: &Uri, word: &str) -> Option<String> {
    let mut words =
        uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = words.find(|(name, _)| *name == word)?;
    Some(percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned())
}
