//! The page at `/`: one file that shows an election as it goes on, and nothing from anywhere else.
//!
//! Its script and its style are the only ones that its browser runs: the policy names them by their
//! hash, so that a name with markup in it could do nothing even if it were put in as markup.

mod events;
pub(crate) mod rate;
#[cfg(test)]
mod tests;
pub(crate) mod view;

use super::pages::{refuse, shown, unknown, value};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Response, Uri, header};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use std::sync::{Arc, LazyLock};
use tokio::sync::{Semaphore, watch};
use view::View;

/// So many may watch at a time.
const VIEWERS: usize = 32;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const FRAME: &str = include_str!("page.html");

/// The page in one piece.
static PAGE: LazyLock<String> =
    LazyLock::new(|| FRAME.replace("/* STYLE */", STYLE).replace("/* SCRIPT */", SCRIPT));

/// What its browser may do: run this script and this style, draw the icon that is in the page, and
/// ask whoever it has the page from.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    format!(
        "default-src 'none'; script-src {}; style-src {}; img-src data:; connect-src 'self'; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE),
    )
});

/// Where views come from, and the word that there is a new one.
#[derive(Clone)]
pub(crate) struct Source {
    view: Arc<dyn Fn() -> View + Send + Sync>,
    changed: watch::Receiver<()>,
}

impl Source {
    pub(crate) fn new(
        view: impl Fn() -> View + Send + Sync + 'static,
        changed: watch::Receiver<()>,
    ) -> Self {
        Self { view: Arc::new(view), changed }
    }

    fn view(&self) -> View {
        (self.view)()
    }
}

#[derive(Clone)]
struct Face {
    /// Elections, and what is to be seen of each.
    sources: Arc<[(String, Source)]>,
    places: Arc<Semaphore>,
}

/// `/` and `/events`, of the election that `?election=` names or else the first.
pub(crate) fn router(sources: Vec<(String, Source)>) -> Router {
    let (sources, places) = (sources.into(), Arc::new(Semaphore::new(VIEWERS)));
    Router::new()
        .route("/", get(page))
        .route("/events", get(events))
        .with_state(Face { sources, places })
}

async fn page(State(face): State<Face>, uri: Uri) -> Response<Body> {
    if let Err(refusal) = chosen(&face, &uri) {
        return *refusal;
    }
    let mut response = shown("text/html; charset=utf-8", PAGE.as_str());
    if let Ok(policy) = HeaderValue::from_str(&POLICY) {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    let headers = response.headers_mut();
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

/// The election that the query names, or else the first.
fn chosen<'f>(face: &'f Face, uri: &Uri) -> Result<&'f Source, Box<Response<Body>>> {
    let named = value(uri, "election");
    let is_meant = |(election, _): &&(String, Source)| named.as_ref().is_none_or(|n| n == election);
    let found = face.sources.iter().find(is_meant).map(|(_, source)| source);
    let elections =
        || face.sources.iter().map(|(election, _)| election.as_str()).collect::<Vec<_>>();
    found.ok_or_else(|| Box::new(unknown(&elections())))
}

async fn events(State(face): State<Face>, uri: Uri) -> Response<Body> {
    let source = match chosen(&face, &uri) {
        Ok(source) => source.clone(),
        Err(refusal) => return *refusal,
    };
    match face.places.try_acquire_owned() {
        Ok(place) => events::stream(source, place),
        Err(_) => refuse(&format!("{VIEWERS} viewers are watching, and no more are taken")),
    }
}
