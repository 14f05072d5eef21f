//! The log of a candidate on standard output.
//!
//! A thread of its own writes it: a reader that stops reading must not hold up the candidate,
//! which has a deadline to keep.

use super::complaint::is_deceptive;
use super::{terminal, text};
use chrono::{DateTime, Local, SecondsFormat, Utc};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;
use tenure::runner::{Class, Event};

/// Lines of the election that wait for a slow reader. More are left out, and counted.
const OF_ELECTION: usize = 3072;

/// The same for lines of the handler. They have a room of their own: a handler that writes
/// without end must not push the election out of the log.
const OF_HANDLER: usize = 1024;

/// How long the end of the program waits for a slow reader.
const LAST_LINES: Duration = Duration::from_secs(1);

/// How events are told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// For people.
    Text,
    /// One object per line.
    Json,
}

/// Where a log is written to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Stdout,
    /// Standard output is a command's.
    Stderr,
}

/// Writes events. Clones write to the same log.
#[derive(Clone)]
pub(super) struct Log {
    problems_only: bool,
    lines: Sender<Waiting>,
    election: Arc<Room>,
    handler: Arc<Room>,
    format: Format,
    colour: bool,
    candidate: Arc<str>,
    /// Where one process has several candidates: which election, and how much room the longest name
    /// takes.
    which: Option<(Arc<str>, usize)>,
}

/// Where lines of one origin wait to be written.
struct Room {
    /// Whose lines these are, for people.
    whose: &'static str,
    size: usize,
    waiting: AtomicUsize,
    left_out: AtomicU64,
}

/// A line, and the room that it takes up until it is written.
struct Waiting {
    line: String,
    room: Arc<Room>,
}

/// Waits for the last lines.
pub(super) struct Written(Receiver<()>);

impl Log {
    /// Starts the log, of which each candidate gets a [share](Self::shared).
    pub(super) fn start(format: Format, output: Output) -> io::Result<(Self, Written)> {
        let terminal = match output {
            Output::Stdout => io::stdout().is_terminal(),
            Output::Stderr => io::stderr().is_terminal(),
        };
        let colour = terminal && terminal::colour_wanted();
        let (log, waiting) = Self::new(format, colour);
        let (done, written) = channel::<()>();
        let write = move || {
            let _done = done;
            match output {
                Output::Stdout => write_all(&waiting, io::stdout()),
                Output::Stderr => write_all(&waiting, io::stderr()),
            }
        };
        thread::Builder::new().name("tenure-log".to_owned()).spawn(write)?;
        Ok((log, Written(written)))
    }

    fn new(format: Format, colour: bool) -> (Self, Receiver<Waiting>) {
        // Bounded by the two rooms.
        let (lines, waiting) = channel();
        let election = Room::new("events", OF_ELECTION);
        let handler = Room::new("lines of the handler", OF_HANDLER);
        let candidate = "".into();
        let problems_only = false;
        let log = Self {
            problems_only,
            lines,
            election,
            handler,
            format,
            colour,
            candidate,
            which: None,
        };
        (log, waiting)
    }

    /// Logs of several candidates on the same output, each with room of its own. Lines tell the
    /// election, unless `elections` is empty.
    pub(super) fn shared(&self, candidates: &[String], elections: &[String]) -> Vec<Self> {
        let width = elections.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let log = |(at, candidate): (usize, &String)| Self {
            election: Room::new("events", OF_ELECTION),
            handler: Room::new("lines of the handler", OF_HANDLER),
            candidate: candidate.as_str().into(),
            which: elections.get(at).map(|election| (election.as_str().into(), width)),
            ..self.clone()
        };
        candidates.iter().enumerate().map(log).collect()
    }

    /// One that tells of problems alone, if it is wanted so.
    pub(super) fn problems_only(self, problems_only: bool) -> Self {
        Self { problems_only, ..self }
    }

