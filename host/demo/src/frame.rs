//! The live view: all that is on the screen at an instant.

use super::ink::{Line, PLAIN, wrap};
use super::lane::State;
use super::note::Kind;
use super::picture::{DIM, Scale, Signs, axis, legend, row, terms};
use super::story::Story;
use anstyle::{AnsiColor, Style};
use std::time::Duration;

const BOLD: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default();
const WARM: Style = AnsiColor::Yellow.on_default();

/// Narrower ones get plain text.
const NARROWEST: usize = 56;

/// From here on there is room for the state as a word.
const WIDE: usize = 80;

/// A wider picture is no better one.
const WIDEST: usize = 120;

/// Problems that are shown at a time.
const PROBLEMS: usize = 2;

/// Columns and rows of a terminal.
pub(super) type Size = (usize, usize);

/// The live view, or nothing when there is too little room for it.
pub(super) fn moving(story: &Story, now: Duration, size: Size, signs: &Signs) -> Option<Vec<Line>> {
    let (width, height) = (usable(size)?, size.1);
    let mut lines = lanes(story, now, width, signs);
    lines.push(Line::default());
    lines.extend(legend(width - 2, signs).into_iter().map(indented));
    lines.push(Line::default());
    lines.extend(sentence(story, now, width));
    let room = height.checked_sub(lines.len() + 1)?;
    lines.extend(problems(story, width).take(room));
    Some(lines)
}

/// What of it remains on the screen in the end.
pub(super) fn still(story: &Story, now: Duration, size: Size, signs: &Signs) -> Option<Vec<Line>> {
    Some(lanes(story, now, usable(size)?, signs))
}

/// The columns that can be used, if they are enough. The last one stays free: some terminals
/// begin a new line when it is written.
fn usable((width, _): Size) -> Option<usize> {
    (width >= NARROWEST).then_some(width.min(WIDEST) - 1)
}

fn lanes(story: &Story, now: Duration, width: usize, signs: &Signs) -> Vec<Line> {
    let gutter = if width + 1 >= WIDE { 18 } else { 9 };
    let scale = Scale::new(width - gutter, now);
    let mut lines = vec![Line::default()];
    for (who, lane) in story.lanes.iter().enumerate() {
        let (style, word) = look(lane.state());
        let word = if width + 1 >= WIDE { word } else { "" };
        let text = format!("  {:<5}  {word}", lane.name);
        let mut line = Line::of(style, &format!("{text:<gutter$}"));
        line.append(row(story, who, scale, now, signs));
        lines.push(line);
    }
    for (name, marks) in [("", axis(scale)), ("  term", terms(story, scale, signs))] {
        let mut line = Line::of(DIM, &format!("{name:<gutter$}"));
        line.append(marks);
        lines.push(line);
    }
    lines
}

fn look(state: Option<State>) -> (Style, &'static str) {
    let style = match state {
        Some(State::Leads) => GOOD,
        Some(State::Killed | State::Lost) => BAD,
        Some(State::Stopping | State::Gone) => WARM,
        _ => PLAIN,
    };
    (style, state.map_or("", State::word))
}

fn indented(line: Line) -> Line {
    let mut indented = Line::of(PLAIN, "  ");
    indented.append(line);
    indented
}

/// What happens now, and why. Always as many lines, so that the picture keeps still.
fn sentence(story: &Story, now: Duration, width: usize) -> Vec<Line> {
    let last = story.notes.iter().rfind(|note| note.kind == Kind::Headline);
    let mut text = last.map(|note| note.text.clone()).unwrap_or_default();
    match story.promise_left(now) {
        Some(Duration::ZERO) => text.push_str(" It is over: whoever polls next leads."),
        Some(left) => text.push_str(&format!(" It lasts {:.1} s more.", left.as_secs_f64())),
        None => {}
    }
    let clock = format!("{:>4} s  ", now.as_secs());
    let room = width - clock.len();
    let mut wrapped = wrap(&text, room).into_iter();
    let lines = if width + 1 >= WIDE { 2 } else { 3 };
    (0..lines)
        .map(|number| {
            let start = if number == 0 { clock.clone() } else { " ".repeat(clock.len()) };
            Line::of(DIM, &start).with(BOLD, &wrapped.next().unwrap_or_default())
        })
        .collect()
}

