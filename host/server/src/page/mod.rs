//! The page at `/`: one self-contained file that shows an election live. With several elections,
//! `/` is an overview, and `/?election=container/blob` is the page of one.
//!
//! The content security policy names the page's script and style by their hashes. The browser
//! accepts no others, so a script in a candidate's name would not run even if the page inserted it
//! as markup.

mod overview;
#[cfg(test)]
mod tests;
pub mod view;

pub use super::responses::json_response;
use super::responses::{
    has_query_key, query_value, unavailable, uncached_response, unknown_election,
};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Response, StatusCode, Uri, header};
use axum::response::IntoResponse as _;
use axum::response::sse::{Event, Sse};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream::unfold;
use overview::Overview;
pub(super) use overview::Row;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};
use std::convert::Infallible;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until};
pub use view::Rate;
use view::View;

/// Maximum number of viewers at a time.
const VIEWERS: usize = 32;

/// Minimum time between two views.
const MIN_SPACING: Duration = Duration::from_millis(250);

/// Maximum time between two views. The page treats three times this as a lost connection.
const MAX_SPACING: Duration = Duration::from_secs(4);

/// Time after which a stream ends and releases its permit; the browser then reconnects. This limits
/// how long a viewer that reads nothing holds a permit: the server cannot detect it until the
/// system's buffers are full.
const STREAM_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// Delay after which the browser reconnects.
const RETRY: Duration = Duration::from_secs(1);

const STYLE: &str = concat!(include_str!("base.css"), include_str!("page.css"));
const SCRIPT: &str =
    concat!(include_str!("base.js"), include_str!("lanes.js"), include_str!("page.js"));
const OVERVIEW_STYLE: &str = concat!(include_str!("base.css"), include_str!("overview.css"));
const OVERVIEW_SCRIPT: &str = concat!(include_str!("base.js"), include_str!("overview.js"));

/// Placeholders for parts that differ between elections: the query in links, and the link back to
/// the overview.
const QUERY: &str = "<!-- QUERY -->";
const BACK_LINK: &str = "<!-- BACK -->";

/// Characters that need no escape in the value of a query.
const QUERY_SAFE: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The page of an election with its placeholders.
static PAGE: LazyLock<Page> = LazyLock::new(|| Page::new(include_str!("page.html"), STYLE, SCRIPT));
static OVERVIEW: LazyLock<Page> =
    LazyLock::new(|| Page::new(include_str!("overview.html"), OVERVIEW_STYLE, OVERVIEW_SCRIPT));

/// A complete document, which contains its style and its script.
struct Page {
    text: String,
    /// The content security policy: allows this script, this style, the embedded icon, and requests
    /// to the page's own server.
    policy: String,
}

impl Page {
    fn new(frame: &str, style: &str, script: &str) -> Self {
        let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
        let policy = format!(
            "default-src 'none'; script-src {}; style-src {}; img-src data:; connect-src 'self'; \
             frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
            hash(script),
            hash(style),
        );
        let text = frame.replace("/* STYLE */", style).replace("/* SCRIPT */", script);
        Self { text, policy }
    }
}

/// A source of views of one election.
#[derive(Clone)]
pub struct Source {
    election: Arc<str>,
    view: Arc<dyn Fn() -> View + Send + Sync>,
    row: Arc<dyn Fn() -> Row + Send + Sync>,
    changed: watch::Receiver<()>,
}

impl Source {
    /// Creates a source. `view` returns the present view; `changed` signals that it has changed.
    pub fn new(
        election: impl Into<Arc<str>>,
        view: impl Fn() -> View + Send + Sync + 'static,
        changed: watch::Receiver<()>,
    ) -> Self {
        let (election, view) = (election.into(), Arc::new(view));
        Self { election, view, row: Arc::new(Row::default), changed }
    }

    /// Sets the function that returns the election's row in the overview.
    pub(super) fn with_row(self, row: impl Fn() -> Row + Send + Sync + 'static) -> Self {
        Self { row: Arc::new(row), ..self }
    }

    pub(super) fn view(&self) -> View {
        (self.view)()
    }
}

/// Function that returns the current source of each election.
type Sources = Arc<dyn Fn() -> Vec<Source> + Send + Sync>;

#[derive(Clone)]
struct PageState {
    sources: Sources,
    overview: Arc<Overview>,
    permits: Arc<Semaphore>,
}

