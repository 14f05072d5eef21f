//! What a handler writes, line by line and not without end.
//!
//! A handler that writes without end must not fill the disk that the log is kept on. So lines and
//! bytes are limited, for each turn, or each hour of one that lasts longer, and for all turns of a minute together.
//! What the host says about the handler's requests counts too: the handler decides how often there is something to say.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure_clock::Reading;

/// Lines of one turn that are handed on within an hour.
const LINES: u64 = 10_000;

/// Bytes of one turn's lines, as a log writes them.
const BYTES: u64 = 8 * MIB;

/// The same for all turns within a minute.
const BYTES_A_MINUTE: u64 = 16 * MIB;

const MIB: u64 = 1024 * 1024;
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// What a log writes around a line: when, which election, which candidate.
const AROUND: u64 = 256;

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

/// The lines of all turns of a handler.
pub struct HandlerLines {
    sink: Option<LineSink>,
    clock: Reading,
    minute: Arc<Mutex<Minute>>,
}

/// The lines of one turn: of both streams, and what the host says. Clones are the same turn's; when
/// the last one is gone, it is told what was left out.
#[derive(Clone)]
pub struct TurnLines(Arc<Turn>);

struct Turn {
    sink: Option<LineSink>,
    clock: Reading,
    minute: Arc<Mutex<Minute>>,
    tally: Mutex<Tally>,
}

impl HandlerLines {
    /// Lines that are handed to `sink`, if there is one.
    pub fn new(sink: Option<LineSink>, clock: Reading) -> Self {
        Self { sink, clock, minute: Arc::default() }
    }

    /// The lines of a turn that begins.
    pub fn turn(&self) -> TurnLines {
        TurnLines(Arc::new(Turn {
            sink: self.sink.clone(),
            clock: self.clock.clone(),
            minute: self.minute.clone(),
            tally: Mutex::new(Tally { began: self.clock.now(), ..Tally::default() }),
        }))
    }
}

impl TurnLines {
    /// Takes the lines of one stream.
    pub fn of(&self, stream: Stream) -> impl Fn(String) + Send + Sync + use<> {
        let turn = self.0.clone();
        move |line| turn.write(stream, line)
    }

    /// Takes what the host says.
    pub fn of_host(&self) -> impl Fn(String) + Send + Sync + use<> {
        let turn = self.0.clone();
        move |text| turn.write(Stream::Stderr, format!("tenure: {text}"))
    }
}

