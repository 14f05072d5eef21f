//! All elections of a process as rows, in one stream of server-sent events.
//!
//! The first event has all rows, and each later one those that changed. Rows carry instants instead
//! of ages, so a row without changes stays equal. Each event also has the time of the process, and
//! the elections that were removed.

use super::{MAX_SPACING, RETRY, STREAM_LIFETIME, Sources};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use chrono::Utc;
use futures_util::stream::unfold;
use serde::Serialize;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure::status::ElectionHealth;
use tenure_core::Timestamp;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};

/// Maximum age of the rows, which all viewers share. Older rows are rebuilt.
const ROW_MAX_AGE: Duration = Duration::from_secs(1);

/// A row of the overview: one election.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Row {
    /// `container/blob`.
    pub election: String,
    /// Health of the election. The page sorts the rows by it.
    pub health: ElectionHealth,
    /// The role of this candidate, in one word.
    pub role: &'static str,
    /// True if it is not known who leads, or whether any candidate does. If it is false and
    /// `leader` is `None`, no candidate leads.
    pub unseen: bool,
    /// The leader, if known.
    pub leader: Option<String>,
    /// The leader's term.
    pub term: Option<u64>,
    /// The outcome of the last turn, or `running`.
    pub outcome: Option<String>,
    /// End of the last turn, in milliseconds since 1970.
    pub ended_at: Option<u64>,
    /// Duration of the last turn, if known.
    pub took_ms: Option<u64>,
    /// Time of the next turn, in milliseconds since 1970.
    pub next_at: Option<u64>,
    /// The same in the schedule's time zone (RFC 9557).
    pub next_local: Option<String>,
    /// The schedule, in words.
    pub schedule: Option<String>,
    /// The problem that prevents this candidate from leading and following.
    pub problem: Option<String>,
}

/// One event of the overview.
#[derive(Serialize)]
struct RowsUpdate<'r> {
    /// The time of this process, in milliseconds since 1970.
    now: u64,
    /// Number of elections.
    elections: usize,
    rows: Vec<&'r Row>,
    /// Elections that were removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gone: Vec<&'r str>,
}

impl<'r> RowsUpdate<'r> {
    /// Creates an event with the rows that are new or changed since `previous`.
    fn new(rows: &'r [Row], previous: &'r [Row]) -> Self {
        let by_name = |rows: &'r [Row]| rows.iter().map(|row| (&*row.election, row)).collect();
        let (old, new): (HashMap<_, _>, HashMap<_, _>) = (by_name(previous), by_name(rows));
        let changed = rows.iter().filter(|row| old.get(&*row.election) != Some(row));
        let gone = previous.iter().map(|row| &*row.election).filter(|name| !new.contains_key(name));
        let (rows, gone) = (changed.collect(), gone.collect());
        Self {
            now: Timestamp::from_date(Utc::now()).0 / 1_000_000,
            elections: new.len(),
            rows,
            gone,
        }
    }

    fn has_changes(&self) -> bool {
        !self.rows.is_empty() || !self.gone.is_empty()
    }

    fn to_event(&self, event: Event) -> Option<Event> {
        serde_json::to_string(self).ok().map(|text| event.data(text))
    }
}

/// The rows of all elections, shared by all viewers and rebuilt at most once a second.
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
            Some((made_at, rows)) if made_at.elapsed() < ROW_MAX_AGE => rows.clone(),
            _ => {
                let rows = (self.sources)().iter().map(|source| (source.row)()).collect();
                let rows = Arc::new(rows);
                *newest = Some((Instant::now(), Arc::clone(&rows)));
                rows
            }
        }
    }
}

/// Returns the updates for one viewer. The permit is released when the viewer disconnects.
pub(super) fn stream(overview: Arc<Overview>, permit: OwnedSemaphorePermit) -> Response {
    let viewer = Viewer { overview, started_at: Instant::now(), last_sent: None, _permit: permit };
    let events = unfold(viewer, |mut viewer| async {
        let event = viewer.next().await?;
        Some((Ok::<_, Infallible>(event), viewer))
    });
    Sse::new(events).into_response()
}

struct Viewer {
    overview: Arc<Overview>,
    started_at: Instant,
    /// The time of the last event, and the rows that the viewer has.
    last_sent: Option<(Instant, Arc<Vec<Row>>)>,
    _permit: OwnedSemaphorePermit,
}

