//! `tenure demo --page`: the election in a browser, where people break it themselves. Its buttons send
//! `POST /candidates/NAME/ACT`.
//!
//! Any client that reaches the address may look. To act takes the token of this demo, and a request of this very
//! page: other pages of the same browser reach this machine too, under other names (`Host`) or under their own
//! (`Origin`).

use super::act::Act;
use super::link::Link;
use super::screen::Screen;
use super::stage::Stage;
use super::story::Story;
use super::view::view;
use super::{End, Interrupt, Options, summary};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::routing::post;
use chrono::Utc;
use rustls::crypto::ring::default_provider;
use serde_json::json;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure::program::server::view::WINDOW;
use tenure::program::server::{Source, answer, router};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// Between two views: as often as leaders give a beat.
const REFRESH: Duration = Duration::from_millis(500);

/// What is older is forgotten: more than the page shows.
const MEMORY: Duration = Duration::from_secs(2 * WINDOW.as_secs());

/// Clicks that wait. More are refused.
const CLICKS: usize = 16;

/// All that the page shows.
struct Scene {
    story: Story,
    overlapping: usize,
    /// Requests per minute of each candidate.
    requests: Vec<usize>,
}

/// A click on a button.
pub(super) struct Click {
    pub who: usize,
    pub act: Act,
    /// Done, or why not.
    pub answer: oneshot::Sender<Result<(), String>>,
}

/// The permission to act, and the receiver of clicks.
pub(super) struct Control {
    /// The address of the page.
    pub address: SocketAddr,
    pub token: String,
    pub names: Vec<&'static str>,
    pub clicks: mpsc::Sender<Click>,
}

/// Goes on until a signal.
pub(super) async fn perform(
    mut stage: Stage,
    story: Story,
    options: &Options,
    mut interrupt: Interrupt<'_>,
    tasks: &mut JoinSet<()>,
) -> io::Result<End> {
    let names: Vec<_> = story.lanes.iter().map(|lane| lane.name).collect();
    let scene = Scene { story, overlapping: 0, requests: Vec::new() };
    let scene = Arc::new(Mutex::new(scene));
    let changed = watch::Sender::new(());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let (address, token) = (listener.local_addr()?, random()?);
    let (sender, mut clicks) = mpsc::channel(CLICKS);
    let shown = scene.clone();
    let shown = move || {
        let Scene { story, overlapping, requests } = &*lock(&shown);
        view(story, story.at(Utc::now()), *overlapping, requests)
    };
    let source = Source::new(super::stage::ELECTION, shown, changed.subscribe());
    let control = Control { address, token: token.clone(), names, clicks: sender };
    let app = app(control, source);
    tasks.spawn(async move { drop(axum::serve(listener, app).await) });
    let mut screen = Screen::new(options.colour, true);
    for who in 0..stage.links.len() {
        act(&mut stage, &mut lock(&scene).story, who, Act::Start, tasks)?;
    }
    // Behind the `#`, so that the token is never sent, not even as the address that a user came from. Only the
    // page's own script reads it.
    (options.say)(&format!(
        "Open http://{address}/#token={token}\nin a browser on this machine. Ctrl-C ends it.\n\n"
    ));
    let mut refresh = interval(REFRESH);
    refresh.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = &mut interrupt => break,
            Some(heard) = stage.hear() => lock(&scene).story.hear(heard),
            Some(Click { who, act: wanted, answer }) = clicks.recv() => {
                let story = &mut lock(&scene).story;
                let done = match story.possible(who, story.at(Utc::now())).contains(&wanted) {
                    true => act(&mut stage, story, who, wanted, tasks).map_err(|e| e.to_string()),
                    false => Err("that is not possible at the moment".to_owned()),
                };
                // The client may have gone.
                let _ = answer.send(done);
            }
            _ = refresh.tick() => while tasks.try_join_next().is_some() {},
        }
        {
            let Scene { story, overlapping, requests } = &mut *lock(&scene);
            let now = story.at(Utc::now());
            story.forget(now.saturating_sub(MEMORY));
            *overlapping = stage.sink.overlapping();
            *requests = stage.links.iter().map(Link::requests_per_minute).collect();
            screen.show(story, now)?;
        }
        changed.send_replace(());
    }
    let overlapping = stage.sink.overlapping();
    screen.print(&summary::table(&lock(&scene).story, overlapping))?;
    Ok(match overlapping {
        0 => End::Played,
        turns => End::Failed(format!("turns that overlapped: {turns}")),
    })
}

fn act(
    stage: &mut Stage,
    story: &mut Story,
    who: usize,
    act: Act,
    tasks: &mut JoinSet<()>,
) -> io::Result<()> {
    stage.act(act, who, story.name(who), tasks)?;
    story.act(story.at(Utc::now()), who, act);
    Ok(())
}

fn lock(scene: &Mutex<Scene>) -> MutexGuard<'_, Scene> {
    scene.lock().unwrap_or_else(PoisonError::into_inner)
}

/// 128 random bits.
fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    let filled = default_provider().secure_random.fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system provides no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The page, and its buttons.
pub(super) fn app(control: Control, source: Source) -> Router {
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
    if let Err(why) = control.admits(&headers) {
        return refuse(StatusCode::FORBIDDEN, why);
    }
    let who = control.names.iter().position(|known| *known == name);
    let (Some(who), Some(act)) = (who, Act::read(&act)) else {
        return refuse(StatusCode::NOT_FOUND, "there is no such candidate, or no such action");
    };
    let (sender, done) = oneshot::channel();
    if control.clicks.try_send(Click { who, act, answer: sender }).is_err() {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "too many requests at once");
    }
    match done.await {
        Ok(Ok(())) => answer(StatusCode::OK, &json!({ "done": act.name() })),
        Ok(Err(why)) => refuse(StatusCode::CONFLICT, &why),
        Err(_) => refuse(StatusCode::SERVICE_UNAVAILABLE, "the demo has ended"),
    }
}

fn refuse(status: StatusCode, why: &str) -> Response<Body> {
    answer(status, &json!({ "error": why }))
}

impl Control {
    /// Admits the requests of the page itself.
    pub(super) fn admits(&self, headers: &HeaderMap) -> Result<(), &'static str> {
        let only = |name| {
            let mut values = headers.get_all(name).iter();
            values.next().filter(|_| values.next().is_none())
        };
        let is = |name, expected: String| only(name).is_some_and(|value| *value == *expected);
        if !is(header::HOST, self.address.to_string()) {
            return Err("this was sent to another name than this page's address");
        }
        if !is(header::ORIGIN, format!("http://{}", self.address)) {
            return Err("this was not sent by this page");
        }
        let given = only(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        match given.and_then(|value| value.strip_prefix("Bearer ")) {
            Some(given) if is_same(given, &self.token) => Ok(()),
            _ => Err("the token is wrong: open the address that `tenure demo --page` printed"),
        }
    }
}

/// Returns true if the texts are the same. Takes as long wherever they differ.
fn is_same(given: &str, token: &str) -> bool {
    let pairs = given.bytes().zip(token.bytes());
    given.len() == token.len() && pairs.fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
