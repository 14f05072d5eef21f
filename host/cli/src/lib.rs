//! The program `tenure`: its command line, its logs and its exit codes.

#![deny(missing_docs)]
// Windows supports neither command handlers nor `tenure lock`, so some code is unused there.
#![cfg_attr(not(unix), allow(dead_code, unused_imports))]

mod args;
mod check;
mod complaint;
mod compose;
mod configuration;
#[cfg(unix)]
mod lock;
mod manual;
mod orders;
mod output;
mod repair;
mod run;
mod sandbox;
mod service_manager;
mod settings;
mod signals;
mod status;
#[cfg_attr(not(unix), path = "supervisor/none.rs")]
mod supervisor;

use args::{Arguments, Command};
use clap::FromArgMatches as _;
use output::{CommandResult, exit_code, fail_with_os_error};
use settings::CommandLine;
use settings::table::TABLE;
use std::process::ExitCode;
use supervisor::ProcessRole;
use tokio::runtime::Builder;

/// Runs the program with the arguments and the environment of this process.
pub fn main() -> ExitCode {
    exit_code(run_command())
}

fn run_command() -> ExitCode {
    // If this process supervises a command, this call does not return. It comes first, because the
    // rest of the program would take the arguments of such a process for its own.
    #[cfg(unix)]
    tenure::supervisor_main();
    let mut argv: Vec<_> = std::env::args_os().collect();
    // Sets the name in process lists. Without this, a program that was started by a file descriptor
    // has the name `exe`.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"tenure");
    let supervised = match ProcessRole::detect(&mut argv) {
        ProcessRole::Supervisor(code) => return code,
        ProcessRole::Runner(supervised) => supervised,
        // Such a process runs no election, so it does not use `supervised`.
        ProcessRole::Other => Err(String::new()),
    };
    // The parent process may have left files and sockets open. Commands of this program must not
    // inherit them.
    #[cfg(unix)]
    close_fds::set_fds_cloexec(3, &[]);
    let is_lock = argv.get(1).is_some_and(|command| command == "lock");
    let matches = match args::program(TABLE).try_get_matches_from(&argv) {
        Ok(matches) => matches,
        Err(error) => return usage_error(args::with_advice(error, &argv), is_lock),
    };
    let command =
        Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()).command;
    let line =
        matches.subcommand().map(|(name, options)| CommandLine::from_matches(TABLE, name, options));
    let line = &line.unwrap_or_default();
    match command {
        Command::Run => on_runtime(2, fail_with_os_error, run::run(line, supervised)),
        Command::Observe => on_runtime(2, fail_with_os_error, run::observe(line)),
        #[cfg(unix)]
        Command::Lock => on_runtime(2, lock::report_failure, lock::lock(line, supervised)),
        Command::Check => on_runtime(2, fail_with_os_error, check::check(line)),
        Command::Status => on_runtime(1, fail_with_os_error, status::status(line)),
        Command::Reshare => on_runtime(1, fail_with_os_error, repair::reshare(line)),
        Command::ResetSlot => on_runtime(1, fail_with_os_error, repair::reset_slot(line)),
        Command::Transfer => on_runtime(1, fail_with_os_error, orders::transfer(line)),
        Command::Trigger => on_runtime(1, fail_with_os_error, orders::trigger(line)),
        Command::Break => on_runtime(1, fail_with_os_error, repair::break_lease(line)),
        Command::Store(arguments) => on_runtime(2, fail_with_os_error, sandbox::store(&arguments)),
        Command::Completions(arguments) => manual::completions(&arguments),
        Command::Man(arguments) => manual::man(&arguments),
        Command::Compose(arguments) => compose::compose(&arguments),
        #[cfg(feature = "demo")]
        Command::Demo(arguments) => on_runtime(2, fail_with_os_error, sandbox::demo(&arguments)),
    }
    .unwrap_or_else(|code| code)
}

/// Reports a wrong command line, or prints the requested help.
fn usage_error(error: clap::Error, is_lock: bool) -> ExitCode {
    #[cfg(unix)]
    if is_lock && error.use_stderr() {
        let _ = error.print();
        return ExitCode::from(supervisor::lock_codes::FAILED);
    }
    #[cfg(not(unix))]
    let _ = is_lock;
    error.exit()
}

/// Runs a command on `workers` threads. Calls `on_failure` if the runtime cannot be started.
fn on_runtime(
    workers: usize,
    on_failure: fn(String) -> ExitCode,
    command: impl Future<Output = CommandResult>,
) -> CommandResult {
    let runtime = Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    let runtime = runtime
        .map_err(|error| on_failure(format!("the program could not be started: {error}")))?;
    let result = runtime.block_on(command);
    // A name resolution in progress must not delay the exit.
    runtime.shutdown_background();
    result
}

#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    //! Functions for fuzzing the parsers of the program. They panic if a property does not hold.

    use crate::settings::complaints_in;
    #[cfg(unix)]
    use tenure_supervisor::round_trips;

    /// Parses a settings file, and checks that each complaint names its place.
    pub fn settings_file(data: &[u8]) {
        let Ok(text) = str::from_utf8(data) else { return };
        for complaint in complaints_in(text) {
            assert!(complaint.source.starts_with("t.toml:"), "{complaint}");
            let message = complaint.to_string();
            assert!(!message.contains(|c: char| c.is_control() && c != '\n'), "{message:?}");
        }
    }

    /// Parses messages between the runner and its supervisors, and the stream of a leader. Checks
    /// that a parsed line stays the same when it is written and parsed again.
    pub fn messages(data: &[u8]) {
        let _ = tenure_server::watch::accepts_stream(data);
        #[cfg(unix)]
        for line in String::from_utf8_lossy(data).lines() {
            for written in round_trips(line) {
                let again = round_trips(written.trim_end());
                assert!(again.contains(&written), "{line:?}: {written:?} is {again:?}");
            }
        }
    }
}
