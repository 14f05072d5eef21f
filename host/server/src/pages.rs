//! Handlers of the requests for JSON, probes and metrics.

use super::board::Readiness;
use super::format::candidate_as_json;
use super::metrics::exposition;
use super::responses::{has_query_key, json_response, unavailable, uncached_response};
use super::role::Role;
use super::roster::{Roster, RosterEntry, select_entry};
use super::watch::StatusUpdate;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri, header};
use axum::routing::{get, post};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Limits metrics to one response at a time.
static METRICS_PERMIT: Semaphore = Semaphore::const_new(1);

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

/// Adds JSON responses for unknown paths and methods.
pub(super) fn with_fallbacks(router: Router) -> Router {
    router.fallback(not_found).method_not_allowed_fallback(method_not_allowed)
}

/// Selects the elections of a response: all of them, or the one in the query.
fn select_entries<'a>(
    entries: &'a [RosterEntry],
    uri: &Uri,
) -> Result<&'a [RosterEntry], Box<Response<Body>>> {
    match has_query_key(uri, "election") {
        true => select_entry(entries, uri).map(std::slice::from_ref),
        false => Ok(entries),
    }
}

async fn healthz(State(roster): State<Roster>, uri: Uri) -> Response<Body> {
    let entries = roster.entries();
    let selected = match select_entries(&entries, &uri) {
        Ok(selected) => selected,
        Err(refusal) => return *refusal,
    };
    let describe_stall = |entry: &RosterEntry| {
        let stall = entry.board.stall(entry.clock.now())?;
        Some(describe_entry(&entries, entry, &stall))
    };
    match selected.iter().find_map(describe_stall) {
        None => json_response(StatusCode::OK, &json!({ "status": "ok" })),
        Some(stall) => unavailable(&stall),
    }
}

async fn readyz(State(roster): State<Roster>, uri: Uri) -> Response<Body> {
    let entries = roster.entries();
    // `?leader` asks about one election. The probe must not succeed because this process leads
    // another one.
    let selected = match has_query_key(&uri, "leader") {
        true => select_entry(&entries, &uri).map(std::slice::from_ref),
        false => select_entries(&entries, &uri),
    };
    let selected = match selected {
        Ok(selected) => selected,
        Err(refusal) => return *refusal,
    };
    let (mut leads, mut ready, mut first_new) = (false, false, None);
    for entry in selected {
        let now = entry.clock.now();
        match entry.board.participation(now) {
            Readiness::Ready => ready = true,
            // With many elections, some are nearly always new. They make the process unready only
            // if no other is ready.
            Readiness::NotReady(reason) if entry.board.is_new() => {
                first_new.get_or_insert((entry, reason));
            }
            Readiness::NotReady(reason) => {
                return unavailable(&describe_entry(&entries, entry, &reason));
            }
        }
        leads |= matches!(entry.board.allowed_role(now), Role::Leading { .. });
    }
    if let Some((entry, reason)) = first_new.filter(|_| !ready) {
        return unavailable(&describe_entry(&entries, entry, &reason));
    }
    if has_query_key(&uri, "leader") && !leads {
        return unavailable("this candidate does not lead");
    }
    json_response(StatusCode::OK, &json!({ "status": "ready", "leading": leads }))
}

/// Returns the reason, preceded by the name of the election if there are several.
fn describe_entry(entries: &[RosterEntry], entry: &RosterEntry, reason: &str) -> String {
    match entries {
        [_] => reason.to_owned(),
        _ => format!("{}: {reason}", entry.board.election),
    }
}

async fn leader(entry: RosterEntry, uri: Uri) -> Response<Body> {
    if has_query_key(&uri, "redirect") {
        return redirect(&entry.board.allowed_role(entry.clock.now()));
    }
    let (update, _) = StatusUpdate::snapshot(&entry.board, &entry.clock);
    let mut body = json!(update.with_outlook());
    if let Some(object) = body.as_object_mut() {
        object.remove("ended");
        object.insert("problem".to_owned(), json!(entry.board.state().problem));
    }
    json_response(StatusCode::OK, &body)
}

