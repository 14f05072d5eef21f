//! The lanes in a terminal: a row for each candidate, a column for each bit of time.

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

/// The least columns of a picture, and the most that are used.
const NARROWEST: usize = 72;
const WIDEST: usize = 120;

/// Columns before the lanes.
const GUTTER: usize = 18;

/// A demo takes no longer, as a rule: so much is in sight.
const SIGHT: Duration = Duration::from_secs(30);

/// The interval of turns. Cells are a part of it, so that turns are drawn at equal distances.
const EVERY: Duration = Duration::from_secs(2);

/// The most rows of the sentence, and of the problems.
const ROWS: usize = 2;

/// Columns and rows of a terminal.
pub(super) type Size = (usize, usize);

/// Time by columns.
#[derive(Clone, Copy)]
struct Scale {
    now: Duration,
    cell: Duration,
    /// The first cell in sight.
    first: usize,
    columns: usize,
}

impl Scale {
    fn new(columns: usize, now: Duration) -> Self {
        let fits = |parts: &u32| EVERY / *parts * u32::try_from(columns).unwrap_or(0) >= SIGHT;
        let cell = EVERY / (3..=8).rev().find(fits).unwrap_or(2);
        let reached = (now.as_nanos() / cell.as_nanos()) as usize + 1;
        Self { now, cell, first: reached.saturating_sub(columns), columns }
    }

    /// The column of an instant, if it is in sight.
    fn column(self, at: Duration) -> Option<usize> {
        let cell = (at.as_nanos() / self.cell.as_nanos()) as usize;
        cell.checked_sub(self.first).filter(|column| *column < self.columns)
    }

    /// The instant that is so old now.
    fn instant(self, age_ms: u64) -> Duration {
        self.now.saturating_sub(Duration::from_millis(age_ms))
    }

    fn cells(self) -> impl Iterator<Item = (Duration, Duration)> {
        let start = move |column: usize| self.cell * (self.first + column) as u32;
        let cells = (0..self.columns).map(move |column| (start(column), start(column + 1)));
        cells.take_while(move |(from, _)| *from <= self.now)
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
    for row in 0..ROWS {
        let start = if row == 0 { clock.clone() } else { " ".repeat(clock.len()) };
        let text = wrapped.next().unwrap_or_default();
        lines.push(format!("{}{}", styled(DIM, &start), styled(BOLD, &text)));
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
    let scale = Scale::new(width - GUTTER, now);
    let mut lines = vec![String::new()];
    for lane in &view.lanes {
        let style = match lane.state {
            "leads" => GOOD,
            "killed" | "lost" => PROMISE,
            "stopping" | "stopped" => WARM,
            _ => PLAIN,
        };
        let name =
            format!("  {:<5}  {:<9}", lane.name, lane.state.chars().take(9).collect::<String>());
        lines.push(format!("{}{}", styled(style, &name), row(lane, scale)));
    }
    for (name, marks) in [("", axis(scale)), ("  term", terms(view, scale))] {
        lines.push(styled(DIM, format!("{name:<GUTTER$}{marks}").trim_end()));
    }
    Some(lines)
}

fn row(lane: &Lane, scale: Scale) -> String {
    let mut row = String::new();
    let mut run = (PLAIN, String::new());
    for (from, to) in scale.cells() {
        let (style, sign) = sign(lane, scale, from, to);
        if style != run.0 {
            let (style, text) = std::mem::replace(&mut run, (style, String::new()));
            row.push_str(&styled(style, &text));
        }
        run.1.push(sign);
    }
    row + &styled(run.0, &run.1)
}

fn sign(lane: &Lane, scale: Scale, from: Duration, to: Duration) -> (Style, char) {
    let is_in = |at: Duration| (from..to).contains(&at);
    let spans = || lane.spans.iter();
    if let Some(gone) =
        spans().find(|span| span.kind == Kind::Gone && is_in(scale.instant(span.from_ms)))
    {
        let is_stopped = gone.to_ms.is_none() && lane.state == "stopped";
        return if is_stopped { (WARM, '■') } else { (BAD, '✗') };
    }
    if lane.turns.iter().any(|turn| is_in(scale.instant(turn.age_ms))) {
        return (BOLD, '●');
    }
    let covers = |kind: Kind, at: Duration| {
        let is_it = |span: &&tenure_server::page::view::Span| {
            let end = span.to_ms.map_or(scale.now, |age| scale.instant(age));
            span.kind == kind && scale.instant(span.from_ms) <= at && at < end
        };
        spans().any(|span| is_it(&span))
    };
    let at = from.max(to.saturating_sub(Duration::from_millis(1))).min(scale.now);
    let newest = at.saturating_sub(Duration::from_millis(1));
    [(Kind::Leads, GOOD, '━'), (Kind::LeaseRuns, PROMISE, '░'), (Kind::Follows, DIM, '·')]
        .into_iter()
        .find(|(kind, ..)| covers(*kind, newest))
        .map_or((PLAIN, ' '), |(_, style, sign)| (style, sign))
}

/// A mark each ten seconds.
fn axis(scale: Scale) -> String {
    let labels = (0u64..60).filter_map(|tens| {
        let column = scale.column(Duration::from_secs(10 * tens))?;
        Some((column, if tens == 0 { "0".to_owned() } else { format!("{} s", 10 * tens) }))
    });
    place(scale.columns, labels)
}

/// The terms below their beginnings: whole where there is room, else their last digits.
fn terms(view: &View, scale: Scale) -> String {
    let spans = view.lanes.iter().flat_map(|lane| &lane.spans);
    let mut starts: Vec<_> = spans
        .filter_map(|span| {
            Some((scale.column(scale.instant(span.from_ms))?, span.term?.to_string()))
        })
        .collect();
    starts.sort();
    let ends: Vec<_> =
        starts.iter().skip(1).map(|(next, _)| *next).chain([scale.columns]).collect();
    let labels = starts.iter().zip(ends).map(|((column, term), end)| {
        let last = term.get(term.len().saturating_sub(4)..).unwrap_or(term);
        let text = [term.clone(), format!("…{last}"), last.to_owned()];
        let text = text.into_iter().find(|text| text.chars().count() < end - column);
        (*column, text.unwrap_or_default())
    });
    place(scale.columns, labels)
}

/// Texts at their columns. Those without room are left out.
fn place(columns: usize, labels: impl Iterator<Item = (usize, String)>) -> String {
    let (mut text, mut used) = (String::new(), 0);
    for (column, label) in labels {
        let length = label.chars().count();
        if (used == 0 || used < column) && column + length <= columns {
            text.push_str(&" ".repeat(column - used));
            text.push_str(&label);
            used = column + length;
        }
    }
    text
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
