//! The lanes as cells: one row per candidate, one column per bit of time.

use super::ink::{Line, PLAIN};
use super::lane::State;
use super::story::Story;
use anstyle::{AnsiColor, Style};
use std::time::Duration;

const LEADS: Style = AnsiColor::Green.on_default().bold();
const TURN: Style = Style::new().bold();
const KILLED: Style = AnsiColor::Red.on_default().bold();
const PROMISE: Style = AnsiColor::Red.on_default();
const STOPPED: Style = AnsiColor::Yellow.on_default().bold();
pub(super) const DIM: Style = Style::new().dimmed();

/// A demo takes no longer, as a rule: so much should be seen at once.
const SEEN: Duration = Duration::from_secs(30);

/// The interval of turns. Cells are a part of it, so that turns are drawn at equal distances.
const EVERY: Duration = Duration::from_secs(2);

/// The signs, one column each.
pub(super) struct Signs {
    pub leads: char,
    pub turn: char,
    pub follows: char,
    pub promise: char,
    pub killed: char,
    pub stopped: char,
    pub cut: &'static str,
}

pub(super) const UNICODE: Signs = Signs {
    leads: '━',
    turn: '●',
    follows: '·',
    promise: '░',
    killed: '✗',
    stopped: '■',
    cut: "…",
};

pub(super) const ASCII: Signs = Signs {
    leads: '=',
    turn: 'o',
    follows: '.',
    promise: '~',
    killed: 'X',
    stopped: '#',
    cut: "..",
};

/// How time is mapped to columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    cell: Duration,
    /// The cell in the first column: more than 0 when the start has moved out of sight.
    first: usize,
    columns: usize,
}

impl Scale {
    /// As fine as can be while a whole demo is seen, and up to `now` in any case.
    pub(super) fn new(columns: usize, now: Duration) -> Self {
        let fits = |parts: &u32| EVERY / *parts * u32::try_from(columns).unwrap_or(0) >= SEEN;
        let cell = EVERY / (3..=8).rev().find(fits).unwrap_or(2);
        let reached = (now.as_nanos() / cell.as_nanos()) as usize + 1;
        Self { cell, first: reached.saturating_sub(columns), columns }
    }

    fn cells(self) -> impl Iterator<Item = (Duration, Duration)> {
        let start = move |column: usize| self.cell * (self.first + column) as u32;
        (0..self.columns).map(move |column| (start(column), start(column + 1)))
    }

    /// The column of an instant, when it is in sight.
    fn column(self, at: Duration) -> Option<usize> {
        let cell = (at.as_nanos() / self.cell.as_nanos()) as usize;
        cell.checked_sub(self.first).filter(|column| *column < self.columns)
    }
}

/// The row of one candidate.
pub(super) fn row(story: &Story, who: usize, scale: Scale, now: Duration, signs: &Signs) -> Line {
    let mut line = Line::default();
    for (from, to) in scale.cells().take_while(|(from, _)| *from <= now) {
        let (style, sign) = cell(story, who, from, to, signs);
        line.put(style, sign.encode_utf8(&mut [0; 4]));
    }
    line
}

fn cell(story: &Story, who: usize, from: Duration, to: Duration, signs: &Signs) -> (Style, char) {
    let Some(lane) = story.lanes.get(who) else { return (PLAIN, ' ') };
    for state in lane.changed(from, to) {
        match state {
            State::Killed | State::Lost => return (KILLED, signs.killed),
            State::Stopping => return (STOPPED, signs.stopped),
            _ => {}
        }
    }
    if story.turns.iter().any(|turn| turn.who == who && (from..to).contains(&turn.began)) {
        return (TURN, signs.turn);
    }
    match lane.state_before(to) {
        Some(State::Leads) => (LEADS, signs.leads),
        Some(State::Follows) => (DIM, signs.follows),
        Some(State::Killed) if keeps_out(story, who, from) => (PROMISE, signs.promise),
        _ => (PLAIN, ' '),
    }
}

/// Whether the promise of a candidate that was killed still kept the others out.
fn keeps_out(story: &Story, who: usize, at: Duration) -> bool {
    let so_far = story.leaderships.iter().rfind(|leadership| leadership.since <= at);
    let until = so_far.filter(|last| last.who == who);
    until.and_then(|last| last.waits_until(story.promise())).is_some_and(|until| at < until)
}

/// Marks each ten seconds.
pub(super) fn axis(scale: Scale) -> Line {
    let labels = (0u64..60).map(|tens| {
        let text = if tens == 0 { "0".to_owned() } else { format!("{} s", tens * 10) };
        (Duration::from_secs(tens * 10), text)
    });
    place(scale, labels.filter_map(|(at, text)| Some((scale.column(at)?, text))))
}

/// The terms below their beginnings: whole where there is room, else their last digits.
pub(super) fn terms(story: &Story, scale: Scale, signs: &Signs) -> Line {
    let starts: Vec<_> = story
        .leaderships
        .iter()
        .filter_map(|leadership| {
            Some((scale.column(leadership.since)?, leadership.term.to_string()))
        })
        .collect();
    let rooms = starts.iter().skip(1).map(|(next, _)| *next).chain([scale.columns]);
    let labels = starts.iter().zip(rooms).map(|((column, term), end)| {
        let room = end.saturating_sub(*column);
        let digits = term.get(term.len().saturating_sub(4)..).unwrap_or(term);
        let cut = format!("{}{digits}", signs.cut);
        let forms = [term.as_str(), &cut, digits];
        let text = forms.into_iter().find(|text| text.chars().count() < room).unwrap_or("");
        (*column, text.to_owned())
    });
    place(scale, labels)
}