/// Serves `/` and `/events` for the elections that `sources` returns.
///
/// `?election=` selects one of several. Without it, `/` is an overview of them, which reads
/// `/events?overview`.
pub fn router(sources: impl Fn() -> Vec<Source> + Send + Sync + 'static) -> Router {
    let (sources, permits): (Sources, _) = (Arc::new(sources), Arc::new(Semaphore::new(VIEWERS)));
    let overview = Arc::new(Overview::new(sources.clone()));
    Router::new().route("/", get(page)).route("/events", get(events)).with_state(PageState {
        sources,
        overview,
        permits,
    })
}

/// Returns the election that the query names, or the first if it names none. Returns `None` if the
/// name is unknown, or if there is no election.
fn selected<'s>(sources: &'s [Source], uri: &Uri) -> Option<&'s Source> {
    let named = query_value(uri, "election");
    sources.iter().find(|source| named.as_ref().is_none_or(|named| **named == *source.election))
}

/// Returns the status, text and policy of the page for this request.
fn render_page(sources: &[Source], uri: &Uri) -> (StatusCode, String, &'static str) {
    let several = sources.len() > 1;
    match selected(sources, uri) {
        Some(Source { election, .. }) if !several || has_query_key(uri, "election") => {
            // A single election needs no query in its links.
            let query = if several { query(election) } else { String::new() };
            let back = if several { back_link(sources.len()) } else { String::new() };
            let text = PAGE.text.replace(QUERY, &query).replace(BACK_LINK, &back);
            (StatusCode::OK, text, &PAGE.policy)
        }
        // The election is unknown; the overview lists those of this process.
        None if has_query_key(uri, "election") => {
            (StatusCode::NOT_FOUND, OVERVIEW.text.clone(), &OVERVIEW.policy)
        }
        _ => (StatusCode::OK, OVERVIEW.text.clone(), &OVERVIEW.policy),
    }
}

/// Returns the query that selects an election.
fn query(election: &str) -> String {
    format!("?election={}", utf8_percent_encode(election, QUERY_SAFE))
}

/// Returns the link to the overview.
fn back_link(elections: usize) -> String {
    format!("<nav aria-label=\"Elections\"><a href=\"/\">All {elections} elections</a></nav>")
}

async fn page(State(state): State<PageState>, uri: Uri) -> Response<Body> {
    let (status, text, policy) = render_page(&(state.sources)(), &uri);
    let mut response = uncached_response("text/html; charset=utf-8", text);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::from_str(policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

async fn events(State(state): State<PageState>, uri: Uri) -> Response<Body> {
    let sources = (state.sources)();
    let source = match selected(&sources, &uri) {
        Some(source) => Some(source.clone()),
        // The overview needs no election, because some may be added later.
        None if sources.is_empty() && has_query_key(&uri, "overview") => None,
        None => {
            return unknown_election(
                &sources.iter().map(|source| &*source.election).collect::<Vec<_>>(),
            );
        }
    };
    match (state.permits.try_acquire_owned(), source) {
        (Ok(permit), Some(source)) if !has_query_key(&uri, "overview") => stream(source, permit),
        (Ok(permit), _) => overview::stream(state.overview, permit),
        (Err(_), _) => unavailable(&format!("the limit of {VIEWERS} viewers is reached")),
    }
}

/// Returns the views for one viewer as server-sent events: a whole view at once, and another after
/// each change. The permit is released when the viewer disconnects.
///
/// Nothing is queued for a slow reader: a view is made when it can be sent. An unchanged view is
/// sent periodically too. A comment would keep the connection alive, but the page cannot see
/// comments and could not detect a lost connection.
fn stream(source: Source, permit: OwnedSemaphorePermit) -> Response<Body> {
    let viewer = Viewer { source, started_at: Instant::now(), last_sent: None, _permit: permit };
    let events = unfold(viewer, |mut viewer| async {
        let event = viewer.next().await?;
        Some((Ok::<_, Infallible>(event), viewer))
    });
    Sse::new(events).into_response()
}

struct Viewer {
    source: Source,
    started_at: Instant,
    /// The time of the last view sent.
    last_sent: Option<Instant>,
    _permit: OwnedSemaphorePermit,
}

impl Viewer {
    async fn next(&mut self) -> Option<Event> {
        if self.started_at.elapsed() >= STREAM_LIFETIME {
            return None;
        }
        let mut event = Event::default();
        if let Some(last_sent) = self.last_sent {
            sleep_until(last_sent + MIN_SPACING).await;
            tokio::select! {
                changed = self.source.changed.changed() => changed.ok()?,
                () = sleep_until(last_sent + MAX_SPACING) => {}
            }
        } else {
            event = event.retry(RETRY);
        }
        self.source.changed.mark_unchanged();
        self.last_sent = Some(Instant::now());
        serde_json::to_string(&self.source.view()).ok().map(|view| event.data(view))
    }
}
