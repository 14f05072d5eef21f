//! What is answered to whom.

use super::answers::{answer, has, refuse, shown};
use super::board::Readiness;
use super::exposition::exposition;
use super::format::candidate_as_json;
use super::role::Role;
use super::roster::{Face, Roster, choose};
use super::watch::News;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri, header};
use axum::routing::{get, post};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// One text with all figures is made at a time.
static MAKING: Semaphore = Semaphore::const_new(1);

pub(super) fn router(roster: Roster) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/leader", get(leader))
        .route("/history", get(history))
        .route("/candidates", get(candidates))
        .route("/metrics", get(metrics))
        .route("/hint", post(hint))
        .with_state(roster)
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
    let (mut leads, mut ready, mut first) = (false, false, None);
    for face in asked {
        let now = face.clock.now();
        match face.board.takes_part(now) {
            Readiness::Ready => ready = true,
            // Of many elections some are nearly always new.
            Readiness::NotReady(why) if face.board.is_new() => {
                first.get_or_insert((face, why));
            }
            Readiness::NotReady(why) => return refuse(&about(&faces, face, &why)),
        }
        leads |= matches!(face.board.told_role(now), Role::Leading { .. });
    }
    if let Some((face, why)) = first.filter(|_| !ready) {
        return refuse(&about(&faces, face, &why));
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
    if has(&uri, "redirect") {
        return redirect(&face.board.told_role(face.clock.now()));
    }
    let (news, _) = News::of(&face.board, &face.clock);
    let mut told = json!(news.sent());
    if let Some(told) = told.as_object_mut() {
        told.remove("ended");
        told.insert("problem".to_owned(), json!(face.board.state().problem));
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
    let told = json!({ "election": face.board.election, "changes": face.board.state().history });
    answer(StatusCode::OK, &told)
}

async fn candidates(face: Face) -> Response<Body> {
    let state = face.board.state();
    let lately = state.listed_lately(face.clock.now());
    let now = state.service_time.now();
    let told: Vec<_> = lately.map(|candidate| candidate_as_json(candidate, now)).collect();
    answer(StatusCode::OK, &json!({ "election": face.board.election, "candidates": told }))
}

async fn metrics(State(roster): State<Roster>, uri: Uri, headers: HeaderMap) -> Response<Body> {
    let faces = roster.faces();
    let asked = match named(&faces, &uri) {
        Ok(asked) => asked,
        Err(refusal) => return *refusal,
    };
    let boards: Vec<_> = asked.iter().map(|face| face.board.clone()).collect();
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let accept = accept.collect::<Vec<_>>().join(",");
    // Of thousands of candidates that takes a while, and much memory. It is never closed.
    let alone = MAKING.acquire().await;
    let now = roster.clock().now();
    // Others are answered meanwhile. It is made to its end also when whoever asked is gone.
    let made = spawn_blocking(move || {
        let _alone = alone;
        exposition(&accept, &boards, now)
    });
    match made.await {
        Ok((kind, text)) => shown(kind, text),
        Err(_) => refuse("the figures could not be written"),
    }
}

/// Makes a leader look for orders. Needs no permission: a hint says nothing, and changes nothing.
async fn hint(face: Face) -> Response<Body> {
    let why = "this candidate does not lead";
    match face.board.role(face.clock.now()) {
        Role::Leading { .. } => {
            face.board.hints().notify_one();
            answer(StatusCode::ACCEPTED, &json!({ "status": "looks for orders" }))
        }
        Role::Following(Some(leader)) => {
            answer(StatusCode::CONFLICT, &json!({ "error": why, "leader": leader }))
        }
        _ => answer(StatusCode::CONFLICT, &json!({ "error": why })),
    }
}

async fn nothing() -> Response<Body> {
    let told = json!({
        "error": "there is nothing here; try /, /healthz, /readyz, /leader, /watch, /history, /candidates or /metrics"
    });
    answer(StatusCode::NOT_FOUND, &told)
}

async fn not_so(method: Method, uri: Uri) -> Response<Body> {
    let why = match uri.path() {
        "/hint" => format!("send it as POST, not {method}"),
        _ => format!("this is read-only; {method} is not allowed"),
    };
    answer(StatusCode::METHOD_NOT_ALLOWED, &json!({ "error": why }))
}
