//! Output of a handler, split into lines and limited.
//!
//! A handler that writes without end must not fill the disk that holds the log. Lines and bytes are
//! limited for each turn, or each hour of a longer turn, and for all turns of a minute together.
//! Lines of the host about the handler's requests count too, because the handler causes them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure_clock::ClockHandle;

/// Maximum lines of one turn within an hour.
const MAX_LINES: u64 = 10_000;

/// Maximum bytes of one turn within an hour, as written to a log.
const MAX_BYTES: u64 = 8 * MIB;

/// Maximum bytes of all turns within a minute.
const MAX_BYTES_PER_MINUTE: u64 = 16 * MIB;

const MIB: u64 = 1024 * 1024;
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// Bytes that a log adds to a line: time, election and candidate.
const LINE_OVERHEAD: u64 = 256;

/// Receives the lines of a handler.
pub type LineSink = Arc<dyn Fn(Stream, String) + Send + Sync>;

/// Stream to which a line was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Output of all turns of a handler. Clones belong to the same handler.
#[derive(Clone)]
pub struct HandlerLines {
    sink: Option<LineSink>,
    clock: ClockHandle,
    minute: Arc<Mutex<Minute>>,
}

/// Output of one turn: both streams, and the lines of the host. Clones belong to the same turn.
/// When the last clone is dropped, the number of dropped lines is reported.
#[derive(Clone)]
pub struct TurnLines(Arc<Turn>);

struct Turn {
    handler: HandlerLines,
    tally: Mutex<Tally>,
}

impl HandlerLines {
    /// Creates the output of a handler, which goes to `sink` if there is one.
    pub fn new(sink: Option<LineSink>, clock: ClockHandle) -> Self {
        Self { sink, clock, minute: Arc::default() }
    }

    /// Creates the output of a new turn.
    pub fn turn(&self) -> TurnLines {
        let tally = Tally { started_at: self.clock.now(), ..Tally::default() };
        TurnLines(Arc::new(Turn { handler: self.clone(), tally: Mutex::new(tally) }))
    }
}

impl TurnLines {
    /// Returns a function that takes the lines of `stream`.
    pub fn writer(&self, stream: Stream) -> impl Fn(String) + Send + Sync + use<> {
        let turn = self.0.clone();
        move |line| turn.write(stream, line)
    }

    /// Returns a function that takes the lines of the host.
    pub fn host_writer(&self) -> impl Fn(String) + Send + Sync + use<> {
        let turn = self.0.clone();
        move |text| turn.write(Stream::Stderr, format!("tenure: {text}"))
    }
}

