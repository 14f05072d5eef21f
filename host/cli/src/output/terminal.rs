//! Width and colours of terminals.

use std::fmt::Write as _;

/// Returns true unless `NO_COLOR` is set (<https://no-color.org>) or the terminal has no colours.
pub(crate) fn wants_colour() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Returns the width of the terminal, or none if the output is not a terminal.
#[cfg(unix)]
pub(crate) fn columns(out: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(out).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[cfg(not(unix))]
pub(crate) fn columns<T>(_: T) -> Option<usize> {
    None
}

/// Minimum width for wrapping. On narrower terminals, the terminal breaks the lines.
const MIN_WIDTH: usize = 30;

/// Wraps a text at words. The text starts at column `indent`, and all further lines are indented by
/// it.
pub(crate) fn wrap_words(text: &str, indent: usize, width: Option<usize>) -> String {
    let Some(width) = width.filter(|width| *width >= indent + MIN_WIDTH) else {
        return text.to_owned();
    };
    let mut lines = String::new();
    let mut column = indent;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > indent && column + 1 + length > width {
            let _ = write!(lines, "\n{:indent$}", "");
            column = indent;
        } else if column > indent {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += length;
    }
    lines
}

/// Formats the rows of a table. Each column is as wide as its longest cell.
pub(crate) fn align_columns<const N: usize>(rows: impl IntoIterator<Item = [String; N]>) -> String {
    let rows: Vec<_> = rows.into_iter().collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// Wraps several lines, and keeps the indentation of each.
pub(crate) fn wrap_lines(text: &str, width: Option<usize>) -> String {
    let line = |line: &str| {
        let indent = line.len() - line.trim_start_matches(' ').len();
        format!("{}{}", &line[..indent], wrap_words(&line[indent..], indent, width))
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let rows = [["a", "bb", "c"], ["äää", "b", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(align_columns(rows), "a    bb  c\näää  b\n");
    }

    #[test]
    fn lines_break_at_words_and_go_on_where_they_began() {
        let words = "ten chars ".repeat(4);
        let text = format!("first\n  {}\n", words.trim());
        let expected = "first\n  ten chars ten chars ten chars\n  ten chars\n";
        assert_eq!(wrap_lines(&text, Some(32)), expected);
        // There is too little room, or no terminal.
        for width in [Some(31), None] {
            assert_eq!(wrap_lines(&text, width), text);
        }
        assert_eq!(wrap_words("one  two", 0, Some(80)), "one  two");
    }
}
