//! What commands write to standard output and standard error, and the exit code of those that cannot do what they
//! were asked for.

use super::complaint::{Complaint, report};
use super::log::json_text;
use super::terminal::{columns, wrap_lines};
use serde_json::json;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// The program was used wrongly, or could not do what it was asked for.
pub(super) const UNUSABLE: u8 = 2;

/// The system did not give the program what it begins with: threads, memory, descriptors. It may later. The number is
/// that of `EX_OSERR` in sysexits.h.
const OS_ERROR: u8 = 71;

/// The exit code of a command, also of one that failed and said why.
pub(super) type CommandResult = Result<ExitCode, ExitCode>;

/// Something that should be on standard output could not be written.
static WRITE_FAILED: AtomicBool = AtomicBool::new(false);

/// The exit code of the program, whose command ended with this one.
pub(super) fn exit_code(command_code: ExitCode) -> ExitCode {
    match WRITE_FAILED.load(Ordering::Relaxed) {
        true => ExitCode::from(UNUSABLE),
        false => command_code,
    }
}

/// Writes to standard output. Nobody reading it is no reason to fail; anything else is told, and is
/// the exit code.
pub(super) fn print(text: &str) {
    let mut out = io::stdout();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        report_write_error(&error);
    }
}

/// The same for sentences: on a terminal, lines end at a word.
pub(super) fn print_wrapped(text: &str) {
    print(&wrap_lines(text, columns(io::stdout())));
}

/// Tells once that standard output cannot be written.
pub(super) fn report_write_error(error: &io::Error) {
    let is_broken_pipe = error.kind() == io::ErrorKind::BrokenPipe;
    if !is_broken_pipe && !WRITE_FAILED.swap(true, Ordering::Relaxed) {
        fail(format_args!("standard output cannot be written: {error}"));
    }
}

/// Writes to standard error; on a terminal, lines end at a word. Nobody reading it is no reason to
/// fail.
pub(super) fn eprint(text: impl Display) {
    let mut out = io::stderr();
    let _ = write!(out, "{}", wrap_lines(&text.to_string(), columns(&out)));
}

/// Says why, and ends with the exit code for it.
pub(super) fn fail(problem: impl Display) -> ExitCode {
    fail_with(UNUSABLE, problem)
}

/// Writes why to standard error, and returns this exit code.
pub(super) fn fail_with(code: u8, problem: impl Display) -> ExitCode {
    eprint(format_args!("tenure: {problem}\n"));
    ExitCode::from(code)
}

/// Says why the system does not let the program begin, and ends with the exit code for it.
pub(super) fn fail_with_os_error(problem: impl Display) -> ExitCode {
    let _ = fail(problem);
    ExitCode::from(OS_ERROR)
}

/// Says what is wrong with the settings, and ends with the exit code for it.
pub(super) fn fail_with_complaints(complaints: &[Complaint]) -> ExitCode {
    eprint(report(complaints));
    ExitCode::from(UNUSABLE)
}

/// The same, of a command whose output may be for programs.
pub(super) fn complain(complaints: &[Complaint], json: bool) -> ExitCode {
    if json {
        print(&json_text(&json!({ "complaints": complaints })));
    }
    fail_with_complaints(complaints)
}