impl Turn {
    fn write(&self, stream: Stream, line: String) {
        let HandlerLines { sink: Some(sink), clock, minute } = &self.handler else { return };
        let (notice, is_admitted) = {
            let mut minute = lock(minute);
            lock(&self.tally).admit(&mut minute, clock.now(), encoded_size(&line))
        };
        if let Some(notice) = notice {
            sink(Stream::Stderr, format!("tenure: {notice}"));
        }
        if is_admitted {
            sink(stream, line);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let missing = lock(&self.tally).take_dropped_notice();
        if let (Some(sink), Some(missing)) = (&self.handler.sink, missing) {
            sink(Stream::Stderr, format!("tenure: {missing}"));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of a minute's lines.
#[derive(Default)]
struct Minute {
    started_at: Duration,
    bytes: u64,
}

/// Counted lines of a turn.
#[derive(Default)]
struct Tally {
    /// Start of the hour that is counted.
    started_at: Duration,
    lines: u64,
    bytes: u64,
    /// Dropped lines and bytes that were not reported yet.
    dropped: (u64, u64),
    /// True if the turn writes nothing more before the next hour.
    is_exhausted: bool,
}

impl Tally {
    /// Counts a line of `size` bytes at `now`. Returns true if it is to be written, and a notice to
    /// write before it.
    fn admit(&mut self, minute: &mut Minute, now: Duration, size: u64) -> (Option<String>, bool) {
        if now.saturating_sub(minute.started_at) >= MINUTE {
            *minute = Minute { started_at: now, bytes: 0 };
        }
        if now.saturating_sub(self.started_at) >= HOUR {
            *self = Self { started_at: now, dropped: self.dropped, ..Self::default() };
        }
        let limit = if self.is_exhausted || self.lines == MAX_LINES {
            Some(format!("of {MAX_LINES} lines a turn within an hour"))
        } else if self.bytes + size > MAX_BYTES {
            Some(format!("of {} MiB a turn within an hour", MAX_BYTES / MIB))
        } else if minute.bytes + size > MAX_BYTES_PER_MINUTE {
            // Drops shorter lines too, so that the gap has one start and one end.
            minute.bytes = MAX_BYTES_PER_MINUTE;
            Some(format!("of {} MiB a minute", MAX_BYTES_PER_MINUTE / MIB))
        } else {
            None
        };
        let Some(limit) = limit else {
            let dropped_notice = self.take_dropped_notice();
            self.lines += 1;
            self.bytes += size;
            minute.bytes += size;
            return (dropped_notice, true);
        };
        self.is_exhausted |= self.lines == MAX_LINES || self.bytes + size > MAX_BYTES;
        let is_first = self.dropped == (0, 0);
        self.dropped = (self.dropped.0 + 1, self.dropped.1 + size);
        let notice =
            format!("the handler has reached the log's limit {limit}; further lines are dropped");
        (is_first.then_some(notice), false)
    }

    /// Returns the notice about dropped lines, once.
    fn take_dropped_notice(&mut self) -> Option<String> {
        let (lines, bytes) = std::mem::take(&mut self.dropped);
        (lines > 0).then(|| format!("{lines} lines ({bytes} bytes) of the handler were dropped"))
    }
}

/// Returns the maximum number of bytes that a log writes for a line. Logs escape invisible
/// characters.
fn encoded_size(line: &str) -> u64 {
    let size = |c: char| match c {
        '"' | '\\' => 2,
        '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => 8,
        '\u{2066}'..='\u{2069}' | '\u{feff}' => 8,
        c if c.is_control() => 8,
        c => c.len_utf8(),
    };
    LINE_OVERHEAD + line.chars().map(|c| size(c) as u64).sum::<u64>()
}

/// Maximum bytes of a line. Longer lines are split.
const MAX_LINE: usize = 4096;

type LineCallback = Box<dyn FnMut(String) + Send>;

/// Splits the bytes that are written to it into lines, and passes each line to a callback.
///
/// Invalid UTF-8 is replaced. An unterminated last line is passed when this is dropped.
pub struct Lines {
    on_line: LineCallback,
    line: Vec<u8>,
    /// True if `line` continues a line that was split.
    is_continuation: bool,
}

impl Lines {
    /// Creates a splitter that passes each line to `on_line`.
    pub fn new(on_line: impl FnMut(String) + Send + 'static) -> Self {
        Self { on_line: Box::new(on_line), line: Vec::new(), is_continuation: false }
    }

    /// Takes bytes, which may end in the middle of a line.
    pub fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                self.emit_line();
                continue;
            }
            self.line.push(byte);
            // Only now is it certain that the line continues.
            if self.line.len() > MAX_LINE {
                self.emit_part();
            }
        }
    }

    /// Passes the longest possible part of the line, without splitting a character.
    fn emit_part(&mut self) {
        let is_continuation_byte = |at: &usize| self.line[*at] & 0b1100_0000 == 0b1000_0000;
        // A character has at most four bytes.
        let end = (MAX_LINE - 3..=MAX_LINE)
            .rev()
            .find(|at| !is_continuation_byte(at))
            .unwrap_or(MAX_LINE);
        (self.on_line)(String::from_utf8_lossy(&self.line[..end]).into_owned());
        self.line.drain(..end);
        self.is_continuation = true;
    }

    fn emit_line(&mut self) {
        let line = String::from_utf8_lossy(&self.line).trim_end_matches('\r').to_owned();
        self.line.clear();
        // An empty rest of a split line is not a line of its own.
        if !(std::mem::take(&mut self.is_continuation) && line.is_empty()) {
            (self.on_line)(line);
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            self.emit_line();
        }
    }
}

#[cfg(test)]
mod line_splitting_tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    fn lines_of(chunks: &[&[u8]]) -> Vec<String> {
        let received = Arc::new(Mutex::new(Vec::new()));
        let sink = received.clone();
        let mut lines = Lines::new(move |line| sink.lock().unwrap().push(line));
        for chunk in chunks {
            lines.write(chunk);
        }
        drop(lines);
        Arc::into_inner(received).unwrap().into_inner().unwrap()
    }

