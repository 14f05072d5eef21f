//! Shows the story in the terminal: as a live picture if there is room, otherwise line by line.

use super::picture::{self, BOLD, DIM, WARM, styled};
use super::story::SharedStory;
use super::view::view;
use std::io::{self, IsTerminal, Write};

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
const CLEAR_BELOW: &str = "\x1b[J";
const CLEAR_RIGHT: &str = "\x1b[K";

pub(super) struct Screen {
    out: io::Stdout,
    colour: bool,
    /// True while there is a picture.
    has_picture: bool,
    /// The picture on the screen.
    drawn_lines: Vec<String>,
}

impl Screen {
    /// Creates a screen. It has no picture if the page shows one.
    pub(super) fn new(use_colour: bool, page: bool) -> Self {
        let out = io::stdout();
        let is_terminal = out.is_terminal();
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            out,
            colour: is_terminal && use_colour,
            has_picture: is_terminal && !dumb && !page && knows_unicode(),
            drawn_lines: Vec::new(),
        }
    }

    pub(super) fn show(&mut self, story: &SharedStory) -> io::Result<()> {
        if self.has_picture {
            let (columns, rows) = size();
            let lines = story.with(|story, now| picture::render_live(&view(story, now), now, rows));
            if columns >= picture::WIDTH && lines.len() < rows {
                return self.draw(lines);
            }
            self.end_picture()?;
        }
        let mut text = String::new();
        story.with(|story, _| {
            for note in story.notes.iter_mut().filter(|note| !note.printed) {
                note.printed = true;
                let style = if note.is_problem { WARM } else { BOLD };
                let clock = styled(DIM, &format!("{:>5.1} s  ", note.at.as_secs_f64()));
                text += &format!("{clock}{}\n", styled(style, &note.text));
            }
        });
        self.print(&text)
    }

    /// Leaves the picture in its present state.
    pub(super) fn freeze(&mut self, story: &SharedStory) -> io::Result<()> {
        self.show(story)?;
        if self.has_picture {
            self.draw(story.with(|story, now| picture::render_final(&view(story, now), now)))?;
        }
        self.end_picture()
    }

    /// Writes text in one piece, so that no partial frame is visible.
    pub(super) fn print(&mut self, text: &str) -> io::Result<()> {
        let text = if self.colour { text.to_owned() } else { plain(text) };
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    fn end_picture(&mut self) -> io::Result<()> {
        match std::mem::take(&mut self.has_picture) {
            true => self.print(SHOW_CURSOR),
            false => Ok(()),
        }
    }

    fn draw(&mut self, lines: Vec<String>) -> io::Result<()> {
        if lines == self.drawn_lines {
            return Ok(());
        }
        let up = match self.drawn_lines.len() {
            0 => String::new(),
            rows => format!("\r\x1b[{rows}A"),
        };
        let text: String = lines.iter().map(|line| format!("{line}{CLEAR_RIGHT}\n")).collect();
        self.drawn_lines = lines;
        self.print(&format!("{HIDE_CURSOR}{up}{text}{CLEAR_BELOW}"))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone; an error here has no remedy.
        let _ = self.end_picture();
    }
}

/// Returns the text without styles.
pub(super) fn plain(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| match part.split_once('m') {
        Some((codes, text)) if codes.bytes().all(|b| b.is_ascii_digit() || b == b';') => {
            plain + text
        }
        _ => plain + "\x1b[" + part,
    })
}

/// Returns the columns and rows of the terminal.
fn size() -> (usize, usize) {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(io::stdout()) {
        return (size.ws_col.into(), size.ws_row.into());
    }
    (0, 0)
}

/// Returns true unless the locale names another encoding. Containers have no locale, and their
/// terminals support Unicode.
fn knows_unicode() -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let locale = names.into_iter().filter_map(|name| std::env::var(name).ok());
    let mut locale = locale.filter(|locale| !locale.is_empty());
    locale.next().is_none_or(|locale| locale.to_lowercase().replace('-', "").contains("utf8"))
}
