//! All elections of a process as lines, by one stream of server-sent events: the first event has all lines, and
//! each later one those that changed. Lines tell instants in place of ages, so that one in which nothing
//! happens stays the same; each event tells the time of the process beside them, and which elections are there
//! no longer.

use super::Sources;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use chrono::Utc;
use futures_util::stream::unfold;
use serde::Serialize;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure::status::Fares;
use tenure_core::Timestamp;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};

/// Lines are looked at so often, however many viewers there are.
const FRESH: Duration = Duration::from_secs(1);

/// One election.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Row {
    /// `container/blob`.
    pub election: String,
    /// By which lines are sorted.
    pub fares: Fares,
    /// What this candidate is, in one word.
    pub role: &'static str,
    /// It does not know who leads.
    pub unseen: bool,
    /// Who leads, where that is known.
    pub leader: Option<String>,
    /// Its term.
    pub term: Option<u64>,
    /// How the last turn ended, or `running`.
    pub outcome: Option<String>,
    /// When a turn ended last, in milliseconds since 1970.
    pub ended_at: Option<u64>,
    /// How long the last turn ran, where that is known.
    pub took_ms: Option<u64>,
    /// When the next turn is due, in milliseconds since 1970.
    pub next_at: Option<u64>,
    /// The same in the schedule's time zone (RFC 9557).
    pub next_local: Option<String>,
    /// The schedule, in words.
    pub schedule: Option<String>,
    /// What keeps this candidate from leading and from following.
    pub problem: Option<String>,
}

/// What is sent.
#[derive(Serialize)]
struct Told<'r> {
    /// The time of this process, in milliseconds since 1970.
    now: u64,
    /// How many elections there are.
    elections: usize,
    rows: Vec<&'r Row>,
    /// Those that are there no longer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gone: Vec<&'r str>,
}

impl<'r> Told<'r> {
    /// The lines that are new or have changed since `before`.
    fn of(rows: &'r [Row], before: &'r [Row]) -> Self {
        let by_name = |rows: &'r [Row]| rows.iter().map(|row| (&*row.election, row)).collect();
        let (old, new): (HashMap<_, _>, HashMap<_, _>) = (by_name(before), by_name(rows));
        let changed = rows.iter().filter(|row| old.get(&*row.election) != Some(row));
        let gone = before.iter().map(|row| &*row.election).filter(|name| !new.contains_key(name));
        let (rows, gone) = (changed.collect(), gone.collect());
        Self {
            now: Timestamp::from_date(Utc::now()).0 / 1_000_000,
            elections: new.len(),
            rows,
            gone,
        }
    }

    fn is_news(&self) -> bool {
        !self.rows.is_empty() || !self.gone.is_empty()
    }

    fn put(&self, event: Event) -> Option<Event> {
        serde_json::to_string(self).ok().map(|text| event.data(text))
    }
}

/// The lines of all elections, made anew for the first of the viewers who asks after a while.
pub(super) struct Overview {
    sources: Sources,
    newest: Mutex<Option<(Instant, Arc<Vec<Row>>)>>,
}

impl Overview {
    pub(super) fn new(sources: Sources) -> Self {
        Self { sources, newest: Mutex::default() }
    }

    fn rows(&self) -> Arc<Vec<Row>> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        match &*newest {
            Some((made, rows)) if made.elapsed() < FRESH => rows.clone(),
            _ => {
                let rows = (self.sources)().iter().map(|source| (source.row)()).collect();
                let rows = Arc::new(rows);
                *newest = Some((Instant::now(), Arc::clone(&rows)));
                rows
            }
        }
    }
}

/// Lines for one viewer, who gives its place back when it goes.
pub(super) fn stream(overview: Arc<Overview>, place: OwnedSemaphorePermit) -> Response {
    let viewer = Viewer { overview, began: Instant::now(), shown: None, _place: place };
    let events = unfold(viewer, |mut viewer| async {
        let event = viewer.next().await?;
        Some((Ok::<_, Infallible>(event), viewer))
    });
    Sse::new(events).into_response()
}

struct Viewer {
    overview: Arc<Overview>,
    began: Instant,
    /// When it was last shown something, and the lines as they are there.
    shown: Option<(Instant, Arc<Vec<Row>>)>,
    _place: OwnedSemaphorePermit,
}

