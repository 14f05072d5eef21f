//! The log of a process and its candidates.
//!
//! A separate thread writes the lines, so that a blocked reader does not delay the candidates,
//! which have deadlines to meet.

use super::times::time_of_day;
use super::{columns, event_lines, wants_colour};
use chrono::{DateTime, Local, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use tenure::{Event, ProblemKind};
use tenure_base::text::is_deceptive;
use tenure_core::Zone;
use tracing::Level;

/// Maximum number of queued lines of the election. Further lines are dropped and counted.
const ELECTION_CAPACITY: usize = 3072;

/// Maximum number of queued lines of the handler. The separate quota keeps a verbose handler from
/// displacing the election's lines.
const HANDLER_CAPACITY: usize = 1024;

/// Time limit for a slow reader at the exit of the program.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The format of events.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Format {
    Text,
    /// One JSON object per line.
    Json,
}

/// The stream that a log is written to.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Output {
    Stdout,
    /// For commands that use standard output for something else.
    Stderr,
}

/// Format, level and stream of a log.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    pub format: Format,
    /// The minimum level of events to write.
    pub level: Level,
    pub output: Output,
}

/// The election and the candidate that lines of a log name.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct LogContext {
    /// Both fields are empty for the log that belongs to no election.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub election: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub candidate: String,
}

/// A log of events. Clones write to the same log.
#[derive(Clone)]
pub(crate) struct Log {
    problems_only: bool,
    lines: Sender<QueuedLine>,
    election_lines: Arc<LineQuota>,
    handler_lines: Arc<LineQuota>,
    style: Style,
    terminal: bool,
    colour: bool,
    /// The zone of the election's schedule. None for the zone of this machine.
    zone: Option<Zone>,
    context: Arc<LogContext>,
    registry: Arc<LogRegistry>,
}

/// State that all logs of a process share. With several candidates, text lines name the election.
#[derive(Default)]
struct LogRegistry {
    /// Number of logs created by [`Log::for_candidate`] so far.
    count: AtomicUsize,
    /// Length of the longest election name in characters.
    name_width: AtomicUsize,
    /// Notes that were already written with [`Log::note_once`].
    written_notes: Mutex<HashSet<String>>,
}

/// Quota of queued lines from one origin.
struct LineQuota {
    /// The origin of these lines, for messages.
    label: &'static str,
    capacity: usize,
    queued: AtomicUsize,
    dropped: AtomicU64,
}

/// A line that occupies its quota until it is written.
pub(crate) struct QueuedLine {
    line: String,
    quota: Arc<LineQuota>,
}

/// Handle that waits for the last lines.
pub(crate) struct WriterHandle(Receiver<()>);

impl Log {
    /// Starts the log. Each candidate gets [its own](Self::for_candidate).
    pub(crate) fn start(style: Style) -> io::Result<(Self, WriterHandle)> {
        let output = style.output;
        let terminal = match output {
            Output::Stdout => io::stdout().is_terminal(),
            Output::Stderr => io::stderr().is_terminal(),
        };
        let (log, queue) = Self::new(style, terminal);
        let (done, written) = channel::<()>();
        let write = move || {
            let _done = done;
            match output {
                Output::Stdout => write_all(&queue, io::stdout()),
                Output::Stderr => write_all(&queue, io::stderr()),
            }
        };
        thread::Builder::new().name("tenure-log".to_owned()).spawn(write)?;
        Ok((log, WriterHandle(written)))
    }

    /// Creates a log whose lines are discarded.
    pub(crate) fn discard() -> Self {
        let style = Style { format: Format::Text, level: Level::INFO, output: Output::Stdout };
        Self::new(style, false).0
    }

    /// Creates a log without a writer. The caller receives the lines.
    pub(crate) fn new(style: Style, terminal: bool) -> (Self, Receiver<QueuedLine>) {
        // The channel needs no limit, since the quotas limit the queue.
        let (lines, queue) = channel();
        let election_lines = LineQuota::new("events", ELECTION_CAPACITY);
        let handler_lines = LineQuota::new("lines of the handler", HANDLER_CAPACITY);
        let colour = terminal && wants_colour();
        let log = Self {
            problems_only: false,
            lines,
            election_lines,
            handler_lines,
            style,
            terminal,
            colour,
            zone: None,
            context: Arc::default(),
            registry: Arc::default(),
        };
        (log, queue)
    }

    /// Returns the log of a candidate of this process, with the same output and its own quotas.
    pub(crate) fn for_candidate(&self, context: &LogContext) -> Self {
        self.registry.count.fetch_add(1, Ordering::Relaxed);
        self.registry.name_width.fetch_max(context.election.chars().count(), Ordering::Relaxed);
        Self {
            election_lines: LineQuota::new("events", ELECTION_CAPACITY),
            handler_lines: LineQuota::new("lines of the handler", HANDLER_CAPACITY),
            context: Arc::new(context.clone()),
            ..self.clone()
        }
    }

