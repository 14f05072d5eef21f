//! The lanes in a terminal: a row for each candidate, a column for each bit of time.

use anstyle::{AnsiColor, Style};
use std::time::Duration;
use tenure::program::server::view::{Kind, Lane, View};

pub(super) const PLAIN: Style = Style::new();
pub(super) const BOLD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(super) const WARM: Style = AnsiColor::Yellow.on_default();
const PROMISE: Style = AnsiColor::Red.on_default();

/// The least columns of a picture, and the most that are used: a demo takes no longer, as a rule.
const NARROWEST: usize = 72;
const WIDEST: usize = 80;

/// Columns before the lanes.
const GUTTER: usize = 18;

/// The time of a column. Turns, which are due each two seconds, are drawn at equal distances.
const CELL: Duration = Duration::from_millis(500);

/// The most problems that are shown, and rows of each.
const ROWS: usize = 2;

/// Columns and rows of a terminal.
pub(super) type Size = (usize, usize);

/// Time by columns.
#[derive(Clone, Copy)]
struct Scale {
    now: Duration,
    columns: usize,
}

impl Scale {
    /// The instant that is so old now.
    fn instant(self, age_ms: u64) -> Duration {
        self.now.saturating_sub(Duration::from_millis(age_ms))
    }

    /// The column of an instant, if it is in sight.
    fn column(self, at: Duration) -> Option<usize> {
        let cell = |at: Duration| (at.as_millis() / CELL.as_millis()) as usize;
        let first = (cell(self.now) + 1).saturating_sub(self.columns);
        cell(at).checked_sub(first).filter(|column| *column < self.columns)
    }
}

/// A text in a style.
pub(super) fn styled(style: Style, text: &str) -> String {
    match style == PLAIN || text.trim().is_empty() {
        true => text.to_owned(),
        false => format!("{style}{text}{style:#}"),
    }
}

/// The whole picture. None: there is too little room for it.
pub(super) fn moving(view: &View, now: Duration, size: Size) -> Option<Vec<String>> {
    let mut lines = still(view, now, size)?;
    let width = size.0.min(WIDEST) - 1;
    let legend = [
        (GOOD, "━", "leads"),
        (BOLD, "●", "turn"),
        (DIM, "·", "follows"),
        (BAD, "✗", "killed"),
        (PROMISE, "░", "others wait"),
        (WARM, "■", "stopped"),
    ];
    let legend =
        legend.map(|(style, sign, word)| format!("{} {}", styled(style, sign), styled(DIM, word)));
    lines.extend([String::new(), format!("  {}", legend.join("   ")), String::new()]);
    let mut sentence = view.changes.first().map(|note| note.text.clone()).unwrap_or_default();
    if let Some(vacancy) = view.vacancy {
        let left = Duration::from_millis(vacancy.left_ms);
        sentence.push_str(&format!(" It lasts {:.1} s more.", left.as_secs_f64()));
    }
    let clock = format!("{:>4} s  ", now.as_secs());
    let mut wrapped = wrap(&sentence, width - clock.len()).into_iter();
    // Always as many rows, so that the picture keeps still.
    for start in [&clock, &" ".repeat(clock.len())] {
        let text = wrapped.next().unwrap_or_default();
        lines.push(format!("{}{}", styled(DIM, start), styled(BOLD, &text)));
    }
    let room = size.1.checked_sub(lines.len() + 1)?;
    let problems = view.problems.iter().take(ROWS);
    let problems = problems.flat_map(|note| wrap(&note.text, width - 4).into_iter().take(ROWS));
    lines.extend(problems.map(|text| styled(WARM, &format!("  ! {text}"))).take(room));
    Some(lines)
}

