//! The endpoint that turns call. It is independent of the election, so its observations are
//! evidence.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use serde::Deserialize;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Duration of the work of one turn.
const WORK: Duration = Duration::from_millis(600);

#[derive(Clone, Default)]
pub(super) struct Sink(Arc<Mutex<Observations>>);

#[derive(Default)]
struct Observations {
    /// Shared by the running turns. Each holds a clone until its work is done or its client has
    /// disconnected.
    running: Arc<()>,
    highest_term: u64,
    newest_slot: String,
    overlapping_turns: usize,
    invalid_turns: usize,
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

    /// Returns the number of turns that began while another one ran.
    pub(super) fn overlapping_turns(&self) -> usize {
        self.lock().overlapping_turns
    }

    /// Returns the number of invalid turns. A turn is invalid if it overlaps another, follows one
    /// of a later term, or repeats a slot.
    pub(super) fn invalid_turns(&self) -> usize {
        self.lock().invalid_turns
    }

    fn begin(&self, term: u64, slot: String) -> Arc<()> {
        let mut observations = self.lock();
        let is_only_turn = Arc::strong_count(&observations.running) == 1;
        let is_valid =
            is_only_turn && term >= observations.highest_term && slot > observations.newest_slot;
        observations.overlapping_turns += usize::from(!is_only_turn);
        observations.invalid_turns += usize::from(!is_valid);
        observations.highest_term = observations.highest_term.max(term);
        observations.newest_slot = slot.max(std::mem::take(&mut observations.newest_slot));
        observations.running.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Observations> {
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
    let _work = sink.begin(term, slot);
    tokio::time::sleep(WORK).await;
    StatusCode::NO_CONTENT
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the overlapping turns and the invalid turns that the sink counts. Each entry has a
    /// term, a slot, and the number of turns that ended before it.
    fn counts(turns: &[(u64, &str, usize)]) -> (usize, usize) {
        let (sink, mut running) = (Sink::default(), Vec::new());
        for (term, slot, ended) in turns {
            running.drain(..ended);
            running.push(sink.begin(*term, (*slot).to_owned()));
        }
        (sink.overlapping_turns(), sink.invalid_turns())
    }

    #[test]
    fn invalid_turns_are_counted() {
        assert_eq!(counts(&[(1, "a", 0), (2, "b", 1), (2, "c", 1)]), (0, 0));
        assert_eq!(counts(&[(1, "a", 0), (2, "b", 0)]), (1, 1), "two at once");
        assert_eq!(
            counts(&[(1, "a", 0), (2, "b", 0), (2, "c", 1), (2, "d", 2)]),
            (2, 2),
            "one that lasts"
        );
        assert_eq!(counts(&[(2, "a", 0), (1, "b", 1)]), (0, 1), "of an earlier term");
        assert_eq!(counts(&[(1, "a", 0), (2, "a", 1)]), (0, 1), "a slot twice");
    }
}