impl Turn {
    fn write(&self, stream: Stream, line: String) {
        let Some(sink) = &self.sink else { return };
        let (told, passes) = {
            let mut minute = lock(&self.minute);
            lock(&self.tally).take(&mut minute, self.clock.now(), as_written(&line))
        };
        if let Some(told) = told {
            sink(Stream::Stderr, format!("tenure: {told}"));
        }
        if passes {
            sink(stream, line);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let (Some(sink), Some(missing)) = (&self.sink, lock(&self.tally).missing()) {
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
    began: Duration,
    bytes: u64,
}

/// The lines of a turn, counted.
#[derive(Default)]
struct Tally {
    /// When the hour began that they are counted in.
    began: Duration,
    lines: u64,
    bytes: u64,
    /// Lines and bytes that were left out and not told of yet.
    left_out: (u64, u64),
    /// Nothing of the turn is handed on before the next hour.
    over: bool,
}

impl Tally {
    /// Whether a line of `size` bytes is handed on at `now`, and what is told before it.
    fn take(&mut self, minute: &mut Minute, now: Duration, size: u64) -> (Option<String>, bool) {
        if now.saturating_sub(minute.began) >= MINUTE {
            *minute = Minute { began: now, bytes: 0 };
        }
        if now.saturating_sub(self.began) >= HOUR {
            *self = Self { began: now, left_out: self.left_out, ..Self::default() };
        }
        let limit = if self.over || self.lines == LINES {
            Some(format!("of {LINES} lines a turn within an hour"))
        } else if self.bytes + size > BYTES {
            Some(format!("of {} MiB a turn within an hour", BYTES / MIB))
        } else if minute.bytes + size > BYTES_A_MINUTE {
            // Also for a shorter line: what is left out has a beginning and an end.
            minute.bytes = BYTES_A_MINUTE;
            Some(format!("of {} MiB a minute", BYTES_A_MINUTE / MIB))
        } else {
            None
        };
        let Some(limit) = limit else {
            let missing = self.missing();
            self.lines += 1;
            self.bytes += size;
            minute.bytes += size;
            return (missing, true);
        };
        self.over |= self.lines == LINES || self.bytes + size > BYTES;
        let first = self.left_out == (0, 0);
        self.left_out = (self.left_out.0 + 1, self.left_out.1 + size);
        let told =
            format!("the handler has reached the log's limit {limit}; further lines are dropped");
        (first.then_some(told), false)
    }

    /// What is told, once, of what was left out.
    fn missing(&mut self) -> Option<String> {
        let (lines, bytes) = std::mem::take(&mut self.left_out);
        (lines > 0).then(|| format!("{lines} lines ({bytes} bytes) of the handler were dropped"))
    }
}

/// How many bytes a log writes for a line, at most: what does not show is spelt out there.
fn as_written(line: &str) -> u64 {
    let size = |c: char| match c {
        '"' | '\\' => 2,
        '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => 8,
        '\u{2066}'..='\u{2069}' => 8,
        c if c.is_control() => 8,
        c => c.len_utf8(),
    };
    AROUND + line.chars().map(|c| size(c) as u64).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A handler whose clock is set by hand, and what it has written.
    struct Scene {
        lines: HandlerLines,
        seconds: Arc<AtomicU64>,
        seen: Arc<Mutex<Vec<String>>>,
    }

    impl Scene {
        fn new() -> Self {
            let seconds = Arc::new(AtomicU64::new(0));
            let seen = Arc::<Mutex<Vec<String>>>::default();
            let (now, written) = (seconds.clone(), seen.clone());
            let sink = move |_: Stream, line: String| lock(&written).push(line);
            let clock = Reading::of(move || Duration::from_secs(now.load(Ordering::SeqCst)));
            let lines = HandlerLines::new(Some(Arc::new(sink)), clock);
            Self { lines, seconds, seen }
        }

        fn take(&self) -> Vec<String> {
            std::mem::take(&mut *lock(&self.seen))
        }

        /// What reached the log since it was last asked.
        fn bytes(&self) -> u64 {
            self.take().iter().map(|line| as_written(line)).sum()
        }
    }

    /// A line of 4 KiB that a log writes in eight times as many bytes.
    fn costly() -> String {
        "\u{1}".repeat(4096)
    }

    #[test]
    fn a_turn_has_so_many_lines_and_what_is_left_out_is_told_once() {
        let scene = Scene::new();
        let turn = scene.lines.turn();
        let (out, error) = (turn.of(Stream::Stdout), turn.of(Stream::Stderr));
        for _ in 0..LINES {
            out("x".to_owned());
            error("y".to_owned());
        }
        let seen = scene.take();
        assert_eq!(seen.len() as u64, LINES + 1);
        assert!(
            seen.last().unwrap().contains("limit of 10000 lines a turn within an hour"),
            "{seen:?}"
        );
        drop((turn, out, error));
        let bytes = LINES * as_written("x");
        let told = format!("tenure: {LINES} lines ({bytes} bytes) of the handler were dropped");
        assert_eq!(scene.take(), [told]);
    }

    #[test]
    fn a_turn_has_so_many_bytes_as_they_are_written() {
        let scene = Scene::new();
        let turn = scene.lines.turn();
        let out = turn.of(Stream::Stdout);
        (0..LINES).for_each(|_| out(costly()));
        // What fits again is not handed on either.
        out("x".to_owned());
        drop((turn, out));
        let seen = scene.take();
        let told: Vec<_> = seen.iter().filter(|line| line.starts_with("tenure: ")).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told[0].contains("limit of 8 MiB a turn within an hour") && told[1].contains("dropped")
        );
        let bytes: u64 = seen.iter().map(|line| as_written(line)).sum();
        assert!((BYTES - 64 * 1024..BYTES + 64 * 1024).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_turn_that_lasts_for_hours_goes_on_to_be_heard() {
        let scene = Scene::new();
        let turn = scene.lines.turn();
        let out = turn.of(Stream::Stdout);
        (0..=LINES).for_each(|_| out("x".to_owned()));
        scene.seconds.store(3599, Ordering::SeqCst);
        out("too early".to_owned());
        scene.take();
        scene.seconds.store(3600, Ordering::SeqCst);
        out("heard".to_owned());
        let seen = scene.take();
        assert!(seen[0].starts_with("tenure: 2 lines"), "{seen:?}");
        assert_eq!(seen[1..], ["heard"]);
    }

    #[test]
    fn what_the_host_says_counts_too() {
        let scene = Scene::new();
        let turn = scene.lines.turn();
        let tell = turn.of_host();
        (0..3 * LINES).for_each(|_| tell("a request was refused".to_owned()));
        assert_eq!(scene.take().len() as u64, LINES + 1);
    }

    #[test]
    fn the_turns_of_a_minute_have_so_many_bytes_together() {
        let scene = Scene::new();
        let play = || {
            let turn = scene.lines.turn();
            let out = turn.of(Stream::Stdout);
            (0..1000).for_each(|_| out(costly()));
        };
        (0..10).for_each(|_| play());
        let bytes = scene.bytes();
        assert!((BYTES_A_MINUTE / 2..BYTES_A_MINUTE + MIB).contains(&bytes), "{bytes}");
        play();
        let seen = scene.take();
        assert_eq!(seen.len(), 2, "{seen:?}");
        assert!(seen[0].contains("16 MiB a minute"), "{seen:?}");
        assert!(seen[1].contains("1000 lines"), "{seen:?}");
        scene.seconds.store(61, Ordering::SeqCst);
        play();
        assert!(scene.bytes() > BYTES / 2);
    }

    #[test]
    fn a_turn_that_goes_on_is_told_what_its_last_minute_lost() {
        let scene = Scene::new();
        // Others have used the minute up.
        lock(&scene.lines.minute).bytes = BYTES_A_MINUTE;
        let turn = scene.lines.turn();
        let out = turn.of(Stream::Stdout);
        out("x".to_owned());
        out("y".to_owned());
        scene.seconds.store(60, Ordering::SeqCst);
        out("z".to_owned());
        let seen = scene.take();
        assert!(seen[0].contains("16 MiB a minute"), "{seen:?}");
        assert!(seen[1].starts_with("tenure: 2 lines"), "{seen:?}");
        assert_eq!(seen[2..], ["z"]);
    }
}
