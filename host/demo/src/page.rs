//! `tenure demo --page`: the election in a browser, where people break it themselves. Its buttons send
//! `POST /candidates/NAME/ACT`.
//!
//! Any client that reaches the address may look. To act takes the token of this demo, and a request of this very
//! page: other pages of the same browser reach this machine too, under other names (`Host`) or under their own
//! (`Origin`).

use super::act::Act;
use super::link::Link;
use super::scene::{End, Interrupt, Scene};
use super::screen::Screen;
use super::stage::{ELECTION, Heard};
use super::summary;
use super::view::view;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::routing::post;
use rustls::crypto::ring::default_provider;
use serde_json::json;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure_server::page::view::{View, WINDOW};
use tenure_server::page::{Source, answer, router};
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::sleep;

/// Between two views: as often as leaders give a beat.
const REFRESH: Duration = Duration::from_millis(500);

/// What is older is forgotten: more than the page shows.
const MEMORY: Duration = Duration::from_secs(2 * WINDOW.as_secs());

/// Does something to the candidate of that number; else says why not.
type Do = dyn Fn(usize, Act) -> Result<(), String> + Send + Sync;

/// The buttons, and the permission to press them.
pub(super) struct Control {
    /// The address of the page.
    pub address: SocketAddr,
    pub token: String,
    pub names: Vec<&'static str>,
    pub press: Box<Do>,
}

/// Goes on until a signal.
pub(super) async fn perform(
    scene: Scene,
    mut heard: UnboundedReceiver<Heard>,
    mut screen: Screen,
    mut interrupt: Interrupt<'_>,
) -> io::Result<End> {
    let names: Vec<_> = scene.story.lanes.iter().map(|lane| lane.name).collect();
    let scene = Arc::new(Mutex::new(scene));
    let changed = watch::Sender::new(());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let (address, token) = (listener.local_addr()?, random()?);
    let (shown, pressed) = (scene.clone(), scene.clone());
    let source = Source::new(ELECTION, move || lock(&shown).view(), changed.subscribe());
    let press = Box::new(move |who, act| lock(&pressed).press(who, act));
    let app = app(Control { address, token: token.clone(), names, press }, source);
    lock(&scene).stage.tasks.spawn(async move { drop(axum::serve(listener, app).await) });
    lock(&scene).start_all()?;
    // Behind the `#`, so that the token is never sent, not even as the address that a user came from. Only the
    // page's own script reads it.
    screen.print(&format!(
        "Open http://{address}/#token={token}\nin a browser on this machine. Ctrl-C ends it.\n\n"
    ))?;
    let shown = loop {
        let news = tokio::select! {
            biased;
            () = &mut interrupt => break Ok(()),
            heard = heard.recv() => heard,
            () = sleep(REFRESH) => None,
        };
        let shown = lock(&scene).goes_on(news, &mut screen);
        changed.send_replace(());
        if shown.is_err() {
            break shown;
        }
    };
    let mut tasks = std::mem::take(&mut lock(&scene).stage.tasks);
    tasks.shutdown().await;
    shown?;
    let Scene { stage, story } = &*lock(&scene);
    let overlapping = stage.sink.overlapping();
    screen.print(&summary::table(story, overlapping))?;
    Ok(match overlapping {
        0 => End::Played,
        turns => End::Failed(format!("turns that overlapped: {turns}")),
    })
}

impl Scene {
    fn press(&mut self, who: usize, act: Act) -> Result<(), String> {
        match self.story.possible(who, self.now()).contains(&act) {
            true => self.act(act, who).map_err(|error| error.to_string()),
            false => Err("that is not possible at the moment".to_owned()),
        }
    }

    fn goes_on(&mut self, news: Option<Heard>, screen: &mut Screen) -> io::Result<()> {
        news.into_iter().for_each(|heard| self.hear(heard));
        while self.stage.tasks.try_join_next().is_some() {}
        let now = self.now();
        self.story.forget(now.saturating_sub(MEMORY));
        screen.show(&mut self.story, now)
    }

    fn view(&self) -> View {
        let requests: Vec<_> = self.stage.links.iter().map(Link::requests_per_minute).collect();
        view(&self.story, self.now(), self.stage.sink.overlapping(), &requests)
    }
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
    match (control.press)(who, act) {
        Ok(()) => answer(StatusCode::OK, &json!({ "done": act.name() })),
        Err(why) => refuse(StatusCode::CONFLICT, &why),
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
