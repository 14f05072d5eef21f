//! The log of a candidate on standard output.
//!
//! A thread of its own writes it: a reader that stops reading must not hold up the candidate,
//! which has a deadline to keep.

use super::args::Format;
use super::text;
use crate::runner::Event;
use chrono::{DateTime, Local, SecondsFormat, Utc};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

/// Lines that wait for a slow reader. More are left out, and counted.
const WAITING: usize = 4096;

/// How long the end of the program waits for a slow reader.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Writes events. Clones write to the same log.
#[derive(Clone)]
pub(super) struct Log {
    lines: SyncSender<String>,
    left_out: Arc<AtomicU64>,
    format: Format,
    colour: bool,
    candidate: Arc<str>,
}

/// Waits for the last lines.
pub(super) struct Written(Receiver<()>);

impl Log {
    /// Starts the log of `candidate`.
    pub(super) fn start(format: Format, candidate: &str) -> io::Result<(Self, Written)> {
        let (lines, waiting) = sync_channel(WAITING);
        let (done, written) = channel::<()>();
        let write = move || {
            let _done = done;
            write_all(&waiting);
        };
        thread::Builder::new().name("tenure-log".to_owned()).spawn(write)?;
        let colour = io::stdout().is_terminal() && text::colour_wanted();
        let log =
            Self { lines, left_out: Arc::default(), format, colour, candidate: candidate.into() };
        Ok((log, Written(written)))
    }

    /// Takes note of an event. Never waits.
    pub(super) fn event(&self, event: &Event) {
        let now = Utc::now();
        let missing = self.left_out.swap(0, Ordering::Relaxed);
        if missing > 0 {
            let detail =
                format!("{missing} events were left out of the log: its reader was too slow");
            self.send(now, &Event::Trouble { class: "log", detail }, missing);
        }
        self.send(now, event, 1);
    }

    fn send(&self, now: DateTime<Utc>, event: &Event, stands_for: u64) {
        let line = match self.format {
            Format::Json => json(now, &self.candidate, event),
            Format::Text => text::line(&now.with_timezone(&Local), event, self.colour),
        };
        let Some(line) = line else { return };
        if self.lines.try_send(line).is_err() {
            self.left_out.fetch_add(stands_for, Ordering::Relaxed);
        }
    }
}

impl Written {
    /// Call it when all clones of the log are gone.
    pub(super) fn wait(self) {
        // Nothing is ever sent: the writer's end is what is waited for.
        let Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) =
            self.0.recv_timeout(LAST_LINES)
        else {
            return;
        };
    }
}

fn write_all(lines: &Receiver<String>) {
    let mut out = io::stdout();
    for line in lines {
        // Nobody may be reading any more, which does not concern the election.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

fn json(now: DateTime<Utc>, candidate: &str, event: &Event) -> Option<String> {
    #[derive(Serialize)]
    struct Line<'a> {
        timestamp: String,
        candidate: &'a str,
        #[serde(flatten)]
        event: &'a Event,
    }
    let timestamp = now.to_rfc3339_opts(SecondsFormat::Millis, true);
    serde_json::to_string(&Line { timestamp, candidate, event }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_line_begins_with_when_and_who() {
        let now = DateTime::from_timestamp_millis(1_500).unwrap();
        assert_eq!(
            json(now, "a", &Event::Stopped).unwrap(),
            r#"{"timestamp":"1970-01-01T00:00:01.500Z","candidate":"a","event":"stopped"}"#
        );
    }
}
