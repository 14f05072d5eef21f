//! The work of `tenure run`: a component, or any program.

use super::args::RunArguments;
use super::complaint::{Complaint, shown};
use super::configuration::Configuration;
use super::log::Log;
use crate::clock::BootClock;
use crate::component::Engine;
use crate::handler::{ComponentHandler, Handler, LineSink, MEMORY_LIMIT, Options};
use crate::runner::Event;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const ADVICE: &str = "name a component that exports tenure:election/leader-handler, or give a \
                      program and its arguments after --";

/// A handler, and what follows from its kind.
pub(super) struct Work {
    pub handler: Box<dyn Handler>,
    /// How long a running turn may go on when the candidate leaves, unless that is set.
    pub grace: Option<Duration>,
}

/// The handler that the arguments name; none when there is something to complain about.
pub(super) fn of_run(
    engine: &Engine,
    clock: &BootClock,
    arguments: &RunArguments,
    configuration: &mut Configuration,
    log: &Log,
) -> Option<Work> {
    let log = log.clone();
    let output: LineSink =
        Arc::new(move |stream, line| log.event(&Event::Handler { line, stream }));
    match (&arguments.handler, arguments.command.is_empty()) {
        (Some(file), true) => component(engine, clock, arguments, file, configuration, output),
        (None, false) => command(clock, arguments, configuration, output),
        (Some(_), false) => {
            // What else is wrong is told all the same.
            judge_both(arguments, configuration);
            configuration.complaints.push(Complaint::new(
                "--handler",
                "both a component and a command are given, and a leader has one work only",
                "leave out one of them",
            ));
            None
        }
        (None, true) => {
            judge_both(arguments, configuration);
            configuration.complaints.push(Complaint::new(
                "--handler",
                "no handler is given, so a leader would have nothing to do",
                ADVICE,
            ));
            None
        }
    }
}

fn judge_both(arguments: &RunArguments, configuration: &mut Configuration) {
    configuration.handler_env(&arguments.env);
    let _ = of_component(arguments, configuration);
    configuration.stop_time(arguments.stop_time.as_deref());
}

/// What only a component is given.
fn of_component(arguments: &RunArguments, configuration: &mut Configuration) -> Options {
    let allow = configuration.allow_list(&arguments.allow_host);
    let term_header = configuration.term_header(arguments.term_header.as_deref());
    let memory_limit = configuration.memory_limit(arguments.memory_limit.as_deref());
    let memory_limit = memory_limit.unwrap_or(MEMORY_LIMIT);
    Options { allow, term_header, memory_limit, ..Options::default() }
}

fn component(
    engine: &Engine,
    clock: &BootClock,
    arguments: &RunArguments,
    file: &Path,
    configuration: &mut Configuration,
    output: LineSink,
) -> Option<Work> {
    let options = of_component(arguments, configuration);
    let env = configuration.handler_env(&arguments.env);
    if arguments.stop_time.is_some() {
        configuration.complaints.push(Complaint::new(
            "--stop-time",
            "this is for a command; a component is stopped at once when its time is over",
            "leave it out, or give a command after -- instead of --handler",
        ));
    }
    let options = Options { env, output: Some(output), ..options };
    match ComponentHandler::from_file(engine, file, options, clock) {
        Ok(handler) => Some(Work { handler: Box::new(handler), grace: None }),
        Err(error) => {
            configuration.complaints.push(Complaint::new(
                format!("--handler {}", shown(&file.to_string_lossy())),
                format!("the file {error}"),
                ADVICE,
            ));
            None
        }
    }
}

#[cfg(unix)]
fn command(
    clock: &BootClock,
    arguments: &RunArguments,
    configuration: &mut Configuration,
    output: LineSink,
) -> Option<Work> {
    use crate::handler::command::{CommandHandler, STOP_TIME, Settings};
    let for_components = [
        ("--allow-host", !arguments.allow_host.is_empty()),
        ("--term-header", arguments.term_header.is_some()),
        ("--memory-limit", arguments.memory_limit.is_some()),
    ];
    for (flag, _) in for_components.into_iter().filter(|(_, given)| *given) {
        configuration.complaints.push(Complaint::new(
            flag,
            "this is for a component; a command reaches, sends and takes whatever this user may",
            "leave it out, or give a component with --handler instead of the command",
        ));
    }
    let env = configuration.handler_env(&arguments.env);
    let stop_time = configuration.stop_time(arguments.stop_time.as_deref()).unwrap_or(STOP_TIME);
    let settings = Settings { env, stop_time, output };
    match CommandHandler::new(&arguments.command, settings, clock) {
        // It is told to end at once then, and has the time for it that it always has.
        Ok(handler) => Some(Work { handler: Box::new(handler), grace: Some(stop_time) }),
        Err(error) => {
            // The arguments may hold a secret.
            let name = arguments.command.first().map(|name| name.to_string_lossy());
            configuration.complaints.push(Complaint::new(
                format!("-- {}", shown(&name.unwrap_or_default())),
                error.to_string(),
                "give a program by its path, or by a name that is on the PATH",
            ));
            None
        }
    }
}

#[cfg(not(unix))]
fn command(
    _: &BootClock,
    _: &RunArguments,
    configuration: &mut Configuration,
    _: LineSink,
) -> Option<Work> {
    configuration.complaints.push(Complaint::new(
        "-- …",
        "on this system a command and all that it starts cannot be stopped for sure",
        "give a component with --handler, or run this on Linux or macOS",
    ));
    None
}
