//! Shows the story in the terminal: as a live picture if there is room, otherwise line by line. A
//! table ends it.
//!
//! The picture has a row for each candidate, and a column for each half second.

use super::story::{Action, SharedStory, Story, format_brief};
use super::view::view;
use anstyle::{AnsiColor, Style};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;
use tenure_server::page::view::{Kind, Lane, View};

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
const CLEAR_BELOW: &str = "\x1b[J";
const CLEAR_RIGHT: &str = "\x1b[K";

const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const WARM: Style = AnsiColor::Yellow.on_default();
const FAULT: Style = AnsiColor::Red.on_default();

/// Number of columns that a picture needs.
pub(super) const WIDTH: usize = 72;

/// Number of columns before the lanes.
const GUTTER: usize = 18;

/// Number of columns of the lanes. The last column of the picture stays free.
const COLUMNS: usize = WIDTH - GUTTER - 1;

/// Time span of a column. It divides the two seconds between turns, so turns are drawn at equal
/// distances.
const CELL: Duration = Duration::from_millis(500);

const LEGEND: &str = "  ━ leads   ● turn   · follows   ✗ killed   ░ others wait   ■ stopped";

/// Maximum number of problems, and of rows for each.
const MAX_PROBLEMS: usize = 2;
const MAX_PROBLEM_ROWS: usize = 2;

/// The next steps for the user.
pub(super) const FAREWELL: &str = "
Run it yourself with `tenure store` and `tenure run`:
`tenure --help` shows how, and README.md how on Azure.
";

pub(super) struct Screen {
    out: io::Stdout,
    colour: bool,
    /// True while the screen shows a live picture.
    has_picture: bool,
    /// The lines of the picture on the screen.
    drawn_lines: Vec<String>,
}

impl Screen {
    /// Creates a screen. It has no picture if `page` is true, because the browser shows one.
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