    /// Returns the same log with times in the zone of the election's schedule.
    pub(crate) fn in_zone(self, zone: Zone) -> Self {
        Self { zone: Some(zone), ..self }
    }

    /// Writes a note that may apply to several elections of the process. The same note is written
    /// only once.
    pub(crate) fn note_once(&self, detail: &str) {
        let mut written_notes =
            self.registry.written_notes.lock().unwrap_or_else(PoisonError::into_inner);
        if written_notes.insert(detail.to_owned()) {
            drop(written_notes);
            self.event(&Event::Note { detail: detail.to_owned() });
        }
    }

    /// Returns the same log, limited to problems if `problems_only` is true.
    pub(crate) fn problems_only(self, problems_only: bool) -> Self {
        Self { problems_only, ..self }
    }

    /// Logs an event. Never blocks.
    pub(crate) fn event(&self, event: &Event) {
        if self.problems_only && !matches!(event, Event::Problem { .. }) {
            return;
        }
        let now = Utc::now();
        for quota in [&self.election_lines, &self.handler_lines] {
            if let Some(missing) = quota.take_dropped() {
                let detail = format!(
                    "{missing} {} were dropped from the log: its reader was too slow",
                    quota.label
                );
                self.send(now, &Event::Problem { class: ProblemKind::Log, detail }, quota);
            }
        }
        let quota = match event {
            Event::Handler { .. } => &self.handler_lines,
            _ => &self.election_lines,
        };
        self.send(now, event, quota);
    }

    fn send(&self, now: DateTime<Utc>, event: &Event, quota: &Arc<LineQuota>) {
        // The most verbose level is the greatest.
        if event.level() > self.style.level || !quota.try_reserve() {
            return;
        }
        let line = match self.style.format {
            Format::Json => json(now, Some(event.level()), &self.context, event),
            Format::Text => {
                let time = match (self.zone, self.terminal) {
                    (Some(zone), true) => time_of_day(now, zone),
                    (Some(zone), false) => {
                        now.with_timezone(&zone).format(event_lines::DATE_AND_TIME).to_string()
                    }
                    (None, true) => now.with_timezone(&Local).format(event_lines::TIME).to_string(),
                    (None, false) => {
                        now.with_timezone(&Local).format(event_lines::DATE_AND_TIME).to_string()
                    }
                };
                let width = self.registry.name_width.load(Ordering::Relaxed);
                let has_several = self.registry.count.load(Ordering::Relaxed) > 1;
                let layout = event_lines::Layout {
                    election: has_several.then_some((self.context.election.as_str(), width)),
                    zone: self.zone.unwrap_or(Zone::UTC),
                    colour: self.colour,
                    width: self.columns(),
                };
                event_lines::line(&time, event, layout)
            }
        };
        // An event without text releases its quota at once.
        let queued_line = QueuedLine { line: line.unwrap_or_default(), quota: quota.clone() };
        if !queued_line.line.is_empty() {
            // Sending fails only for a discarded log, since a writer ends only after its last
            // sender.
            let _ = self.lines.send(queued_line);
        }
    }
}

impl Log {
    /// Returns the columns of the terminal that the log is written to.
    fn columns(&self) -> Option<usize> {
        match self.style.output {
            _ if !self.terminal => None,
            Output::Stdout => columns(io::stdout()),
            Output::Stderr => columns(io::stderr()),
        }
    }
}

impl LineQuota {
    fn new(label: &'static str, capacity: usize) -> Arc<Self> {
        Arc::new(Self { label, capacity, queued: AtomicUsize::new(0), dropped: AtomicU64::new(0) })
    }

    /// Reserves a place in the queue, and returns true. If the quota is used up, counts a dropped
    /// line.
    fn try_reserve(&self) -> bool {
        let reserved = self.queued.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
            (waiting < self.capacity).then_some(waiting + 1)
        });
        if reserved.is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        reserved.is_ok()
    }

    /// Returns the number of lines that were dropped since the last call. Returns none until half
    /// of the quota is free, so that one notice covers many lines.
    fn take_dropped(&self) -> Option<u64> {
        if self.dropped.load(Ordering::Relaxed) == 0
            || self.queued.load(Ordering::Relaxed) > self.capacity / 2
        {
            return None;
        }
        Some(self.dropped.swap(0, Ordering::Relaxed)).filter(|&missing| missing > 0)
    }
}

#[cfg(test)]
impl QueuedLine {
    pub(crate) fn text(&self) -> &str {
        &self.line
    }
}

