//! Triggers over HTTP.
//!
//! | request | what it does |
//! |---|---|
//! | `POST /trigger` | has a leader look for triggers beside the election's blob, once a second at most |
//! | `POST /trigger?id=ID` | leaves a trigger of that id there, and has the leader look |
//! | `GET /trigger?id=ID` | tells what became of the trigger |
//!
//! Whoever reaches the listener may say the first: a look says nothing, and changes nothing. The others need what an order
//! needs ([`control`](super::control)): the order is `trigger` or `triggered`, and the id stands in the place of a
//! successor.

use super::answers::{answer, value};
use super::control::{control, leads, refuse};
use super::placer::Placer;
use super::roster::{Face, Roster};
use crate::contract::{Problem, ProblemClass, TriggerTold};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use axum::routing::post;
use serde_json::json;

pub(super) fn routes() -> Router<Roster> {
    Router::new().route("/trigger", post(trigger).get(triggered))
}

/// Only who leads looks: whoever says so is told who that is.
async fn trigger(face: Face, headers: HeaderMap, uri: Uri) -> Response<Body> {
    let id = value(&uri, "id");
    let may = match &id {
        Some(id) => control(&face, &headers, "trigger", id),
        None => Ok(()),
    };
    if let Err(refusal) = may.and_then(|()| leads(&face)) {
        return *refusal;
    }
    let told = match id {
        Some(id) => ask(&face, id, true).await,
        None => answer(StatusCode::ACCEPTED, &json!({ "ordered": "look for triggers" })),
    };
    face.board.hints().notify_one();
    told
}

/// Whoever may order one. Candidates that do not lead know it too.
async fn triggered(face: Face, headers: HeaderMap, uri: Uri) -> Response<Body> {
    let Some(id) = value(&uri, "id") else {
        return refuse(StatusCode::BAD_REQUEST, "name the trigger, as in /trigger?id=ID");
    };
    match control(&face, &headers, "triggered", &id) {
        Ok(()) => ask(&face, id, false).await,
        Err(refusal) => *refusal,
    }
}

async fn ask(face: &Face, id: String, place: bool) -> Response<Body> {
    let Some(Placer(ask)) = face.board.placer() else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "it is not ready yet; ask again");
    };
    match ask(id.clone(), place).await {
        Ok(state) => {
            let status = if place { StatusCode::ACCEPTED } else { StatusCode::OK };
            let mut told = json!(TriggerTold::from(state));
            if let Some(told) = told.as_object_mut() {
                told.insert("trigger".to_owned(), id.into());
            }
            answer(status, &told)
        }
        Err(Problem { class, detail }) => {
            let status = match class {
                ProblemClass::Order | ProblemClass::Configuration | ProblemClass::UnusableBlob => {
                    StatusCode::CONFLICT
                }
                _ => StatusCode::BAD_GATEWAY,
            };
            refuse(status, &detail)
        }
    }
}
