//! `tenure supervise`: a process of the runner's own. Not for people.

use super::args::SuperviseArguments;
use super::output::{CommandResult, fail};
use std::process::ExitCode;
use std::time::Duration;
use tenure::program::command::{Program, supervise as supervise_program};
use tokio::runtime::Builder;

pub(super) fn supervise(arguments: SuperviseArguments) -> CommandResult {
    let stop_time = Duration::from_millis(arguments.stop_time_ms);
    let mut command = arguments.command.into_iter();
    let file = command.next().ok_or_else(|| fail("no command is given"))?;
    let name = arguments.name;
    let program = Program { file: file.into(), name, arguments: command.collect() };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| fail(format_args!("the supervisor could not be started: {error}")))?;
    let ended = runtime.block_on(supervise_program(&program, stop_time, arguments.attached));
    ended.map_err(|error| fail(format_args!("the connection to the runner failed: {error}")))?;
    Ok(ExitCode::SUCCESS)
}