/// Redirects to the leader's address. The leader itself responds with 200.
fn redirect(role: &Role) -> Response<Body> {
    let address = match role {
        Role::Leading { .. } => return json_response(StatusCode::OK, &json!({ "leading": true })),
        Role::Following(Some(leader)) => leader.address.as_deref(),
        _ => return unavailable("no leader is known"),
    };
    // An address may be meant for humans only; a client can follow only a URL.
    let url = address.filter(|address| {
        let scheme = address.starts_with("http://") || address.starts_with("https://");
        scheme && address.bytes().all(|byte| byte.is_ascii_graphic())
    });
    match url {
        Some(url) => {
            let mut response =
                json_response(StatusCode::TEMPORARY_REDIRECT, &json!({ "leader": url }));
            if let Ok(value) = url.parse() {
                response.headers_mut().insert(header::LOCATION, value);
            }
            response
        }
        None => unavailable("the leader gave no http:// or https:// address (--address)"),
    }
}

async fn history(entry: RosterEntry) -> Response<Body> {
    let body = json!({ "election": entry.board.election, "changes": entry.board.state().history });
    json_response(StatusCode::OK, &body)
}

async fn candidates(entry: RosterEntry) -> Response<Body> {
    let state = entry.board.state();
    let listed = state.recently_listed(entry.clock.now());
    let now = state.service_time.now();
    let entries: Vec<_> = listed.map(|candidate| candidate_as_json(candidate, now)).collect();
    json_response(
        StatusCode::OK,
        &json!({ "election": entry.board.election, "candidates": entries }),
    )
}

async fn metrics(State(roster): State<Roster>, uri: Uri, headers: HeaderMap) -> Response<Body> {
    let entries = roster.entries();
    let selected = match select_entries(&entries, &uri) {
        Ok(selected) => selected,
        Err(refusal) => return *refusal,
    };
    let boards: Vec<_> = selected.iter().map(|entry| entry.board.clone()).collect();
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let accept = accept.collect::<Vec<_>>().join(",");
    // With thousands of candidates, a response takes time and much memory, so responses are made
    // one after another. The semaphore is never closed.
    let permit = METRICS_PERMIT.acquire().await;
    let now = roster.clock().now();
    // Runs on another thread, so other requests are answered meanwhile. It finishes even if the
    // client disconnects.
    let result = spawn_blocking(move || {
        let _permit = permit;
        exposition(&accept, &boards, now)
    });
    match result.await {
        Ok((kind, text)) => uncached_response(kind, text),
        Err(_) => unavailable("the metrics could not be written"),
    }
}

/// Makes a leader check for orders. A hint needs no permission: it carries nothing and changes
/// nothing.
async fn hint(entry: RosterEntry) -> Response<Body> {
    let reason = "this candidate does not lead";
    match entry.board.role(entry.clock.now()) {
        Role::Leading { .. } => {
            entry.board.hints().notify_one();
            json_response(StatusCode::ACCEPTED, &json!({ "status": "checking for orders" }))
        }
        Role::Following(Some(leader)) => {
            json_response(StatusCode::CONFLICT, &json!({ "error": reason, "leader": leader }))
        }
        _ => json_response(StatusCode::CONFLICT, &json!({ "error": reason })),
    }
}

async fn not_found() -> Response<Body> {
    let body = json!({
        "error": "not found; try /, /events, /healthz, /readyz, /leader, /watch, /history, \
                  /candidates, /metrics or POST /hint"
    });
    json_response(StatusCode::NOT_FOUND, &body)
}

async fn method_not_allowed(method: Method, uri: Uri) -> Response<Body> {
    let reason = match uri.path() {
        "/hint" => format!("send it as POST, not {method}"),
        _ => format!("this is read-only; {method} is not allowed"),
    };
    json_response(StatusCode::METHOD_NOT_ALLOWED, &json!({ "error": reason }))
}