    /// Draws the live picture. Once there is no room for it, prints new notes from then on.
    pub(super) fn show(&mut self, story: &SharedStory) -> io::Result<()> {
        if self.has_picture {
            let (columns, rows) = size();
            let lines = story.with(|story, now| render_live(&view(story, now), now, rows));
            if columns >= WIDTH && lines.len() < rows {
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

    /// Draws the final picture, which remains on the screen.
    pub(super) fn freeze(&mut self, story: &SharedStory) -> io::Result<()> {
        self.show(story)?;
        if self.has_picture {
            self.draw(story.with(|story, now| render_final(&view(story, now), now)))?;
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
        // The terminal may be closed; an error here has no remedy.
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

/// Returns the column of an instant if it is visible.
fn column(now: Duration, at: Duration) -> Option<usize> {
    let cell = |at: Duration| (at.as_millis() / CELL.as_millis()) as usize;
    let first = (cell(now) + 1).saturating_sub(COLUMNS);
    cell(at).checked_sub(first).filter(|column| *column < COLUMNS)
}

/// Returns the instant that was `age_ms` before `now`.
fn instant(now: Duration, age_ms: u64) -> Duration {
    now.saturating_sub(Duration::from_millis(age_ms))
}

fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Returns the whole picture, with as many problems as fit into `rows`.
pub(super) fn render_live(view: &View, now: Duration, rows: usize) -> Vec<String> {
    let mut lines = render_final(view, now);
    lines.extend([String::new(), styled(DIM, LEGEND), String::new()]);
    let mut sentence = view.changes.first().map(|note| note.text.clone()).unwrap_or_default();
    if let Some(vacancy) = view.vacancy {
        let left = Duration::from_millis(vacancy.left_ms);
        sentence.push_str(&format!(" It lasts {:.1} s more.", left.as_secs_f64()));
    }
    let clock = format!("{:>4} s  ", now.as_secs());
    let mut wrapped = wrap(&sentence, WIDTH - clock.len() - 1).into_iter();
    // The number of rows is constant, so the picture stands still.
    for start in [&clock, &" ".repeat(clock.len())] {
        let text = wrapped.next().unwrap_or_default();
        lines.push(format!("{}{}", styled(DIM, start), styled(BOLD, &text)));
    }
    let room = rows.saturating_sub(lines.len() + 1);
    let problems = view.problems.iter().take(MAX_PROBLEMS);
    let problems =
        problems.flat_map(|note| wrap(&note.text, WIDTH - 5).into_iter().take(MAX_PROBLEM_ROWS));
    lines.extend(problems.map(|text| styled(WARM, &format!("  ! {text}"))).take(room));
    lines
}

/// Returns the part that remains on the screen at the end.
pub(super) fn render_final(view: &View, now: Duration) -> Vec<String> {
    let mut lines = vec![String::new()];
    for lane in &view.lanes {
        let style = match lane.state {
            "leads" => GOOD,
            "killed" | "lost" => FAULT,
            "stopping" | "stopped" => WARM,
            _ => PLAIN,
        };
        let name = format!("  {:<5}  {:<9}", lane.name, lane.state);
        lines.push(format!("{}{}", styled(style, &name), row(lane, now)));
    }
    // A mark every ten seconds, and the terms below their starts.
    let tens = (0..60).map(|ten| (Duration::from_secs(10 * ten), format!("{} s", 10 * ten)));
    let spans = view.lanes.iter().flat_map(|lane| &lane.spans);
    let terms = spans.filter_map(|span| Some((instant(now, span.from_ms), span.term?.to_string())));
    for (name, marks) in [("", tens.collect()), ("  term", terms.collect())] {
        let line = format!("{name:<GUTTER$}{}", place_marks(now, marks));
        lines.push(styled(DIM, line.trim_end()));
    }
    lines
}

fn row(lane: &Lane, now: Duration) -> String {
    let mut cells = [(PLAIN, ' '); COLUMNS];
    let column_at = |age_ms| column(now, instant(now, age_ms));
    for span in &lane.spans {
        let cell = match span.kind {
            Kind::Leads => (GOOD, '━'),
            Kind::LeaseRuns => (FAULT, '░'),
            Kind::Follows => (DIM, '·'),
            Kind::Gone | Kind::Frozen | Kind::CutOff => continue,
        };
        let from = column_at(span.from_ms).unwrap_or(0);
        // The column of the end shows the next state.
        let to = span.to_ms.map_or_else(|| column_at(0).map(|last| last + 1), column_at);
        let to = to.unwrap_or(0);
        cells.get_mut(from..to).unwrap_or_default().fill(cell);
    }
    let turns = lane.turns.iter().map(|turn| (turn.age_ms, (BOLD, '●')));
    let ends = lane.spans.iter().filter(|span| span.kind == Kind::Gone).map(|span| {
        let is_stopped = span.to_ms.is_none() && lane.state.starts_with("stop");
        (span.from_ms, if is_stopped { (WARM, '■') } else { (BAD, '✗') })
    });
    for (age_ms, symbol) in turns.chain(ends) {
        if let Some(column) = column_at(age_ms) {
            cells[column] = symbol;
        }
    }
    cells.into_iter().map(|(style, symbol)| styled(style, &symbol.to_string())).collect()
}

/// Writes texts below their instants: whole if they fit, else their last digits, or nothing.
fn place_marks(now: Duration, mut marks: Vec<(Duration, String)>) -> String {
    marks.sort();
    let mut line = String::new();
    // Goes from right to left, because each text has room until the next one.
    let mut end = COLUMNS;
    for (at, text) in marks.iter().rev() {
        let Some(column) = column(now, *at) else { continue };
        let last = text.get(text.len().saturating_sub(4)..).unwrap_or(text);
        let room = end - column;
        let texts = [text.clone(), format!("…{last}"), String::new()];
        let fits = texts.into_iter().find(|text| text.chars().count() < room).unwrap_or_default();
        line.insert_str(0, &format!("{fits:<room$}"));
        end = column;
    }
    " ".repeat(end) + &line
}

/// Breaks a text between words into lines of at most `width` columns. Longer words are cut.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let cut: String = word.chars().take(width).collect();
        let length = |text: &str| text.chars().count();
        match lines.last_mut().filter(|line| length(line) + 1 + length(&cut) <= width) {
            Some(line) => *line = format!("{line} {cut}"),
            None => lines.push(cut),
        }
    }
    lines
}

/// Returns the table at the end of the demo.
pub(super) fn summary_table(story: &Story) -> String {
    let head = format!("  {:<12}{:<8}{:>5}   {}", "term", "leader", "turns", "ended");
    let mut lines = vec![String::new(), styled(DIM, &head)];
    for term in &story.terms {
        let reason = term.ended.as_ref().map_or("not yet", |(_, how)| how);
        let name = story.lanes[term.candidate].name;
        lines.push(format!("  {:<12}{name:<8}{:>5}   {reason}", term.term, term.turns));
    }
    lines.push(String::new());
    let fact = |name: &str, value: &str, comment: &str| {
        format!("  {name:<24}{value}  {comment}").trim_end().to_owned()
    };
    for (cause, after) in (0..story.terms.len()).filter_map(|term| story.takeover(term)) {
        let waited = "the failover window had to end";
        let (event, explanation) = match cause {
            Action::KillMachine => ("machine died", waited),
            Action::KillProcess => ("process died", "its supervisor released the lease"),
            Action::Stop => ("stopped", "it released the lease"),
            Action::Freeze => ("frozen", waited),
            Action::Partition => ("cut off", waited),
            _ => ("resigned", "it released the lease"),
        };
        let (name, value) = (format!("{event}, takeover"), format!("{:>7}", format_brief(after)));
        lines.push(fact(&name, &value, explanation));
    }
    let unsuccessful = match story.turns_started - story.turns_succeeded {
        0 => String::new(),
        number => format!("{number} did not succeed"),
    };
    lines.push(fact("turns run", &format!("{:>7}", story.turns_started), &unsuccessful));
    let (overlapping, source) = (story.sink.overlapping_turns(), "by the endpoint that they call");
    let value = styled(if overlapping == 0 { GOOD } else { BAD }, &format!("{overlapping:>7}"));
    lines.push(fact("overlapping turns", &value, source));
    lines.join("\n") + "\n"
}
