//! The lanes in a terminal: a row for each candidate, a column for each half second.

use anstyle::{AnsiColor, Style};
use std::time::Duration;
use tenure_server::page::view::{Kind, Lane, View};

pub(super) const PLAIN: Style = Style::new();
pub(super) const BOLD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(super) const WARM: Style = AnsiColor::Yellow.on_default();
const PROMISE: Style = AnsiColor::Red.on_default();

/// The columns that a picture needs.
pub(super) const WIDTH: usize = 72;

/// Columns before the lanes, and of the lanes. The last column of a terminal stays free.
const GUTTER: usize = 18;
const COLUMNS: usize = WIDTH - GUTTER - 1;

/// Time span of a column. It divides the two seconds between turns, so turns are drawn at equal
/// distances.
const CELL: Duration = Duration::from_millis(500);

const LEGEND: &str = "  ━ leads   ● turn   · follows   ✗ killed   ░ others wait   ■ stopped";

/// Maximum number of problems, and of rows for each.
const ROWS: usize = 2;

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

pub(super) fn styled(style: Style, text: &str) -> String {
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
    let problems = view.problems.iter().take(ROWS);
    let problems = problems.flat_map(|note| wrap(&note.text, WIDTH - 5).into_iter().take(ROWS));
    lines.extend(problems.map(|text| styled(WARM, &format!("  ! {text}"))).take(room));
    lines
}

/// Returns the part that remains on the screen at the end.
pub(super) fn render_final(view: &View, now: Duration) -> Vec<String> {
    let mut lines = vec![String::new()];
    for lane in &view.lanes {
        let style = match lane.state {
            "leads" => GOOD,
            "killed" | "lost" => PROMISE,
            "stopping" | "stopped" => WARM,
            _ => PLAIN,
        };
        let name = format!("  {:<5}  {:<9.9}", lane.name, lane.state);
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
    let column = |age_ms| column(now, instant(now, age_ms));
    for span in &lane.spans {
        let cell = match span.kind {
            Kind::Leads => (GOOD, '━'),
            Kind::LeaseRuns => (PROMISE, '░'),
            Kind::Follows => (DIM, '·'),
            Kind::Gone | Kind::Frozen | Kind::CutOff => continue,
        };
        let from = column(span.from_ms).unwrap_or(0);
        // The column of the end shows the next state.
        let to = span.to_ms.map_or_else(|| column(0).map(|now| now + 1), column).unwrap_or(0);
        cells.get_mut(from..to).unwrap_or_default().fill(cell);
    }
    let turns = lane.turns.iter().map(|turn| (turn.age_ms, (BOLD, '●')));
    let ends = lane.spans.iter().filter(|span| span.kind == Kind::Gone).map(|span| {
        let is_stopped = span.to_ms.is_none() && lane.state.starts_with("stop");
        (span.from_ms, if is_stopped { (WARM, '■') } else { (BAD, '✗') })
    });
    for (age_ms, symbol) in turns.chain(ends) {
        if let Some(column) = column(age_ms) {
            cells[column] = symbol;
        }
    }
    cells.into_iter().map(|(style, symbol)| styled(style, &symbol.to_string())).collect()
}

/// Writes texts below their instants: whole if they fit, else their last digits, or nothing.
fn place_marks(now: Duration, mut marks: Vec<(Duration, String)>) -> String {
    marks.sort();
    let mut line = String::new();
    // From the right, because each text has room until the next one.
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