    /// Takes note of an event. Never waits.
    pub(super) fn event(&self, event: &Event) {
        if self.problems_only && !matches!(event, Event::Problem { .. }) {
            return;
        }
        let now = Utc::now();
        for room in [&self.election, &self.handler] {
            if let Some(missing) = room.missing() {
                let detail = format!(
                    "{missing} {} were left out of the log: its reader was too slow",
                    room.whose
                );
                self.send(now, &Event::Problem { class: Class::Log, detail }, room);
            }
        }
        let room = match event {
            Event::Handler { .. } => &self.handler,
            _ => &self.election,
        };
        self.send(now, event, room);
    }

    fn send(&self, now: DateTime<Utc>, event: &Event, room: &Arc<Room>) {
        if !room.enter() {
            return;
        }
        let line = match self.format {
            Format::Json => {
                let election = self.which.as_ref().map(|(election, _)| &**election);
                json(now, election, &self.candidate, event)
            }
            Format::Text => {
                let election = self.which.as_ref().map(|(name, width)| (&**name, *width));
                text::line(&now.with_timezone(&Local), election, event, self.colour)
            }
        };
        // A line that is not shown gives its place back at once.
        let waiting = Waiting { line: line.unwrap_or_default(), room: room.clone() };
        if !waiting.line.is_empty() {
            // The writer ends only with its last sender.
            let _ = self.lines.send(waiting);
        }
    }
}

impl Room {
    fn new(whose: &'static str, size: usize) -> Arc<Self> {
        Arc::new(Self { whose, size, waiting: AtomicUsize::new(0), left_out: AtomicU64::new(0) })
    }

    /// Takes a place, or counts one line more that found none.
    fn enter(&self) -> bool {
        let taken = self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
            (waiting < self.size).then_some(waiting + 1)
        });
        if taken.is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        taken.is_ok()
    }

    /// How many lines were left out since it was last asked, once half of the room is free: one
    /// line tells of many.
    fn missing(&self) -> Option<u64> {
        if self.left_out.load(Ordering::Relaxed) == 0
            || self.waiting.load(Ordering::Relaxed) > self.size / 2
        {
            return None;
        }
        Some(self.left_out.swap(0, Ordering::Relaxed)).filter(|&missing| missing > 0)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.room.waiting.fetch_sub(1, Ordering::Relaxed);
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

fn write_all(lines: &Receiver<Waiting>, mut out: impl Write) {
    for waiting in lines {
        // Nobody may be reading any more, which does not concern the election.
        let _ = writeln!(out, "{}", waiting.line).and_then(|()| out.flush());
    }
}

fn json(
    now: DateTime<Utc>,
    election: Option<&str>,
    candidate: &str,
    event: &Event,
) -> Option<String> {
    #[derive(Serialize)]
    struct Line<'a> {
        timestamp: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        election: Option<&'a str>,
        candidate: &'a str,
        #[serde(flatten)]
        event: &'a Event,
    }
    let timestamp = now.to_rfc3339_opts(SecondsFormat::Millis, true);
    json_line(&Line { timestamp, election, candidate, event })
}

/// A value as one line that holds nothing that a terminal obeys.
pub(super) fn json_line(value: &impl Serialize) -> Option<String> {
    serde_json::to_string(value).ok().map(without_controls)
}

/// A value as the output of a command: one line, with its end.
pub(super) fn json_text(value: &impl Serialize) -> String {
    json_line(value).unwrap_or_default() + "\n"
}

/// A line of JSON with nothing in it that a terminal obeys.
pub(super) fn without_controls(line: String) -> String {
    if line.contains(is_deceptive) { escaped(&line) } else { line }
}

