//! Shows the story: as a picture that moves where there is room for one, else line by line.

use super::frame::{self, Size};
use super::ink::{Line, PLAIN};
use super::note::{Kind, Note};
use super::picture::{ASCII, Signs, UNICODE};
use super::story::Story;
use anstyle::AnsiColor;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
const CLEAR_BELOW: &str = "\x1b[J";
const CLEAR_RIGHT: &str = "\x1b[K";

pub(super) struct Screen {
    out: io::Stdout,
    colour: bool,
    live: bool,
    /// The widths of the lines on the screen: resized, a terminal breaks those that are too long.
    drawn: Vec<usize>,
    last: String,
    /// How many notes were written, line by line.
    written: usize,
    /// Whether details are left out of them.
    brief: bool,
}

impl Screen {
    /// Shows colours only where they are `wanted`, and a terminal is there for them.
    pub(super) fn new(wanted: bool) -> Self {
        let out = io::stdout();
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let terminal = out.is_terminal();
        Self {
            colour: terminal && wanted,
            live: terminal && !dumb,
            out,
            drawn: Vec::new(),
            last: String::new(),
            written: 0,
            brief: false,
        }
    }

    /// Line by line, and without details: the picture is elsewhere.
    pub(super) fn brief(wanted: bool) -> Self {
        let mut screen = Self::new(wanted);
        (screen.live, screen.brief) = (false, true);
        screen
    }

    /// Shows how things are now.
    pub(super) fn show(&mut self, story: &Story, now: Duration) -> io::Result<()> {
        if self.live {
            let size = size();
            match size.and_then(|size| frame::moving(story, now, size, signs())) {
                Some(lines) => return self.draw(&lines, size.map_or(0, |(width, _)| width)),
                // Too small, now or from the beginning: the rest is told, and what was before.
                None => self.leave()?,
            }
        }
        let mut text = String::new();
        for note in story.notes_since(self.written) {
            if !(self.brief && note.kind == Kind::Detail) {
                let _ = writeln!(text, "{}", told(note).render(self.colour));
            }
        }
        self.written = story.notes_told();
        self.put(&text)
    }

    /// Writes lines that stay.
    pub(super) fn print(&mut self, lines: &[Line]) -> io::Result<()> {
        let mut text = String::new();
        for line in lines {
            let _ = writeln!(text, "{}", line.render(self.colour));
        }
        self.put(&text)
    }

    /// Shows how it was, for good: the picture moves no more.
    pub(super) fn freeze(&mut self, story: &Story, now: Duration) -> io::Result<()> {
        self.show(story, now)?;
        if self.live
            && let Some(size) = size()
            && let Some(lines) = frame::still(story, now, size, signs())
        {
            self.draw(&lines, size.0)?;
        }
        self.show_cursor()
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        let text = if std::mem::take(&mut self.live) { SHOW_CURSOR } else { "" };
        self.put(text)
    }

    /// Over to plain lines: the picture vanishes.
    fn leave(&mut self) -> io::Result<()> {
        let text = format!("{}{CLEAR_BELOW}", self.up(size().map_or(0, |(width, _)| width)));
        self.show_cursor()?;
        self.put(&text)
    }

    fn draw(&mut self, lines: &[Line], width: usize) -> io::Result<()> {
        let mut text = String::new();
        for line in lines {
            let _ = writeln!(text, "{}{CLEAR_RIGHT}", line.render(self.colour));
        }
        if text == self.last {
            return Ok(());
        }
        // One write per frame, so that no half of one is ever seen.
        let all = format!("{HIDE_CURSOR}{}{text}{CLEAR_BELOW}", self.up(width));
        self.drawn = lines.iter().map(Line::written).collect();
        self.last = text;
        self.put(&all)
    }

    /// Back to the first line of the picture.
    fn up(&self, width: usize) -> String {
        let rows: usize = self.drawn.iter().map(|line| line.div_ceil(width.max(1)).max(1)).sum();
        if rows == 0 { String::new() } else { format!("\r\x1b[{rows}A") }
    }

    fn put(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that is gone.
        let _ = self.show_cursor();
    }
}

/// A note as a line of its own.
fn told(note: &Note) -> Line {
    let style = match note.kind {
        Kind::Headline => PLAIN.bold(),
        Kind::Detail => PLAIN,
        Kind::Problem => AnsiColor::Yellow.on_default(),
    };
    Line::of(PLAIN.dimmed(), &format!("{:>5.1} s  ", note.at.as_secs_f64())).with(style, &note.text)
}

/// Columns and rows of the terminal.
#[cfg(unix)]
fn size() -> Option<Size> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some((size.ws_col.into(), size.ws_row.into()))
}

#[cfg(not(unix))]
fn size() -> Option<Size> {
    None
}

/// The signs that the terminal is said to know.
fn signs() -> &'static Signs {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
    // Nothing said is said in containers, whose terminals know it.
    let unicode = locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    });
    if unicode { &UNICODE } else { &ASCII }
}
