//! Output: standard streams and the exit codes of failed commands, text for terminals, the version,
//! the log, and telemetry.

#[cfg(feature = "otel")]
mod collector;
pub(crate) mod event_lines;
pub(crate) mod log;
#[cfg(feature = "otel")]
pub(crate) mod telemetry;
pub(crate) mod times;

use crate::complaint::{Complaint, report};
use log::json_text;
use serde_json::json;
use std::fmt::{Display, Write as _};
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// The version number of the program, followed by the commit and its date.
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("TENURE_BUILD"));

/// Exit code: wrong usage, or the command failed.
pub(crate) const UNUSABLE: u8 = 2;

/// Exit code: the system lacked threads, memory or descriptors to start the program. A later
/// attempt may succeed. The number is that of `EX_OSERR` in sysexits.h.
const OS_ERROR: u8 = 71;

/// Minimum width for wrapping. On narrower terminals, the terminal breaks the lines.
const MIN_WIDTH: usize = 30;

/// The exit code of a command. An `Err` is the code of a failure whose message was already printed.
pub(crate) type CommandResult = Result<ExitCode, ExitCode>;

/// True after standard output could not be written.
static WRITE_FAILED: AtomicBool = AtomicBool::new(false);

/// Returns the exit code of the program: `command_code`, or [`UNUSABLE`] if standard output could
/// not be written.
pub(crate) fn exit_code(command_code: ExitCode) -> ExitCode {
    match WRITE_FAILED.load(Ordering::Relaxed) {
        true => ExitCode::from(UNUSABLE),
        false => command_code,
    }
}

/// Writes to standard output. A closed pipe is no failure. Other errors are reported, and change
/// the exit code.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        report_write_error(&error);
    }
}

/// Like [`print()`], but wraps lines at words on a terminal.
pub(crate) fn print_wrapped(text: &str) {
    print(&wrap_lines(text, columns(io::stdout())));
}

/// Reports once that standard output cannot be written.
pub(crate) fn report_write_error(error: &io::Error) {
    let is_broken_pipe = error.kind() == io::ErrorKind::BrokenPipe;
    if !is_broken_pipe && !WRITE_FAILED.swap(true, Ordering::Relaxed) {
        fail(format_args!("standard output cannot be written: {error}"));
    }
}

/// Writes to standard error, and wraps lines at words on a terminal. Ignores errors.
pub(crate) fn eprint(text: impl Display) {
    let mut out = io::stderr();
    let _ = write!(out, "{}", wrap_lines(&text.to_string(), columns(&out)));
}

/// Prints the problem, and returns the exit code for a failure.
pub(crate) fn fail(problem: impl Display) -> ExitCode {
    fail_with(UNUSABLE, problem)
}

/// Prints the problem to standard error, and returns this exit code.
pub(crate) fn fail_with(code: u8, problem: impl Display) -> ExitCode {
    eprint(format_args!("tenure: {problem}\n"));
    ExitCode::from(code)
}

/// Prints why the system does not let the program start, and returns the exit code for that.
pub(crate) fn fail_with_os_error(problem: impl Display) -> ExitCode {
    let _ = fail(problem);
    ExitCode::from(OS_ERROR)
}

/// Prints the complaints about the settings, and returns the exit code for them.
pub(crate) fn fail_with_complaints(complaints: &[Complaint]) -> ExitCode {
    eprint(report(complaints));
    ExitCode::from(UNUSABLE)
}

/// Like [`fail_with_complaints`], for a command with JSON output.
pub(crate) fn complain(complaints: &[Complaint], json: bool) -> ExitCode {
    if json {
        print(&json_text(&json!({ "complaints": complaints })));
    }
    fail_with_complaints(complaints)
}

/// Returns true unless `NO_COLOR` is set (<https://no-color.org>) or the terminal has no colours.
pub(crate) fn wants_colour() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Returns the width of the terminal in columns, or none if the output is not a terminal.
#[cfg(unix)]
pub(crate) fn columns(out: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(out).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[cfg(not(unix))]
pub(crate) fn columns<T>(_: T) -> Option<usize> {
    None
}

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

/// Formats ascending numbers as ranges, like `0–7, 12`.
pub(crate) fn ranges(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers.iter().copied() {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let texts = ranges.into_iter().map(|range| match range {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}–{last}"),
    });
    texts.collect::<Vec<_>>().join(", ")
}

#[cfg(not(feature = "otel"))]
pub(crate) mod telemetry {
    //! Replacement for a build without OpenTelemetry: it sends nothing, and reports that if
    //! variables enable it.

    use super::log::{Log, LogContext};
    use std::time::Duration;
    use tenure::handler::Handler;
    use tenure::{Event, ProblemKind};
    use tenure_clock::BootClock;
    use tenure_core::Report;
    use tenure_server::Roster;

    // Without the braces, clippy rejects `Telemetry::default()`, which the other variant needs.
    #[derive(Default)]
    pub(crate) struct Telemetry {}

    #[derive(Clone)]
    pub(crate) struct CandidateTelemetry {}

    impl Telemetry {
        pub(crate) fn start(_: &Roster, _: usize, _: &BootClock, log: &Log) -> Self {
            if std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT")
                .is_some_and(|endpoint| !endpoint.is_empty())
            {
                log.event(&Event::Problem {
                    class: ProblemKind::Telemetry,
                    detail: "traces and metrics are not sent: this program was built without the feature `otel`"
                        .to_owned(),
                });
            }
            Self {}
        }

        pub(crate) fn for_candidate(&self, _: &LogContext) -> CandidateTelemetry {
            CandidateTelemetry {}
        }

        #[allow(clippy::unused_async, reason = "the variant with OpenTelemetry waits")]
        pub(crate) async fn shut_down(&self, _: Duration) {}
    }

    impl CandidateTelemetry {
        pub(crate) fn on_report(&self, _: &Report) {}

        pub(crate) fn on_event(&self, _: &Event) {}

        pub(crate) fn wrap(&self, handler: Box<dyn Handler>) -> Box<dyn Handler> {
            handler
        }
    }
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
