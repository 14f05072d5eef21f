//! `tenure demo --page`: the election in a browser, where the user triggers faults. The buttons
//! send `POST /candidates/NAME/ACTION`.
//!
//! Any client that reaches the address may view the page. An action needs the token of this demo
//! and a request from this very page. Other pages of the same browser can reach this machine too,
//! under other names (`Host`) or from their own origin (`Origin`).

use super::story::{ELECTION, SharedStory};
use super::view::view;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::routing::post;
use serde_json::json;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tenure_server::page::{Source, json_response, router};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// State of the buttons: the story that they change, and the token that they need.
pub(super) struct Control {
    /// The address of the page.
    pub address: SocketAddr,
    pub token: String,
    pub story: SharedStory,
}

/// Serves the page in a task of `tasks`. Returns the URL to open.
pub(super) async fn open(
    story: &SharedStory,
    changed: watch::Receiver<()>,
    tasks: &mut JoinSet<()>,
) -> io::Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    // 128 random bits.
    let random = || getrandom::u64().map_err(io::Error::other);
    let token = format!("{:016x}{:016x}", random()?, random()?);
    // Behind the `#`, the token is never sent, not even as a referrer. Only the page's own script
    // reads it.
    let url = format!("http://{address}/#token={token}");
    let app = app(Control { address, token, story: story.clone() }, changed);
    tasks.spawn(async move { drop(axum::serve(listener, app).await) });
    Ok(url)
}

/// Returns the router of the page and its buttons.
pub(super) fn app(control: Control, changed: watch::Receiver<()>) -> Router {
    let story = control.story.clone();
    let view = move || story.with(|story, now| view(story, now));
    let source = Source::new(ELECTION, view, changed);
    Router::new()
        .route("/candidates/{name}/{act}", post(click))
        .with_state(Arc::new(control))
        .merge(router(move || vec![source.clone()]))
}

async fn click(
    State(control): State<Arc<Control>>,
    Path((name, act)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response<Body> {
    let refuse = |status, reason: &str| json_response(status, &json!({ "error": reason }));
    if let Err(reason) = control.authorize(&headers) {
        return refuse(StatusCode::FORBIDDEN, reason);
    }
    control.story.with(|story, now| {
        let Some(index) = story.lanes.iter().position(|lane| lane.name == name) else {
            return refuse(StatusCode::NOT_FOUND, "there is no such candidate");
        };
        match story.possible_actions(index, now).into_iter().find(|possible| possible.name() == act)
        {
            Some(possible) => {
                story.apply(now, index, possible);
                json_response(StatusCode::OK, &json!({ "done": act }))
            }
            None => refuse(StatusCode::CONFLICT, "that is not possible at the moment"),
        }
    })
}

impl Control {
    /// Accepts only requests of the page itself.
    pub(super) fn authorize(&self, headers: &HeaderMap) -> Result<(), &'static str> {
        let single_value = |name| {
            let mut values = headers.get_all(name).iter();
            values.next().filter(|_| values.next().is_none())
        };
        let has_value =
            |name, expected: String| single_value(name).is_some_and(|value| *value == *expected);
        if !has_value(header::HOST, self.address.to_string()) {
            return Err("the Host header does not name this page's address");
        }
        if !has_value(header::ORIGIN, format!("http://{}", self.address)) {
            return Err("the request does not come from this page");
        }
        let authorization =
            single_value(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        match authorization.and_then(|value| value.strip_prefix("Bearer ")) {
            Some(presented) if is_same(presented, &self.token) => Ok(()),
            _ => Err("the token is wrong: open the address that `tenure demo --page` printed"),
        }
    }
}

/// Returns true if the texts are equal. Takes the same time wherever they differ.
fn is_same(presented: &str, token: &str) -> bool {
    let pairs = presented.bytes().zip(token.bytes());
    presented.len() == token.len() && pairs.fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
