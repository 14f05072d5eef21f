//! The work of `tenure run`: a component, a webhook, or any program.

use super::args::RunArguments;
use super::complaint::{Complaint, shown};
use super::configuration::Configuration;
use super::log::Log;
use super::webhook;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tenure::clock::BootClock;
use tenure::component::Engine;
use tenure::handler::{ComponentHandler, Handler, LineSink, MEMORY_LIMIT, Options};
use tenure::program::webhook::WebhookHandler;
use tenure::runner::Event;

const ADVICE: &str = "name a component that exports tenure:election/leader-handler, or give a \
                      URL with --webhook, or a program and its arguments after --";

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
    let asked = webhook::asked_by(arguments);
    let command_given = !arguments.command.is_empty();
    match (&arguments.handler, asked, command_given) {
        (Some(file), None, false) => {
            component(engine, clock, arguments, file, configuration, output)
        }
        (None, Some(asked_by), false) => post(arguments, asked_by, configuration),
        (None, None, true) => command(clock, arguments, configuration, output),
        (None, None, false) => {
            judge_all(arguments, configuration);
            configuration.complaints.push(Complaint::new(
                "--handler",
                "no handler is given, so a leader would have nothing to do",
                ADVICE,
            ));
            None
        }
        (file, asked_by, _) => {
            // What else is wrong is told all the same.
            judge_all(arguments, configuration);
            let kinds = [
                file.as_ref().map(|_| ("--handler", "a component")),
                asked_by.map(|asked_by| (asked_by, "a webhook")),
                command_given.then_some(("-- COMMAND", "a command")),
            ];
            let (sources, kinds): (Vec<_>, Vec<_>) = kinds.into_iter().flatten().unzip();
            let kinds = kinds.join(" and ");
            configuration.complaints.push(Complaint::new(
                sources.join(", "),
                format!("{kinds} are given, and a leader has one work only"),
                "leave out all but one of them",
            ));
            None
        }
    }
}

fn judge_all(arguments: &RunArguments, configuration: &mut Configuration) {
    configuration.handler_env(&arguments.env);
    let _ = of_component(arguments, configuration);
    configuration.stop_time(arguments.stop_time.as_deref());
    match webhook::asked_by(arguments) {
        Some(_) => {
            let wrong = webhook::settings(arguments).err().unwrap_or_default();
            configuration.complaints.extend(wrong);
        }
        None => refuse_of_webhook(arguments, configuration),
    }
}

/// Complains about each flag that is given, although it is not for this kind of work.
fn refuse(configuration: &mut Configuration, flags: &[(&str, bool)], problem: &str, advice: &str) {
    for (flag, _) in flags.iter().filter(|(_, given)| *given) {
        configuration.complaints.push(Complaint::new(*flag, problem, advice));
    }
}

/// Each turn is one POST.
fn post(
    arguments: &RunArguments,
    asked_by: &str,
    configuration: &mut Configuration,
) -> Option<Work> {
    refuse(
        configuration,
        &[
            ("--allow-host", !arguments.allow_host.is_empty()),
            ("--env", !arguments.env.is_empty()),
            ("--memory-limit", arguments.memory_limit.is_some()),
            ("--stop-time", arguments.stop_time.is_some()),
        ],
        "this is for a component or a command; a webhook is one request, and its work is elsewhere",
        "leave it out, or give the work with --handler or after --",
    );
    if configuration.while_leading() {
        configuration.complaints.push(Complaint::new(
            "--while-leading",
            "a call of a webhook is no work that lasts as long as the leadership",
            "give a timer like --every 1m, or a program after -- instead of the webhook",
        ));
    }
    let (target, authorities) = match webhook::settings(arguments) {
        Ok(settings) => settings,
        Err(complaints) => {
            configuration.complaints.extend(complaints);
            return None;
        }
    };
    match WebhookHandler::new(target, authorities) {
        Ok(handler) => Some(Work { handler: Box::new(handler), grace: None }),
        Err(_) => {
            configuration.complaints.push(Complaint::new(
                asked_by,
                "names a host that is neither a name nor an address",
                "write it like https://example.com/tick",
            ));
            None
        }
    }
}

/// What only a component is given.
fn of_component(arguments: &RunArguments, configuration: &mut Configuration) -> Options {
    let allow = configuration.allow_list(&arguments.allow_host);
    let term_header = configuration.term_header(arguments.term_header.as_deref());
    let memory_limit = configuration.memory_limit(arguments.memory_limit.as_deref());
    let memory_limit = memory_limit.unwrap_or(MEMORY_LIMIT);
    Options { allow, term_header, memory_limit, ..Options::default() }
}

/// What only a webhook is given.
fn refuse_of_webhook(arguments: &RunArguments, configuration: &mut Configuration) {
    refuse(
        configuration,
        &[("--webhook-timeout", arguments.webhook_timeout.is_some())],
        "this is for a webhook",
        "leave it out, or use --turn-timeout",
    );
    refuse(
        configuration,
        &[("--webhook-ca-file", arguments.webhook_ca_file.is_some())],
        "this is for a webhook",
        "leave it out, or give a URL with --webhook",
    );
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
    refuse(
        configuration,
        &[("--stop-time", arguments.stop_time.is_some())],
        "this is for a command; a component is stopped at once when its time is over",
        "leave it out, or give a command after -- instead of --handler",
    );
    refuse_of_webhook(arguments, configuration);
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
    use tenure::program::command::{CommandHandler, STOP_TIME, Settings};
    refuse(
        configuration,
        &[
            ("--allow-host", !arguments.allow_host.is_empty()),
            ("--term-header", arguments.term_header.is_some()),
            ("--memory-limit", arguments.memory_limit.is_some()),
        ],
        "this is for a component; a command reaches, sends and takes whatever this user may",
        "leave it out, or give a component with --handler instead of the command",
    );
    refuse_of_webhook(arguments, configuration);
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
