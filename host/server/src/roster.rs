//! The candidates of a process. They may be added and removed while requests are served.

use super::board::Board;
use super::board_view;
use super::page::Source;
use super::responses::{json_response, query_value, unknown_election};
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Response, StatusCode, Uri};
use serde_json::json;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenure_clock::{Clock, ClockHandle};

/// Maximum number of elections listed in the response to a request that names no known one.
/// Operators' commands read that response, so it is bounded.
const MAX_LISTED: usize = 100;

/// One candidate.
#[derive(Clone)]
pub(super) struct RosterEntry {
    pub board: Arc<Board>,
    pub clock: ClockHandle,
    /// The source of its view on the page.
    pub source: Source,
}

/// The candidates that a [`Server`](super::Server) shows. Clones share them.
#[derive(Clone)]
pub struct Roster {
    clock: ClockHandle,
    /// Copied on write, so that a response over all candidates does not block an addition.
    entries: Arc<Mutex<Arc<Vec<RosterEntry>>>>,
}

impl Roster {
    /// Creates an empty roster. `clock` is the one that the runners use.
    pub fn new(clock: &impl Clock) -> Self {
        Self { clock: clock.handle(), entries: Arc::default() }
    }

    /// Adds a candidate.
    pub fn add(&self, board: Arc<Board>) {
        let clock = self.clock.clone();
        let source = board_view::source(board.clone(), clock.clone());
        Arc::make_mut(&mut self.lock()).push(RosterEntry { board, clock, source });
    }

    /// Removes a candidate and ends the streams that show it.
    pub fn remove(&self, board: &Arc<Board>) {
        board.close();
        Arc::make_mut(&mut self.lock()).retain(|entry| !Arc::ptr_eq(&entry.board, board));
    }

    /// Returns the boards of all candidates, in the order in which they were added.
    #[must_use]
    pub fn boards(&self) -> Vec<Arc<Board>> {
        self.entries().iter().map(|entry| entry.board.clone()).collect()
    }

    /// Returns the number of candidates.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries().len()
    }

    pub(super) fn entries(&self) -> Arc<Vec<RosterEntry>> {
        self.lock().clone()
    }

    /// Returns the sources of the page's views.
    pub(super) fn sources(&self) -> Vec<Source> {
        self.entries().iter().map(|entry| entry.source.clone()).collect()
    }

    pub(super) fn clock(&self) -> &ClockHandle {
        &self.clock
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Vec<RosterEntry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Roster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Roster").field("boards", &self.boards()).finish_non_exhaustive()
    }
}

/// Extracts the candidate that [`select_entry`] returns.
impl FromRequestParts<Roster> for RosterEntry {
    type Rejection = Response<Body>;

    async fn from_request_parts(
        parts: &mut Parts,
        roster: &Roster,
    ) -> Result<Self, Response<Body>> {
        select_entry(&roster.entries(), &parts.uri).cloned().map_err(|refusal| *refusal)
    }
}

/// Returns the candidate of the election in the query. A single candidate needs no query. An error
/// is the response to the request.
pub(super) fn select_entry<'a>(
    entries: &'a [RosterEntry],
    uri: &Uri,
) -> Result<&'a RosterEntry, Box<Response<Body>>> {
    let named = query_value(uri, "election");
    let found = match (&named, entries) {
        (None, [only]) => Some(only),
        (None, _) => None,
        (Some(named), entries) => entries.iter().find(|entry| entry.board.election == *named),
    };
    found.ok_or_else(|| {
        let elections = entries.iter().map(|entry| entry.board.election.as_str());
        let elections: Vec<_> = elections.take(MAX_LISTED).collect();
        Box::new(match named {
            Some(_) => unknown_election(&elections),
            None => {
                let error = "choose one: ?election=container/blob";
                let body = json!({ "error": error, "elections": elections });
                json_response(StatusCode::BAD_REQUEST, &body)
            }
        })
    })
}