fn place(scale: Scale, labels: impl Iterator<Item = (usize, String)>) -> Line {
    let mut text = String::new();
    for (column, label) in labels {
        let used = text.chars().count();
        let free = used == 0 || used < column;
        if free && column + label.chars().count() <= scale.columns {
            text.push_str(&" ".repeat(column - used));
            text.push_str(&label);
        }
    }
    Line::of(DIM, &text)
}

/// What the signs mean, as far as `columns` reach in each line.
pub(super) fn legend(columns: usize, signs: &Signs) -> Vec<Line> {
    let entries = [
        (LEADS, signs.leads, "leads"),
        (TURN, signs.turn, "turn"),
        (DIM, signs.follows, "follows"),
        (KILLED, signs.killed, "killed"),
        (PROMISE, signs.promise, "others wait"),
        (STOPPED, signs.stopped, "stopped"),
    ];
    let mut lines = vec![Line::default()];
    for (style, sign, text) in entries {
        let mut entry = Line::of(style, sign.encode_utf8(&mut [0; 4]));
        entry.put(DIM, &format!(" {text}"));
        match lines.last_mut() {
            Some(line) if line.width() == 0 => *line = entry,
            Some(line) if line.width() + 3 + entry.width() <= columns => {
                line.put(PLAIN, "   ");
                line.append(entry);
            }
            _ => lines.push(entry),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::script::{ms, started, story};
    use super::*;

    const ONE_SECOND: usize = 40;

    fn drawn(story: &Story, who: usize, now: u64) -> String {
        let scale = Scale::new(ONE_SECOND, ms(now));
        row(story, who, scale, ms(now), &UNICODE).render(false)
    }

    #[test]
    fn a_demo_fits_and_turns_are_at_equal_distances() {
        for columns in 40..=120 {
            let scale = Scale::new(columns, ms(0));
            assert!(scale.cell * columns as u32 >= SEEN, "{columns}");
            let parts = EVERY.as_nanos().div_ceil(scale.cell.as_nanos() + 1);
            assert!(EVERY.as_nanos() - scale.cell.as_nanos() * parts < 10, "{columns}");
        }
        assert_eq!(Scale::new(ONE_SECOND, ms(0)).cell, ms(1_000));
        assert_eq!(Scale::new(80, ms(0)).cell, ms(400));
    }

    #[test]
    fn what_is_older_than_fits_moves_out_of_sight() {
        assert_eq!(Scale::new(ONE_SECOND, ms(39_999)).first, 0);
        let scale = Scale::new(ONE_SECOND, ms(42_000));
        assert_eq!(scale.first, 3);
        assert_eq!(scale.column(ms(2_999)), None);
        assert_eq!(scale.column(ms(3_000)), Some(0));
        assert_eq!(scale.column(ms(42_000)), Some(39));
        assert!(axis(scale).render(false).starts_with("       10 s"));
    }

    #[test]
    fn a_crash() {
        let mut story = started();
        story.runs(2_000, 0, 1000);
        story.begins(4_000, 0, 1000);
        assert_eq!(drawn(&story, 0, 4_200), "━━●━●");
        story.kill(ms(5_300), 0);
        story.dies(5_310, 0);
        assert_eq!(drawn(&story, 0, 7_000), "━━●━●✗░░");
        assert_eq!(drawn(&story, 1, 7_000), "········");
        // Its promise is over, and nobody has looked yet.
        assert_eq!(drawn(&story, 0, 8_000), "━━●━●✗░░");
        story.elects(8_000, 1, 1008);
        assert_eq!(drawn(&story, 1, 9_000), "········━━");
        story.start(ms(8_100), 0);
        story.follows(9_000, 0, "ben");
        assert_eq!(drawn(&story, 0, 10_000), "━━●━●✗░░ ··");
        let scale = Scale::new(ONE_SECOND, ms(10_000));
        assert_eq!(terms(&story, scale, &UNICODE).render(false), "1000    1008");
        // For a process whose supervisor lives nobody waits.
        story.kill_process(ms(10_500), 1);
        assert_eq!(drawn(&story, 1, 13_000), "········━━✗");
    }

    #[test]
    fn a_stop_and_an_end_that_nobody_asked_for() {
        let mut story = started();
        story.stop(ms(2_000), 0);
        story.dies(3_000, 0);
        assert_eq!(drawn(&story, 0, 4_000), "━━■");
        story.dies(3_000, 1);
        assert_eq!(drawn(&story, 1, 4_000), "···✗");
    }

    #[test]
    fn a_term_is_shortened_where_the_next_one_begins_soon() {
        let mut story = story();
        story.elects(2_000, 1, 1_795_160_569);
        story.elects(9_000, 2, 1_795_160_577);
        let line = terms(&story, Scale::new(ONE_SECOND, ms(9_000)), &UNICODE);
        assert_eq!(line.render(false), "  …0569  1795160577");
        story.elects(14_000, 1, 1_795_160_582);
        let line = terms(&story, Scale::new(ONE_SECOND, ms(14_000)), &UNICODE);
        assert_eq!(line.render(false), "  …0569  0577 1795160582");
    }

    #[test]
    fn a_legend_in_as_many_lines_as_it_needs() {
        assert_eq!(legend(100, &ASCII).len(), 1);
        let narrow = legend(30, &ASCII);
        assert!(narrow.iter().all(|line| line.width() <= 30));
        assert_eq!(narrow[0].render(false), "= leads   o turn   . follows");
    }
}