/// JSON leaves some of them as they are. They can only be in strings.
fn escaped(line: &str) -> String {
    let escape = |c: char| match is_deceptive(c) {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    };
    line.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure::handler::Stream;

    fn shout() -> Event {
        Event::Handler { line: "x".to_owned(), stream: Stream::Stdout }
    }

    fn renewed() -> Event {
        Event::Renewed { term: 7, valid_for: Duration::from_secs(12) }
    }

    /// Lines that wait, by a word that they hold.
    fn read(waiting: &Receiver<Waiting>, word: &str) -> Vec<String> {
        let lines = waiting.try_iter().map(|waiting| waiting.line.clone());
        lines.filter(|line| line.contains(word)).collect()
    }

    #[test]
    fn a_json_line_begins_with_when_and_who() {
        let now = DateTime::from_timestamp_millis(1_500).unwrap();
        assert_eq!(
            json(now, None, "a", &Event::Stopped).unwrap(),
            r#"{"timestamp":"1970-01-01T00:00:01.500Z","candidate":"a","event":"stopped"}"#
        );
    }

    #[test]
    fn a_json_line_holds_nothing_that_a_terminal_obeys() {
        let now = DateTime::from_timestamp_millis(0).unwrap();
        let event =
            Event::Handler { line: "ü\u{1b}[31m\u{9b}31m".to_owned(), stream: Stream::Stdout };
        let line = json(now, None, "a", &event).unwrap();
        assert!(line.contains(r#""line":"ü\u001b[31m\u009b31m""#), "{line}");
        // These would show the rest of the line in another order, or as another line.
        for c in "\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}".chars() {
            let event = Event::Handler { line: format!("a{c}b"), stream: Stream::Stdout };
            let line = json(now, None, "a", &event).unwrap();
            assert!(line.contains(&format!("a\\u{:04x}b", u32::from(c))), "{line}");
            assert!(!line.contains(c), "{line}");
        }
    }

    #[test]
    fn a_handler_that_writes_without_end_leaves_room_for_the_election() {
        let (log, waiting) = Log::new(Format::Json, false);
        for _ in 0..2 * OF_HANDLER {
            log.event(&shout());
        }
        for _ in 0..OF_ELECTION {
            log.event(&renewed());
        }
        assert_eq!(read(&waiting, "renewed").len(), OF_ELECTION);
    }

    #[test]
    fn what_was_left_out_is_told_once_there_is_room() {
        let (log, waiting) = Log::new(Format::Json, false);
        for _ in 0..OF_HANDLER + 5 {
            log.event(&shout());
        }
        // Nothing was read yet.
        log.event(&renewed());
        assert_eq!(read(&waiting, "left out"), [""; 0]);
        log.event(&renewed());
        log.event(&renewed());
        let told = read(&waiting, "left out");
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("5 lines of the handler were left out"), "{told:?}");
    }

    #[test]
    fn of_several_candidates_each_line_says_which() {
        let (log, waiting) = Log::new(Format::Json, false);
        let names = ["ada", "ben"].map(str::to_owned);
        let logs = log.shared(&names, &["jobs/a", "jobs/longer"].map(str::to_owned));
        logs[1].event(&Event::Stopped);
        let [line] = &read(&waiting, "")[..] else { panic!("one line") };
        let expected = r#""election":"jobs/longer","candidate":"ben","event":"stopped"}"#;
        assert!(line.ends_with(expected), "{line}");
        let (log, waiting) = Log::new(Format::Text, false);
        let logs = log.shared(&names, &["jobs/a", "jobs/longer"].map(str::to_owned));
        logs[0].event(&Event::Stopped);
        log.shared(&names[..1], &[])[0].event(&Event::Stopped);
        let lines = read(&waiting, "");
        assert!(lines[0].ends_with("  jobs/a       stopped"), "{lines:?}");
        assert_eq!(lines[1].len(), "00:00:00.000  stopped".len(), "{lines:?}");
    }

    #[test]
    fn a_candidate_that_tells_much_leaves_room_for_the_others() {
        let (log, waiting) = Log::new(Format::Json, false);
        let names = ["ada", "ben"].map(str::to_owned);
        let logs = log.shared(&names, &names);
        for _ in 0..2 * OF_ELECTION {
            logs[0].event(&renewed());
        }
        logs[1].event(&Event::Stopped);
        assert_eq!(read(&waiting, "stopped").len(), 1);
    }

    #[test]
    fn what_is_not_shown_takes_no_room() {
        let (log, waiting) = Log::new(Format::Text, false);
        for _ in 0..=OF_ELECTION {
            log.event(&renewed());
        }
        log.event(&Event::Stopped);
        assert_eq!(read(&waiting, "").len(), 1);
    }
}
