//! Steering a candidate over HTTP, for whoever has the token.
//!
//! | request | order |
//! |---|---|
//! | `POST /resign` | give up the leadership, and let the others come first |
//! | `POST /transfer?to=NAME` | hand over to the candidate of that name |
//! | `POST /pause` | stay out of the race; a leader resigns |
//! | `POST /resume` | contend again |
//!
//! Each needs `Authorization: Bearer TOKEN`, which no page of another site can send. The answer is 202: it
//! was ordered. What becomes of it is seen at `/leader`, and in the log.

use super::board::Role;
use super::pages::{Face, Faces, answer};
use crate::runner::Order;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode, Uri, header};
use axum::routing::post;
use serde_json::json;
use std::fmt;
use tokio::sync::mpsc;
use zeroize::Zeroize;

/// No candidate has a longer name, in bytes.
const LONGEST_NAME: usize = 128;

/// Who may steer, and where the orders go.
#[derive(Clone, Debug)]
pub struct Control {
    /// What operators show.
    pub token: ControlToken,
    /// Read by the runner ([`run_with`](crate::runner::Runner::run_with)).
    pub orders: mpsc::Sender<Order>,
}

/// The secret that operators share with a candidate.
#[derive(Clone)]
pub struct ControlToken(String);

impl ControlToken {
    /// The fewest characters of a token.
    pub const SHORTEST: usize = 16;

    /// A token that is long enough and can stand in a header.
    ///
    /// # Errors
    ///
    /// The rule that it breaks.
    pub fn new(token: &str) -> Result<Self, &'static str> {
        let token = token.trim();
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("has spaces or characters that cannot stand in a header");
        }
        if token.len() < Self::SHORTEST {
            return Err("has fewer than 16 characters");
        }
        Ok(Self(token.to_owned()))
    }

    /// The token itself.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Takes as long whatever is different.
    pub(crate) fn is(&self, shown: &str) -> bool {
        let (own, shown) = (self.0.as_bytes(), shown.as_bytes());
        let differs = own.iter().zip(shown).fold(0, |differs, (a, b)| differs | (a ^ b));
        own.len() == shown.len() && std::hint::black_box(differs) == 0
    }
}

impl Drop for ControlToken {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for ControlToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControlToken(..)")
    }
}

/// What is ordered there, and not read.
pub(super) const ORDERS: [&str; 4] = ["/resign", "/transfer", "/pause", "/resume"];

pub(super) fn routes() -> Router<Faces> {
    Router::new()
        .route("/resign", post(resign))
        .route("/transfer", post(transfer))
        .route("/pause", post(|face, headers| order(face, headers, Order::Pause)))
        .route("/resume", post(|face, headers| order(face, headers, Order::Resume)))
}

async fn resign(face: Face, headers: HeaderMap) -> Response<Body> {
    match leads(&face, &headers) {
        Ok(()) => order(face, headers, Order::Resign).await,
        Err(refusal) => *refusal,
    }
}

async fn transfer(face: Face, headers: HeaderMap, uri: Uri) -> Response<Body> {
    if let Err(refusal) = leads(&face, &headers) {
        return *refusal;
    }
    let to = name(&uri);
    match to {
        // Names are compared as they are written on record.
        Some(to) if to == face.board.candidate => {
            refuse(StatusCode::CONFLICT, "this candidate leads already")
        }
        Some(to) => order(face, headers, Order::HandOver(to)).await,
        None => refuse(StatusCode::BAD_REQUEST, "name the heir, as in /transfer?to=NAME"),
    }
}

/// The name after `to=`.
fn name(uri: &Uri) -> Option<String> {
    let url = reqwest::Url::parse(&format!("http://-/?{}", uri.query()?)).ok()?;
    let name = url.query_pairs().find(|(key, _)| key == "to")?.1;
    (!name.is_empty() && name.len() <= LONGEST_NAME).then(|| name.into_owned())
}

/// Whether there is a leadership to give up. Who may not know is not told.
fn leads(face: &Face, headers: &HeaderMap) -> Result<(), Box<Response<Body>>> {
    control(face, headers)?;
    match face.board.role(face.clock.now()) {
        Role::Leading { .. } => Ok(()),
        Role::Following(Some(leader)) => {
            let told = json!({ "error": "this candidate does not lead", "leader": leader });
            Err(Box::new(answer(StatusCode::CONFLICT, &told)))
        }
        _ => Err(Box::new(refuse(StatusCode::CONFLICT, "this candidate does not lead"))),
    }
}

fn control<'f>(face: &'f Face, headers: &HeaderMap) -> Result<&'f Control, Box<Response<Body>>> {
    let Some(control) = &face.control else {
        let why = "this candidate cannot be steered: it has no control token \
                   (--control-token-file, or TENURE_CONTROL_TOKEN)";
        return Err(Box::new(refuse(StatusCode::FORBIDDEN, why)));
    };
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|value| value.strip_prefix("Bearer "));
    if shown.is_some_and(|shown| control.token.is(shown)) {
        return Ok(control);
    }
    let mut refusal = refuse(StatusCode::UNAUTHORIZED, "the control token is missing or wrong");
    let challenge = header::HeaderValue::from_static("Bearer");
    refusal.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    Err(Box::new(refusal))
}

async fn order(face: Face, headers: HeaderMap, order: Order) -> Response<Body> {
    let control = match control(&face, &headers) {
        Ok(control) => control,
        Err(refusal) => return *refusal,
    };
    let told = json!({ "ordered": order.to_string() });
    match control.orders.try_send(order) {
        Ok(()) => answer(StatusCode::ACCEPTED, &told),
        Err(_) => refuse(StatusCode::SERVICE_UNAVAILABLE, "it takes no orders now; ask again"),
    }
}

fn refuse(status: StatusCode, why: &str) -> Response<Body> {
    answer(status, &json!({ "error": why }))
}
