//! What a handler writes, line by line and not without end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Lines of one turn that are handed on. A handler that writes without end must not fill the
/// disk that the log is kept on.
const LINES: usize = 10_000;

/// Takes the lines of a handler.
pub type LineSink = Arc<dyn Fn(Stream, String) + Send + Sync>;

/// Where a line was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The lines of one turn, of both streams together.
pub(super) struct TurnLines {
    sink: Option<LineSink>,
    written: Arc<AtomicUsize>,
}

impl TurnLines {
    pub(super) fn new(sink: Option<LineSink>) -> Self {
        Self { sink, written: Arc::default() }
    }

    /// Takes the lines of one stream, and hands them on until there were enough of the turn.
    pub(super) fn of(&self, stream: Stream) -> impl Fn(String) + Send + use<> {
        let (sink, written) = (self.sink.clone(), self.written.clone());
        move |line| {
            let Some(sink) = &sink else { return };
            match written.fetch_add(1, Ordering::Relaxed) {
                LINES => sink(
                    Stream::Stderr,
                    format!(
                        "tenure: {LINES} lines are enough: the rest of this turn's is left out"
                    ),
                ),
                before if before < LINES => sink(stream, line),
                _ => {}
            }
        }
    }
}
