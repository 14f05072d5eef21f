//! Shows the story in the terminal: as a picture that moves where there is room for one, else line by line.

use super::picture::{self, BOLD, DIM, WARM, styled};
use super::story::Story;
use super::view::view;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
const CLEAR_BELOW: &str = "\x1b[J";
const CLEAR_RIGHT: &str = "\x1b[K\n";
const CLEAR_ALL: &str = "\x1b[2J\x1b[H";

pub(super) struct Screen {
    out: io::Stdout,
    colour: bool,
    /// True while there is a picture.
    live: bool,
    size: picture::Size,
    /// The picture on the screen.
    drawn: Vec<String>,
}

impl Screen {
    /// Shows colours only if they are `wanted`, and no picture if it is on a page.
    pub(super) fn new(wanted: bool, page: bool) -> Self {
        let out = io::stdout();
        let is_terminal = out.is_terminal();
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            out,
            colour: is_terminal && wanted,
            live: is_terminal && !dumb && !page && knows_unicode(),
            size: (0, 0),
            drawn: Vec::new(),
        }
    }

    pub(super) fn show(&mut self, story: &mut Story, now: Duration) -> io::Result<()> {
        if self.live {
            let size = size();
            if let Some(lines) = picture::moving(&view(story, now), now, size) {
                return self.draw(lines, size);
            }
            self.leave()?;
        }
        for note in story.notes.iter_mut().filter(|note| !note.printed) {
            note.printed = true;
            let style = if note.is_problem { WARM } else { BOLD };
            let clock = styled(DIM, &format!("{:>5.1} s  ", note.at.as_secs_f64()));
            self.print(&format!("{clock}{}\n", styled(style, &note.text)))?;
        }
        Ok(())
    }

    /// Leaves the picture as it is now, for good.
    pub(super) fn freeze(&mut self, story: &mut Story, now: Duration) -> io::Result<()> {
        self.show(story, now)?;
        let size = self.size;
        if self.live
            && let Some(lines) = picture::still(&view(story, now), now, size)
        {
            self.draw(lines, size)?;
        }
        self.leave()
    }

    /// Writes text that stays.
    pub(super) fn print(&mut self, text: &str) -> io::Result<()> {
        let text = if self.colour { text.to_owned() } else { plain(text) };
        self.write(&text)
    }

    fn leave(&mut self) -> io::Result<()> {
        match std::mem::take(&mut self.live) {
            true => self.write(SHOW_CURSOR),
            false => Ok(()),
        }
    }

    fn draw(&mut self, lines: Vec<String>, size: picture::Size) -> io::Result<()> {
        if lines == self.drawn && size == self.size {
            return Ok(());
        }
        // A terminal of another size has moved the lines.
        let up = match self.drawn.len() {
            0 => String::new(),
            _ if size != self.size => CLEAR_ALL.to_owned(),
            rows => format!("\r\x1b[{rows}A"),
        };
        let text = if self.colour { lines.join("\n") } else { plain(&lines.join("\n")) };
        let text = text.replace('\n', CLEAR_RIGHT);
        (self.drawn, self.size) = (lines, size);
        // In one piece, so that no half of a frame is ever seen.
        self.write(&format!("{HIDE_CURSOR}{up}{text}{CLEAR_RIGHT}{CLEAR_BELOW}"))
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that is gone.
        let _ = self.leave();
    }
}

/// The text without styles, of which each ends with its `m`.
pub(super) fn plain(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap_or_default();
    let others = parts.filter_map(|part| part.split_once('m'));
    std::iter::once(first).chain(others.map(|(_, text)| text)).collect()
}

/// Columns and rows of the terminal.
#[cfg(unix)]
fn size() -> picture::Size {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    size.map_or((0, 0), |size| (size.ws_col.into(), size.ws_row.into()))
}

#[cfg(not(unix))]
fn size() -> picture::Size {
    (0, 0)
}

/// Returns true unless the locale names another encoding. Containers have none, and their terminals know Unicode.
fn knows_unicode() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}