impl Drop for QueuedLine {
    fn drop(&mut self) {
        self.quota.queued.fetch_sub(1, Ordering::Relaxed);
    }
}

impl WriterHandle {
    /// Waits until all lines are written, for [`FLUSH_TIMEOUT`] at most. Call it after all clones
    /// of the log were dropped.
    pub(crate) fn wait(self) {
        // No value is ever sent: the writer's end closes the channel.
        let Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) =
            self.0.recv_timeout(FLUSH_TIMEOUT)
        else {
            return;
        };
    }
}

fn write_all(lines: &Receiver<QueuedLine>, mut out: impl Write) {
    for queued in lines {
        // A closed output does not concern the election.
        let _ = writeln!(out, "{}", queued.line).and_then(|()| out.flush());
    }
}

/// Formats an event as one line of JSON.
pub(crate) fn json<E: Serialize>(
    now: DateTime<Utc>,
    level: Option<Level>,
    context: &LogContext,
    event: &E,
) -> Option<String> {
    #[derive(Serialize)]
    struct Line<'a, E> {
        timestamp: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        level: Option<String>,
        #[serde(flatten)]
        context: &'a LogContext,
        #[serde(flatten)]
        event: &'a E,
    }
    let timestamp = now.to_rfc3339_opts(SecondsFormat::Millis, true);
    let level = level.map(|level| level.as_str().to_ascii_lowercase());
    json_line(&Line { timestamp, level, context, event })
}

/// Formats a value as one line of JSON without characters that control a terminal.
fn json_line(value: &impl Serialize) -> Option<String> {
    let line = serde_json::to_string(value).ok()?;
    Some(if line.contains(is_deceptive) { escaped(&line) } else { line })
}

/// Formats a value as the JSON output of a command: one line, with its line end.
pub(crate) fn json_text(value: &impl Serialize) -> String {
    json_line(value).unwrap_or_default() + "\n"
}

