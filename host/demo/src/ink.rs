//! Lines of styled text, and their width.

use anstyle::Style;
use std::fmt::Write as _;

pub(super) const PLAIN: Style = Style::new();

/// One line. Each character counts as one column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line(Vec<(Style, String)>);

impl Line {
    pub(super) fn of(style: Style, text: &str) -> Self {
        Self::default().with(style, text)
    }

    pub(super) fn with(mut self, style: Style, text: &str) -> Self {
        self.put(style, text);
        self
    }

    pub(super) fn put(&mut self, style: Style, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some((last, run)) if *last == style => run.push_str(text),
            _ => self.0.push((style, text.to_owned())),
        }
    }

    pub(super) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(super) fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// How many columns of it are written.
    pub(super) fn written(&self) -> usize {
        self.render(false).chars().count()
    }

    /// As it is written, without spaces that nobody sees.
    pub(super) fn render(&self, colour: bool) -> String {
        let mut text = String::new();
        let last = self.0.iter().rposition(|(_, run)| !run.trim_end().is_empty());
        for (number, (style, run)) in self.0.iter().enumerate().take(last.map_or(0, |n| n + 1)) {
            let run = if Some(number) == last { run.trim_end() } else { run };
            let _ = match colour && *style != PLAIN {
                true => write!(text, "{style}{run}{style:#}"),
                false => write!(text, "{run}"),
            };
        }
        text
    }
}

/// Breaks `text` into lines of at most `width` columns, between words where that is possible.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines: Vec<String> = Vec::new();
    let mut free = 0;
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        if !lines.is_empty() && word.len() < free {
            if let Some(line) = lines.last_mut() {
                line.push(' ');
                line.extend(&word);
            }
            free -= word.len() + 1;
            continue;
        }
        loop {
            let rest = word.split_off(word.len().min(width));
            free = width - word.len();
            lines.push(word.into_iter().collect());
            if rest.is_empty() {
                break;
            }
            word = rest;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("one two three", 6), ["one", "two", "three"]);
        assert_eq!(wrap("abcdefgh i", 3), ["abc", "def", "gh", "i"]);
        assert!(wrap("  ", 3).is_empty());
    }

    #[test]
    fn colour_changes_no_text() {
        let red = anstyle::AnsiColor::Red.on_default();
        let line = Line::of(PLAIN, "a ").with(red, "b ").with(PLAIN, "  ");
        assert_eq!(line.render(false), "a b");
        assert_eq!(line.render(true), "a \u{1b}[31mb\u{1b}[0m");
        assert_eq!(line.width(), 6);
    }
}
