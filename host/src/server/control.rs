//! Steering a candidate over HTTP, for whoever has the token.
//!
//! | request | order |
//! |---|---|
//! | `POST /resign` | give up the leadership, and let the others come first |
//! | `POST /transfer?to=NAME` | hand over to the candidate of that name |
//! | `POST /pause` | do not contend; a leader resigns |
//! | `POST /resume` | contend again |
//!
//! Each of these, and [triggers](super::triggers) too, needs a proof that whoever orders it has the token ([`proof`](super::proof)), as the commands of
//! operators give it; or the token itself, `Authorization: Bearer TOKEN`, from people who know whom they
//! give it to. No page of another site can send either. The answer is 202: it was ordered. What becomes
//! of it is seen at `/leader`, and in the log.

use super::answers::{answer, value};
use super::proof::{Intent, SCHEME};
use super::role::Role;
use super::roster::{Face, Roster};
use crate::runner::Order;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header};
use axum::routing::post;
use serde_json::json;

/// No candidate has a longer name, in bytes.
const LONGEST_NAME: usize = 128;

/// What is ordered there, and not read.
pub(super) const ORDERS: [&str; 4] = ["/resign", "/transfer", "/pause", "/resume"];

pub(super) fn routes() -> Router<Roster> {
    Router::new()
        .route("/resign", post(resign))
        .route("/transfer", post(transfer))
        .route("/pause", post(|face, headers| order(face, headers, Order::Pause)))
        .route("/resume", post(|face, headers| order(face, headers, Order::Resume)))
}

async fn resign(face: Face, headers: HeaderMap) -> Response<Body> {
    match control(&face, &headers, "resign", "").and_then(|()| leads(&face)) {
        Ok(()) => give(&face, Order::Resign),
        Err(refusal) => *refusal,
    }
}

async fn transfer(face: Face, headers: HeaderMap, uri: Uri) -> Response<Body> {
    let to = value(&uri, "to").unwrap_or_default();
    if let Err(refusal) = control(&face, &headers, "transfer", &to).and_then(|()| leads(&face)) {
        return *refusal;
    }
    if to.is_empty() || to.len() > LONGEST_NAME {
        return refuse(StatusCode::BAD_REQUEST, "name the successor, as in /transfer?to=NAME");
    }
    // Names are compared as they are written on record.
    if to == face.board.candidate {
        return refuse(StatusCode::CONFLICT, "this candidate leads already");
    }
    give(&face, Order::HandOver(to))
}

/// Of a paused candidate or one that contends, whether or not it leads.
async fn order(face: Face, headers: HeaderMap, order: Order) -> Response<Body> {
    match control(&face, &headers, &order.to_string(), "") {
        Ok(()) => give(&face, order),
        Err(refusal) => *refusal,
    }
}

/// Whether there is a leadership to give up.
pub(super) fn leads(face: &Face) -> Result<(), Box<Response<Body>>> {
    match face.board.role(face.clock.now()) {
        Role::Leading { .. } => Ok(()),
        Role::Following(Some(leader)) => {
            let told = json!({ "error": "this candidate does not lead", "leader": leader });
            Err(Box::new(answer(StatusCode::CONFLICT, &told)))
        }
        _ => Err(Box::new(refuse(StatusCode::CONFLICT, "this candidate does not lead"))),
    }
}

/// Whether these headers are of somebody who may give this order. Who may not is told nothing else.
pub(super) fn control(
    face: &Face,
    headers: &HeaderMap,
    order: &str,
    to: &str,
) -> Result<(), Box<Response<Body>>> {
    let Some(control) = &face.control else {
        let why = "this candidate cannot be steered: it has no control token \
                   (--control-token-file, or TENURE_CONTROL_TOKEN)";
        return Err(Box::new(refuse(StatusCode::FORBIDDEN, why)));
    };
    let (election, candidate) = (&*face.board.election, &*face.board.candidate);
    let intent = Intent { order, to, election, candidate };
    let now = face.clock.now();
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let may = shown.is_some_and(|shown| match shown.strip_prefix("Bearer ") {
        Some(token) => control.token.is(token),
        None => face.nonces.accept(shown, &intent, &control.token, now),
    });
    if may {
        return Ok(());
    }
    let mut refusal = refuse(StatusCode::UNAUTHORIZED, "the control token is missing or wrong");
    let headers = refusal.headers_mut();
    headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    if let Ok(nonce) = format!("{SCHEME} nonce=\"{}\"", face.nonces.issue(now)).try_into() {
        headers.append(header::WWW_AUTHENTICATE, nonce);
    }
    Err(Box::new(refusal))
}

fn give(face: &Face, order: Order) -> Response<Body> {
    let told = json!({ "ordered": order.to_string() });
    // What became of an earlier one is not what becomes of this one.
    face.board.forget_refusal();
    let orders = face.control.as_ref().map(|control| control.orders.try_send(order));
    match orders {
        Some(Ok(())) => answer(StatusCode::ACCEPTED, &told),
        _ => refuse(StatusCode::SERVICE_UNAVAILABLE, "it accepts no orders now; ask again"),
    }
}

pub(super) fn refuse(status: StatusCode, why: &str) -> Response<Body> {
    answer(status, &json!({ "error": why }))
}
