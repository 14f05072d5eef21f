//! The page at `/`: one file that shows an election as it goes on, and nothing from anywhere else.
//!
//! Its script and its style are the only ones that its browser runs: the policy names them by their
//! hash, so that a name with markup in it could do nothing even if it were put in as markup.

mod elections;
mod events;
pub mod rate;
#[cfg(test)]
mod tests;
pub mod view;

use super::pages::{refuse, shown, unknown, value};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Response, StatusCode, Uri, header};
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

/// What is different from one election to another: the query of links, and the links to the others. The
/// latter is put in last: no name becomes a part of the page that is looked for.
const QUERY: &str = "<!-- QUERY -->";
const ELECTIONS: &str = "<!-- ELECTIONS -->\n";

/// The page in one piece, but for these.
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
pub struct Source {
    view: Arc<dyn Fn() -> View + Send + Sync>,
    changed: watch::Receiver<()>,
}

impl Source {
    /// Takes views of `view`, and sends another one whenever there is word of a change.
    pub fn new(
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
pub fn router(sources: Vec<(String, Source)>) -> Router {
    let (sources, places) = (sources.into(), Arc::new(Semaphore::new(VIEWERS)));
    Router::new()
        .route("/", get(page))
        .route("/events", get(events))
        .with_state(Face { sources, places })
}

impl Face {
    fn elections(&self) -> Vec<&str> {
        self.sources.iter().map(|(election, _)| &**election).collect()
    }

    /// The election that the query names, or else the first.
    fn chosen(&self, uri: &Uri) -> Option<&(String, Source)> {
        let named = value(uri, "election");
        self.sources.iter().find(|(election, _)| named.as_ref().is_none_or(|n| n == election))
    }

    fn page(&self, uri: &Uri) -> String {
        let elections = self.elections();
        let chosen = self.chosen(uri).map(|(election, _)| &**election);
        // The only one goes without saying, to the other paths too.
        let query = chosen.filter(|_| elections.len() > 1).map(elections::query);
        PAGE.replace(QUERY, &query.unwrap_or_default())
            .replace(ELECTIONS, &elections::links(&elections, chosen))
    }
}

async fn page(State(face): State<Face>, uri: Uri) -> Response<Body> {
    let mut response = shown("text/html; charset=utf-8", face.page(&uri));
    if face.chosen(&uri).is_none() {
        // It links to those that are here.
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    if let Ok(policy) = HeaderValue::from_str(&POLICY) {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    let headers = response.headers_mut();
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

async fn events(State(face): State<Face>, uri: Uri) -> Response<Body> {
    let Some((_, source)) = face.chosen(&uri).cloned() else {
        return unknown(&face.elections());
    };
    match face.places.try_acquire_owned() {
        Ok(place) => events::stream(source, place),
        Err(_) => refuse(&format!("{VIEWERS} viewers are watching, and no more are taken")),
    }
}