impl Viewer {
    async fn next(&mut self) -> Option<Event> {
        let Some((shown, before)) = self.shown.take() else {
            let rows = self.overview.rows();
            let first = Event::default().retry(super::events::RETRY);
            let event = Told::of(&rows, &[]).put(first)?;
            self.shown = Some((Instant::now(), rows));
            return Some(event);
        };
        let mut looked = shown;
        loop {
            if self.began.elapsed() >= super::events::LIFE {
                return None;
            }
            looked += FRESH;
            sleep_until(looked).await;
            let rows = self.overview.rows();
            let told = Told::of(&rows, &before);
            // Also where nothing changed, so that the page knows of its connection.
            if told.is_news() || shown.elapsed() >= super::events::BEAT {
                let event = told.put(Event::default())?;
                self.shown = Some((Instant::now(), rows));
                return Some(event);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Source;
    use super::super::view::View;
    use super::*;
    use http_body_util::BodyExt as _;
    use serde_json::{Value, json};
    use std::sync::atomic::{AtomicU64, Ordering};
    use tokio::sync::{Semaphore, watch};

    async fn told(response: &mut Response) -> Value {
        let frame = response.body_mut().frame().await.unwrap().unwrap();
        let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
        let (_, data) = text.split_once("data: ").unwrap();
        serde_json::from_str(data.trim_end()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn all_lines_come_first_and_then_those_that_changed() {
        let (term, made) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(0)));
        let source = |number: usize| {
            let (term, made) = (term.clone(), made.clone());
            let election = format!("jobs/{number}");
            let changed = watch::Sender::new(()).subscribe();
            let source = Source::new(&*election, View::default, changed);
            let row = {
                let election = election.clone();
                move || {
                    made.fetch_add(1, Ordering::Relaxed);
                    let term = (number == 7).then(|| term.load(Ordering::Relaxed));
                    Row { election: election.clone(), term, ..Row::default() }
                }
            };
            source.with_row(row)
        };
        let sources = Arc::new(Mutex::new((0..300).map(source).collect::<Vec<_>>()));
        let shown = sources.clone();
        let overview = Arc::new(Overview::new(Arc::new(move || shown.lock().unwrap().clone())));
        let places = Arc::new(Semaphore::new(2));
        let viewer = || stream(overview.clone(), places.clone().try_acquire_owned().unwrap());
        let (mut one, mut other) = (viewer(), viewer());
        for viewer in [&mut one, &mut other] {
            let first = told(viewer).await;
            assert_eq!(first["elections"], 300);
            assert_eq!(first["rows"].as_array().unwrap().len(), 300);
        }
        assert_eq!(made.load(Ordering::Relaxed), 300, "once for all who look");

        term.store(2, Ordering::Relaxed);
        for viewer in [&mut one, &mut other] {
            let next = told(viewer).await;
            let rows = next["rows"].as_array().unwrap();
            assert_eq!((rows.len(), &rows[0]["term"]), (1, &Value::from(2)));
        }
        let gone = sources.lock().unwrap().remove(9);
        for viewer in [&mut one, &mut other] {
            let next = told(viewer).await;
            assert_eq!((&next["elections"], &next["gone"]), (&299.into(), &json!(["jobs/9"])));
            assert_eq!(next["rows"], json!([]));
        }
        sources.lock().unwrap().insert(20, gone);
        for viewer in [&mut one, &mut other] {
            let next = told(viewer).await;
            assert_eq!((&next["elections"], next.get("gone")), (&300.into(), None));
            assert_eq!(next["rows"][0]["election"], "jobs/9");
        }
        // Nothing changes.
        let silent = Instant::now();
        let beat = told(&mut one).await;
        assert_eq!(beat["rows"], Value::Array(Vec::new()));
        let beat = super::super::events::BEAT;
        assert!((beat..beat + FRESH).contains(&silent.elapsed()), "{:?}", silent.elapsed());
        // Nobody has the place for good.
        drop(other);
        while one.body_mut().frame().await.is_some() {}
        assert_eq!(places.available_permits(), 2);
    }
}