/// The part of it that remains on the screen in the end.
pub(super) fn still(view: &View, now: Duration, (width, _): Size) -> Option<Vec<String>> {
    let width = Some(width).filter(|width| *width >= NARROWEST)?.min(WIDEST) - 1;
    let scale = Scale { now, columns: width - GUTTER };
    let mut lines = vec![String::new()];
    for lane in &view.lanes {
        let style = match lane.state {
            "leads" => GOOD,
            "killed" | "lost" => PROMISE,
            "stopping" | "stopped" => WARM,
            _ => PLAIN,
        };
        let name = format!("  {:<5}  {:<9.9}", lane.name, lane.state);
        lines.push(format!("{}{}", styled(style, &name), row(lane, scale)));
    }
    for (name, marks) in [("", axis(scale)), ("  term", terms(view, scale))] {
        lines.push(styled(DIM, format!("{name:<GUTTER$}{marks}").trim_end()));
    }
    Some(lines)
}

fn row(lane: &Lane, scale: Scale) -> String {
    let mut cells = vec![(PLAIN, ' '); scale.columns];
    let column = |age_ms| scale.column(scale.instant(age_ms));
    for span in &lane.spans {
        let cell = match span.kind {
            Kind::Leads => (GOOD, '━'),
            Kind::LeaseRuns => (PROMISE, '░'),
            Kind::Follows => (DIM, '·'),
            Kind::Gone | Kind::Frozen | Kind::CutOff => continue,
        };
        let from = column(span.from_ms).unwrap_or(0);
        // The column in which it ends shows what comes next.
        let to = span.to_ms.map_or_else(|| column(0).map(|now| now + 1), column).unwrap_or(0);
        cells.get_mut(from..to).unwrap_or_default().fill(cell);
    }
    let turns = lane.turns.iter().map(|turn| (turn.age_ms, (BOLD, '●')));
    let ends = lane.spans.iter().filter(|span| span.kind == Kind::Gone).map(|span| {
        let is_stopped = span.to_ms.is_none() && lane.state.starts_with("stop");
        (span.from_ms, if is_stopped { (WARM, '■') } else { (BAD, '✗') })
    });
    for (age_ms, sign) in turns.chain(ends) {
        if let Some(column) = column(age_ms) {
            cells[column] = sign;
        }
    }
    cells.into_iter().map(|(style, sign)| styled(style, &sign.to_string())).collect()
}

/// A mark each ten seconds.
fn axis(scale: Scale) -> String {
    let tens = (0..60).map(|tens| 10 * tens);
    let label = |seconds| if seconds == 0 { "0".to_owned() } else { format!("{seconds} s") };
    let marks = tens.map(|seconds| (Duration::from_secs(seconds), label(seconds)));
    place(scale, marks.collect())
}

/// The terms below their beginnings.
fn terms(view: &View, scale: Scale) -> String {
    let spans = view.lanes.iter().flat_map(|lane| &lane.spans);
    let terms =
        spans.filter_map(|span| Some((scale.instant(span.from_ms), span.term?.to_string())));
    place(scale, terms.collect())
}

/// Writes texts below their instants: whole where there is room, else their last digits, or nothing.
fn place(scale: Scale, mut marks: Vec<(Duration, String)>) -> String {
    marks.sort();
    let marks = marks.iter().filter_map(|(at, text)| Some((scale.column(*at)?, text)));
    // From the right, as each text has room until the next one.
    let (line, used) =
        marks.rev().fold((String::new(), scale.columns), |(line, end), (column, text)| {
            let last = text.get(text.len().saturating_sub(4)..).unwrap_or(text);
            let texts = [text.clone(), format!("…{last}")];
            let room = end - column;
            let text =
                texts.into_iter().find(|text| text.chars().count() < room).unwrap_or_default();
            (format!("{text:<room$}{line}"), column)
        });
    format!("{:used$}{line}", "")
}

/// Breaks a text between words into lines of at most `width` columns. Longer words are cut.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let word: String = word.chars().take(width).collect();
        let length = |text: &str| text.chars().count();
        match lines.last_mut().filter(|line| length(line) + 1 + length(&word) <= width) {
            Some(line) => *line = format!("{line} {word}"),
            None => lines.push(word),
        }
    }
    lines
}