impl Viewer {
    async fn next(&mut self) -> Option<Event> {
        let Some((sent_at, before)) = self.last_sent.take() else {
            let rows = self.overview.rows();
            let first = Event::default().retry(RETRY);
            let event = RowsUpdate::new(&rows, &[]).to_event(first)?;
            self.last_sent = Some((Instant::now(), rows));
            return Some(event);
        };
        let mut checked_at = sent_at;
        loop {
            if self.started_at.elapsed() >= STREAM_LIFETIME {
                return None;
            }
            checked_at += ROW_MAX_AGE;
            sleep_until(checked_at).await;
            let rows = self.overview.rows();
            let update = RowsUpdate::new(&rows, &before);
            // Unchanged updates are sent too, so that the page can detect a lost connection.
            if update.has_changes() || sent_at.elapsed() >= MAX_SPACING {
                let event = update.to_event(Event::default())?;
                self.last_sent = Some((Instant::now(), rows));
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

    async fn next_event(response: &mut Response) -> Value {
        let frame = response.body_mut().frame().await.unwrap().unwrap();
        let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
        let (_, data) = text.split_once("data: ").unwrap();
        serde_json::from_str(data.trim_end()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn all_rows_come_first_and_then_those_that_changed() {
        let (term, rows_made) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(0)));
        let source = |number: usize| {
            let (term, rows_made) = (term.clone(), rows_made.clone());
            let election = format!("jobs/{number}");
            let changed = watch::Sender::new(()).subscribe();
            let source = Source::new(&*election, View::default, changed);
            let row = {
                let election = election.clone();
                move || {
                    rows_made.fetch_add(1, Ordering::Relaxed);
                    let term = (number == 7).then(|| term.load(Ordering::Relaxed));
                    Row { election: election.clone(), term, ..Row::default() }
                }
            };
            source.with_row(row)
        };
        let sources = Arc::new(Mutex::new((0..300).map(source).collect::<Vec<_>>()));
        let current_sources = sources.clone();
        let overview =
            Arc::new(Overview::new(Arc::new(move || current_sources.lock().unwrap().clone())));
        let permits = Arc::new(Semaphore::new(2));
        let viewer = || stream(overview.clone(), permits.clone().try_acquire_owned().unwrap());
        let (mut first_viewer, mut second_viewer) = (viewer(), viewer());
        for viewer in [&mut first_viewer, &mut second_viewer] {
            let first = next_event(viewer).await;
            assert_eq!(first["elections"], 300);
            assert_eq!(first["rows"].as_array().unwrap().len(), 300);
        }
        assert_eq!(rows_made.load(Ordering::Relaxed), 300, "once for all who look");

        term.store(2, Ordering::Relaxed);
        for viewer in [&mut first_viewer, &mut second_viewer] {
            let next = next_event(viewer).await;
            let rows = next["rows"].as_array().unwrap();
            assert_eq!((rows.len(), &rows[0]["term"]), (1, &Value::from(2)));
        }
        let removed = sources.lock().unwrap().remove(9);
        for viewer in [&mut first_viewer, &mut second_viewer] {
            let next = next_event(viewer).await;
            assert_eq!((&next["elections"], &next["gone"]), (&299.into(), &json!(["jobs/9"])));
            assert_eq!(next["rows"], json!([]));
        }
        sources.lock().unwrap().insert(20, removed);
        for viewer in [&mut first_viewer, &mut second_viewer] {
            let next = next_event(viewer).await;
            assert_eq!((&next["elections"], next.get("gone")), (&300.into(), None));
            assert_eq!(next["rows"][0]["election"], "jobs/9");
        }
        // Without a change, an empty event is sent.
        let started_at = Instant::now();
        let empty = next_event(&mut first_viewer).await;
        assert_eq!(empty["rows"], Value::Array(Vec::new()));
        let silence = started_at.elapsed();
        assert!((MAX_SPACING..MAX_SPACING + ROW_MAX_AGE).contains(&silence), "{silence:?}");
        // The stream ends and releases its permit.
        drop(second_viewer);
        while first_viewer.body_mut().frame().await.is_some() {}
        assert_eq!(permits.available_permits(), 2);
    }
}
