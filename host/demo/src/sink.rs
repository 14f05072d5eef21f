//! Where the turns have their effect: an HTTP endpoint that sees who works when.
//!
//! It knows nothing of the election, so what it saw is evidence.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// How long the work of one turn takes.
const WORK: Duration = Duration::from_millis(600);

/// The work of one turn, as the sink saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    pub term: u64,
    pub slot: String,
    pub began: DateTime<Utc>,
    /// When it was done, or its connection was lost.
    pub ended: Option<DateTime<Utc>>,
}

#[derive(Clone, Default)]
pub(super) struct Sink(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    entries: Vec<Delivery>,
    /// How many came before them.
    forgotten: usize,
}

impl Sink {
    /// Listens on a free port of this machine, in a task of `tasks`.
    pub(super) async fn start(tasks: &mut JoinSet<()>) -> io::Result<(Self, SocketAddr)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let sink = Self::default();
        let app = Router::new().route("/turns", post(turn)).with_state(sink.clone());
        tasks.spawn(async move { drop(axum::serve(listener, app).await) });
        Ok((sink, address))
    }

    /// All that it saw, in the order of arrival.
    pub(super) fn deliveries(&self) -> Vec<Delivery> {
        self.lock().entries.clone()
    }

    /// Forgets what was done longer than `age` ago.
    pub(super) fn forget(&self, age: Duration) {
        let before = Utc::now() - age;
        let mut seen = self.lock();
        let old = |delivery: &&Delivery| delivery.ended.is_some_and(|ended| ended < before);
        let old = seen.entries.iter().take_while(old).count();
        seen.entries.drain(..old);
        seen.forgotten += old;
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn turn(State(sink): State<Sink>, body: Bytes) -> StatusCode {
    #[derive(Deserialize)]
    struct Report {
        term: u64,
        slot: String,
    }
    let Ok(Report { term, slot }) = serde_json::from_slice(&body) else {
        return StatusCode::BAD_REQUEST;
    };
    let _work = Work::begin(sink, term, slot);
    tokio::time::sleep(WORK).await;
    StatusCode::NO_CONTENT
}

/// Work under way. Ends when it is dropped: done, or its sender is gone.
struct Work {
    sink: Sink,
    number: usize,
}

impl Work {
    fn begin(sink: Sink, term: u64, slot: String) -> Self {
        let number = {
            let mut seen = sink.lock();
            seen.entries.push(Delivery { term, slot, began: Utc::now(), ended: None });
            seen.forgotten + seen.entries.len() - 1
        };
        Self { sink, number }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let mut seen = self.sink.lock();
        let place = self.number.checked_sub(seen.forgotten);
        if let Some(delivery) = place.and_then(|place| seen.entries.get_mut(place)) {
            delivery.ended = Some(Utc::now());
        }
    }
}
