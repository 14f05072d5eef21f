//! Standard output and standard error of commands, and the exit codes of failed commands.

use crate::complaint::{Complaint, report};
use crate::output::log::json_text;
use crate::output::terminal::{columns, wrap_lines};
use serde_json::json;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code: wrong usage, or the command failed.
pub(crate) const UNUSABLE: u8 = 2;

/// Exit code: the system lacked threads, memory or descriptors to start the program. A later
/// attempt may succeed. The number is that of `EX_OSERR` in sysexits.h.
const OS_ERROR: u8 = 71;

/// The exit code of a command. An error means that its message was already printed.
pub(crate) type CommandResult = Result<ExitCode, ExitCode>;

static WRITE_FAILED: AtomicBool = AtomicBool::new(false);

/// Returns the exit code of the program, whose command returned `command_code`.
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