    #[test]
    fn lines_are_joined_split_and_ended() {
        assert_eq!(lines_of(&[b"a", b"b\nc\r\n\nd"]), ["ab", "c", "", "d"]);
        assert_eq!(lines_of(&[b"x\n"]), ["x"]);
        assert_eq!(lines_of(&[b"\xff\n"]), ["\u{fffd}"]);
    }

    #[test]
    fn a_long_line_is_cut_and_nothing_is_added_or_lost() {
        let long = |bytes: usize| "x".repeat(bytes);
        for (text, expected) in [
            (long(MAX_LINE + 1), vec![long(MAX_LINE), long(1)]),
            (long(MAX_LINE) + "\n", vec![long(MAX_LINE)]),
            (long(2 * MAX_LINE) + "\r\ny", vec![long(MAX_LINE), long(MAX_LINE), "y".to_owned()]),
            (long(MAX_LINE) + "\n\n", vec![long(MAX_LINE), String::new()]),
            (long(MAX_LINE - 1) + "\ry\n", vec![long(MAX_LINE - 1) + "\r", "y".to_owned()]),
            (long(MAX_LINE) + "\ry\n", vec![long(MAX_LINE), "\ry".to_owned()]),
        ] {
            assert_eq!(lines_of(&[text.as_bytes()]), expected);
        }
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        for character in ["é", "€", "😀"] {
            for before in 0..character.len() {
                let text = "x".repeat(before) + &character.repeat(MAX_LINE);
                let lines = lines_of(&[text.as_bytes()]);
                assert_eq!(lines.concat(), text);
                let full = &lines[..lines.len() - 1];
                assert!(
                    full.iter().all(|line| line.len() > MAX_LINE - 4 && line.len() <= MAX_LINE)
                );
            }
        }
        // No character has that many continuation bytes.
        let lines = lines_of(&[&[0x80; MAX_LINE + 1]]);
        assert_eq!(lines, ["\u{fffd}".repeat(MAX_LINE), "\u{fffd}".to_owned()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A handler with a manual clock, and the lines that it wrote.
    struct Scene {
        lines: HandlerLines,
        seconds: Arc<AtomicU64>,
        received: Arc<Mutex<Vec<String>>>,
    }

    impl Scene {
        fn new() -> Self {
            let seconds = Arc::new(AtomicU64::new(0));
            let received = Arc::<Mutex<Vec<String>>>::default();
            let (now, sink_lines) = (seconds.clone(), received.clone());
            let sink = move |_: Stream, line: String| lock(&sink_lines).push(line);
            let clock =
                ClockHandle::from_fn(move || Duration::from_secs(now.load(Ordering::SeqCst)));
            let lines = HandlerLines::new(Some(Arc::new(sink)), clock);
            Self { lines, seconds, received }
        }

        fn take_received(&self) -> Vec<String> {
            std::mem::take(&mut *lock(&self.received))
        }

        /// Returns the bytes that reached the log since the last call.
        fn bytes(&self) -> u64 {
            self.take_received().iter().map(|line| encoded_size(line)).sum()
        }
    }

    /// A line of 4 KiB that takes eight times as many bytes in a log.
    fn costly_line() -> String {
        "\u{1}".repeat(4096)
    }

    #[test]
    fn lines_above_the_limit_are_dropped_and_reported_once() {
        let scene = Scene::new();
        let turn = scene.lines.turn();
        let (out, error) = (turn.writer(Stream::Stdout), turn.writer(Stream::Stderr));
        for _ in 0..MAX_LINES {
            out("x".to_owned());
            error("y".to_owned());
        }
        let received = scene.take_received();
        assert_eq!(received.len() as u64, MAX_LINES + 1);
        assert!(
            received.last().unwrap().contains("limit of 10000 lines a turn within an hour"),
            "{received:?}"
        );
        drop((turn, out, error));
        let bytes = MAX_LINES * encoded_size("x");
        let notice =
            format!("tenure: {MAX_LINES} lines ({bytes} bytes) of the handler were dropped");
        assert_eq!(scene.take_received(), [notice]);
    }

    #[test]
    fn the_byte_limit_counts_encoded_bytes() {
        let scene = Scene::new();
        let turn = scene.lines.turn();
        let out = turn.writer(Stream::Stdout);
        (0..MAX_LINES).for_each(|_| out(costly_line()));
        // Shorter lines are dropped too.
        out("x".to_owned());
        drop((turn, out));
        let received = scene.take_received();
        let notices: Vec<_> = received.iter().filter(|line| line.starts_with("tenure: ")).collect();
        assert_eq!(notices.len(), 2, "{notices:?}");
        assert!(
            notices[0].contains("limit of 8 MiB a turn within an hour")
                && notices[1].contains("dropped")
        );
        let bytes: u64 = received.iter().map(|line| encoded_size(line)).sum();
        assert!((MAX_BYTES - 64 * 1024..MAX_BYTES + 64 * 1024).contains(&bytes), "{bytes}");
    }

    #[test]
    fn invisible_characters_count_as_their_escapes() {
        for c in ["\u{1}", "\u{61c}", "\u{2028}", "\u{2069}", "\u{feff}"] {
            assert_eq!(encoded_size(c), LINE_OVERHEAD + 8, "{c:?}");
        }
    }

    #[test]
    fn a_long_turn_gets_a_new_limit_each_hour() {
        let scene = Scene::new();
        let turn = scene.lines.turn();
        let out = turn.writer(Stream::Stdout);
        (0..=MAX_LINES).for_each(|_| out("x".to_owned()));
        scene.seconds.store(3599, Ordering::SeqCst);
        out("too early".to_owned());
        scene.take_received();
        scene.seconds.store(3600, Ordering::SeqCst);
        out("heard".to_owned());
        let received = scene.take_received();
        assert!(received[0].starts_with("tenure: 2 lines"), "{received:?}");
        assert_eq!(received[1..], ["heard"]);
    }

    #[test]
    fn lines_of_the_host_count_too() {
        let scene = Scene::new();
        let turn = scene.lines.turn();
        let write_host_line = turn.host_writer();
        (0..3 * MAX_LINES).for_each(|_| write_host_line("a request was refused".to_owned()));
        assert_eq!(scene.take_received().len() as u64, MAX_LINES + 1);
    }

    #[test]
    fn turns_share_the_byte_limit_of_a_minute() {
        let scene = Scene::new();
        let run_turn = || {
            let turn = scene.lines.turn();
            let out = turn.writer(Stream::Stdout);
            (0..1000).for_each(|_| out(costly_line()));
        };
        (0..10).for_each(|_| run_turn());
        let bytes = scene.bytes();
        assert!((MAX_BYTES_PER_MINUTE / 2..MAX_BYTES_PER_MINUTE + MIB).contains(&bytes), "{bytes}");
        run_turn();
        let received = scene.take_received();
        assert_eq!(received.len(), 2, "{received:?}");
        assert!(received[0].contains("16 MiB a minute"), "{received:?}");
        assert!(received[1].contains("1000 lines"), "{received:?}");
        scene.seconds.store(61, Ordering::SeqCst);
        run_turn();
        assert!(scene.bytes() > MAX_BYTES / 2);
    }

    #[test]
    fn dropped_lines_are_reported_within_a_long_turn() {
        let scene = Scene::new();
        // Other turns have used up the minute.
        lock(&scene.lines.minute).bytes = MAX_BYTES_PER_MINUTE;
        let turn = scene.lines.turn();
        let out = turn.writer(Stream::Stdout);
        out("x".to_owned());
        out("y".to_owned());
        scene.seconds.store(60, Ordering::SeqCst);
        out("z".to_owned());
        let received = scene.take_received();
        assert!(received[0].contains("16 MiB a minute"), "{received:?}");
        assert!(received[1].starts_with("tenure: 2 lines"), "{received:?}");
        assert_eq!(received[2..], ["z"]);
    }
}
