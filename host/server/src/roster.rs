//! The candidates of a process, which come and go while others ask for them.

use super::answers::{answer, unknown, value};
use super::board::Board;
use super::page::Source;
use super::show;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Response, StatusCode, Uri};
use serde_json::json;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenure_clock::{Clock, Reading};

/// Of so many elections are the names told to who named none of them: an answer that operators' commands
/// read is not endless.
const LISTED: usize = 100;

/// One candidate.
#[derive(Clone)]
pub(super) struct Face {
    pub board: Arc<Board>,
    pub clock: Reading,
    /// Provides what the page shows of it.
    pub source: Source,
}

/// The candidates that a [`Server`](super::Server) shows. Clones share them.
#[derive(Clone)]
pub struct Roster {
    clock: Reading,
    /// As they are at a moment: whoever answers with all of them holds up nobody who adds one.
    faces: Arc<Mutex<Arc<Vec<Face>>>>,
}

impl Roster {
    /// An empty roster. `clock` is the one that the runners use.
    pub fn new(clock: &impl Clock) -> Self {
        Self { clock: clock.reading(), faces: Arc::default() }
    }

    /// Adds a candidate.
    pub fn add(&self, board: Arc<Board>) {
        let clock = self.clock.clone();
        let source = show::source(board.clone(), clock.clone());
        Arc::make_mut(&mut self.lock()).push(Face { board, clock, source });
    }

    /// Removes a candidate, and ends the streams that show it.
    pub fn remove(&self, board: &Arc<Board>) {
        board.close();
        Arc::make_mut(&mut self.lock()).retain(|face| !Arc::ptr_eq(&face.board, board));
    }

    /// Returns the boards of all candidates, in the order in which they were added.
    #[must_use]
    pub fn boards(&self) -> Vec<Arc<Board>> {
        self.faces().iter().map(|face| face.board.clone()).collect()
    }

    /// Returns the number of candidates.
    #[must_use]
    pub fn count(&self) -> usize {
        self.faces().len()
    }

    pub(super) fn faces(&self) -> Arc<Vec<Face>> {
        self.lock().clone()
    }

    /// What the page lives on.
    pub(super) fn sources(&self) -> Vec<Source> {
        self.faces().iter().map(|face| face.source.clone()).collect()
    }

    pub(super) fn clock(&self) -> &Reading {
        &self.clock
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Vec<Face>>> {
        self.faces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Roster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Roster").field("boards", &self.boards()).finish_non_exhaustive()
    }
}

/// The candidate of the election that the query names; the only one goes without saying.
impl FromRequestParts<Roster> for Face {
    type Rejection = Response<Body>;

    async fn from_request_parts(
        parts: &mut Parts,
        roster: &Roster,
    ) -> Result<Self, Response<Body>> {
        choose(&roster.faces(), &parts.uri).cloned().map_err(|refusal| *refusal)
    }
}

pub(super) fn choose<'f>(faces: &'f [Face], uri: &Uri) -> Result<&'f Face, Box<Response<Body>>> {
    let named = value(uri, "election");
    let found = match (&named, faces) {
        (None, [only]) => Some(only),
        (None, _) => None,
        (Some(named), faces) => faces.iter().find(|face| face.board.election == *named),
    };
    found.ok_or_else(|| {
        let elections = faces.iter().map(|face| face.board.election.as_str());
        let elections: Vec<_> = elections.take(LISTED).collect();
        Box::new(match named {
            Some(_) => unknown(&elections),
            None => {
                let error = "choose one: ?election=container/blob";
                let told = json!({ "error": error, "elections": elections });
                answer(StatusCode::BAD_REQUEST, &told)
            }
        })
    })
}