/// Escapes characters that serde_json leaves as they are. They can only occur in strings.
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

    fn handler_line() -> Event {
        Event::Handler { line: "x".to_owned(), stream: Stream::Stdout }
    }

    fn renewed() -> Event {
        Event::Renewed { term: 7, valid_for: Duration::from_secs(12) }
    }

    const JSON: Style = Style { format: Format::Json, level: Level::DEBUG, output: Output::Stdout };
    const TEXT: Style = Style { format: Format::Text, level: Level::INFO, output: Output::Stdout };

    fn context(election: &str, candidate: &str) -> LogContext {
        LogContext { election: election.to_owned(), candidate: candidate.to_owned() }
    }

    /// Returns the queued lines that contain `text`.
    fn read(queue: &Receiver<QueuedLine>, text: &str) -> Vec<String> {
        let lines = queue.try_iter().map(|queued| queued.line.clone());
        lines.filter(|line| line.contains(text)).collect()
    }

    #[test]
    fn json_line_begins_with_time_level_and_candidate() {
        let now = DateTime::from_timestamp_millis(1_500).unwrap();
        assert_eq!(
            json(now, Some(Level::INFO), &context("jobs/a", "ada"), &Event::Stopped).unwrap(),
            r#"{"timestamp":"1970-01-01T00:00:01.500Z","level":"info","election":"jobs/a","candidate":"ada","event":"stopped"}"#
        );
    }

    #[test]
    fn events_below_the_level_are_left_out() {
        let problem = Event::Problem { class: ProblemKind::Component, detail: "x".to_owned() };
        let line_count = |level| {
            let (log, queue) = Log::new(Style { level, ..JSON }, false);
            for event in [renewed(), Event::Stopped, problem.clone()] {
                log.event(&event);
            }
            read(&queue, "").len()
        };
        assert_eq!(
            [Level::DEBUG, Level::INFO, Level::WARN, Level::ERROR].map(line_count),
            [3, 2, 1, 1]
        );
    }

    #[test]
    fn line_has_its_date_unless_on_a_terminal() {
        for (terminal, time) in [(true, "00:00:00.000"), (false, "2026-11-23T00:00:00.000+00:00")] {
            let (log, queue) = Log::new(TEXT, terminal);
            log.event(&Event::Stopped);
            let [line] = &read(&queue, "stopped")[..] else { panic!("one line") };
            let timestamp = line.split_whitespace().next().unwrap().trim_start_matches("\u{1b}[2m");
            assert_eq!(timestamp.trim_end_matches("\u{1b}[0m").len(), time.len(), "{line}");
        }
    }

    #[test]
    fn a_line_has_the_time_of_the_zone_of_its_schedule() {
        let (log, queue) = Log::new(TEXT, false);
        let zone = Zone::from_name("Asia/Kolkata").unwrap();
        log.for_candidate(&context("jobs/a", "ada")).in_zone(zone).event(&Event::Stopped);
        let [line] = &read(&queue, "stopped")[..] else { panic!("one line") };
        assert!(line.contains("+05:30  stopped"), "{line}");
    }

    #[test]
    fn a_note_for_several_elections_is_written_once() {
        let (log, queue) = Log::new(TEXT, false);
        let logs = [context("jobs/a", "ada"), context("jobs/b", "ben")]
            .map(|context| log.for_candidate(&context));
        logs.iter().for_each(|log| log.note_once("a machine that dies"));
        logs[1].note_once("another one");
        let lines = read(&queue, "");
        let count = |words| lines.iter().filter(|line| line.contains(words)).count();
        assert_eq!((count("a machine that dies"), count("another one")), (1, 1), "{lines:?}");
    }

    #[test]
    fn a_json_line_holds_nothing_that_a_terminal_obeys() {
        let now = DateTime::from_timestamp_millis(0).unwrap();
        let event =
            Event::Handler { line: "ü\u{1b}[31m\u{9b}31m".to_owned(), stream: Stream::Stdout };
        let line = json(now, Some(event.level()), &context("a/b", "a"), &event).unwrap();
        assert!(line.contains(r#""line":"ü\u001b[31m\u009b31m""#), "{line}");
        // These would reorder the rest of the line, or start another line.
        for c in "\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}".chars() {
            let event = Event::Handler { line: format!("a{c}b"), stream: Stream::Stdout };
            let line = json(now, Some(event.level()), &context("a/b", "a"), &event).unwrap();
            assert!(line.contains(&format!("a\\u{:04x}b", u32::from(c))), "{line}");
            assert!(!line.contains(c), "{line}");
        }
    }

    #[test]
    fn a_handler_that_writes_without_end_leaves_room_for_the_election() {
        let (log, queue) = Log::new(JSON, false);
        for _ in 0..2 * HANDLER_CAPACITY {
            log.event(&handler_line());
        }
        for _ in 0..ELECTION_CAPACITY {
            log.event(&renewed());
        }
        assert_eq!(read(&queue, "renewed").len(), ELECTION_CAPACITY);
    }

    #[test]
    fn dropped_lines_are_reported_once_there_is_room() {
        let (log, queue) = Log::new(JSON, false);
        for _ in 0..HANDLER_CAPACITY + 5 {
            log.event(&handler_line());
        }
        // Nothing was read yet.
        log.event(&renewed());
        assert_eq!(read(&queue, "dropped"), [""; 0]);
        log.event(&renewed());
        log.event(&renewed());
        let notices = read(&queue, "dropped");
        assert_eq!(notices.len(), 1);
        assert!(notices[0].contains("5 lines of the handler were dropped"), "{notices:?}");
    }

    #[test]
    fn with_several_candidates_each_line_names_its_own() {
        let (log, queue) = Log::new(JSON, false);
        let names = [context("jobs/a", "ada"), context("jobs/longer", "ben")];
        let logs = names.each_ref().map(|context| log.for_candidate(context));
        logs[1].event(&Event::Stopped);
        let [line] = &read(&queue, "")[..] else { panic!("one line") };
        let expected = r#""election":"jobs/longer","candidate":"ben","event":"stopped"}"#;
        assert!(line.ends_with(expected), "{line}");
        let (log, queue) = Log::new(TEXT, true);
        let first = log.for_candidate(&names[0]);
        first.event(&Event::Stopped);
        // From here on there are two elections to distinguish.
        log.for_candidate(&names[1]);
        first.event(&Event::Stopped);
        let lines = read(&queue, "");
        assert!(!lines[0].contains("jobs/a"), "{lines:?}");
        assert!(lines[1].contains("  jobs/a       ") && lines[1].contains("stopped"), "{lines:?}");
    }

    #[test]
    fn verbose_candidate_leaves_room_for_others() {
        let (log, queue) = Log::new(JSON, false);
        let logs = [context("jobs/a", "ada"), context("jobs/b", "ben")]
            .map(|context| log.for_candidate(&context));
        for _ in 0..2 * ELECTION_CAPACITY {
            logs[0].event(&renewed());
        }
        logs[1].event(&Event::Stopped);
        assert_eq!(read(&queue, "stopped").len(), 1);
    }

    #[test]
    fn events_below_the_level_take_no_room() {
        let (log, queue) = Log::new(TEXT, true);
        for _ in 0..=ELECTION_CAPACITY {
            log.event(&renewed());
        }
        log.event(&Event::Stopped);
        assert_eq!(read(&queue, "").len(), 1);
    }
}