/// The last problems: the newest first, since there may be no room for more.
fn problems(story: &Story, width: usize) -> impl Iterator<Item = Line> {
    let newest = story.notes.iter().rev().filter(|note| note.kind == Kind::Problem).take(PROBLEMS);
    newest.flat_map(move |note| {
        let text = format!("{} s: {}", note.at.as_secs(), note.text);
        let lines = wrap(&text, width - 4).into_iter().take(2);
        lines.map(|text| Line::of(WARM, "  ! ").with(WARM, &text)).collect::<Vec<_>>()
    })
}

#[cfg(test)]
mod tests {
    use super::super::heard::What;
    use super::super::picture::{ASCII, UNICODE};
    use super::super::script::{ms, started};
    use super::*;

    fn text(lines: &[Line]) -> Vec<String> {
        lines.iter().map(|line| line.render(false)).collect()
    }

    #[test]
    fn what_a_newcomer_sees() {
        let mut story = started();
        story.runs(2_000, 0, 1000);
        story.begins(4_000, 0, 1000);
        story.kill(ms(5_000), 0);
        let lines = moving(&story, ms(6_000), (80, 24), &UNICODE).unwrap();
        assert_eq!(
            text(&lines),
            [
                "",
                "  anna   killed   ━━━━●━━━●━✗░░",
                "  ben    follows  ·············",
                "  cleo   follows  ·············",
                "                  0                   10 s                20 s",
                "  term            1000",
                "",
                "  ━ leads   ● turn   · follows   ✗ killed   ░ others wait   ■ stopped",
                "",
                "   6 s  The machine of anna dies in the middle of a turn (SIGKILL to all of",
                "        it). The others wait until its promise is over. It lasts 1.1 s more.",
            ]
        );
        let still = still(&story, ms(6_000), (80, 24), &UNICODE).unwrap();
        assert_eq!(text(&still), text(&lines[..6]));
    }

    #[test]
    fn no_line_is_longer_than_the_terminal_and_the_picture_keeps_its_height() {
        let mut story = started();
        for width in NARROWEST..200 {
            let mut heights = Vec::new();
            for now in (0..60_000).step_by(7_000) {
                let lines = moving(&story, ms(now), (width, 40), &ASCII).unwrap();
                assert!(lines.iter().all(|line| line.width() < width), "{width} {now}");
                heights.push(lines.len());
            }
            assert!(heights.iter().all(|height| *height == heights[0]), "{width}");
        }
        story.tells(9_000, 1, What::Words("word ".repeat(99)));
        let lines = moving(&story, ms(9_000), (60, 40), &ASCII).unwrap();
        assert!(lines.iter().all(|line| line.width() < 60));
    }

    #[test]
    fn a_terminal_that_is_too_small_gets_no_picture() {
        let story = started();
        assert!(moving(&story, ms(0), (55, 40), &UNICODE).is_none());
        assert!(moving(&story, ms(0), (80, 11), &UNICODE).is_none());
        assert!(moving(&story, ms(0), (80, 12), &UNICODE).is_some());
    }

    #[test]
    fn problems_are_shown_as_far_as_there_is_room() {
        let mut story = started();
        story.dies(1_000, 1);
        story.dies(2_000, 2);
        let last = |height| {
            let lines = moving(&story, ms(3_000), (80, height), &UNICODE).unwrap();
            text(&lines[11..])
        };
        let (ben, cleo) = (
            "  ! 1 s: ben has ended, though nobody asked it to: exit status: 1.",
            "  ! 2 s: cleo has ended, though nobody asked it to: exit status: 1.",
        );
        assert_eq!(last(24), [cleo, ben]);
        assert_eq!(last(13), [cleo]);
        assert!(last(12).is_empty());
    }
}
