//! The work of `tenure run`: a component, a webhook, or any program.

use super::engine;
use crate::complaint::redacted_address;
use crate::configuration::Configuration;
use crate::output::log::Log;
use crate::settings::table::{
    ALLOW_HOST, COMMAND, EVERY, HANDLER, MEMORY_LIMIT, NO_WORK, TURN_TIMEOUT, WEBHOOK,
    WEBHOOK_CA_FILE, WEBHOOK_TIMEOUT, WHILE_LEADING,
};
use crate::settings::{Setting, Work as Kind};
use serde::Serialize;
use std::env;
use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tenure::Event;
use tenure::engine::Variables;
use tenure::handler::{Handler, LineSink, WebhookHandler, from_fn};
use tenure_clock::BootClock;
use tenure_core::Retries;
use tenure_server::{Application, Board};
use tenure_wasmtime::{ComponentHandler, Engine, MEMORY_LIMIT as USUAL_MEMORY, Options};
use tenure_webhook::Target;

const ADVICE: &str = "put a command and its arguments after --, or give a URL with --webhook, or a component that \
                      exports tenure:election/leader-handler with --handler; for an application that asks who leads, \
                      and does the work itself, add --no-work";

/// A handler, and settings that follow from its kind.
pub(crate) struct Work {
    pub handler: Box<dyn Handler>,
    /// Default grace period of a running turn when the candidate leaves.
    pub grace: Option<Duration>,
    pub description: WorkDescription,
}

/// Description of the configured work. Contains no secrets. Serialized as `work` in `tenure check
/// --json`.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum WorkDescription {
    Component {
        file: PathBuf,
        /// The interfaces that the component imports.
        imports: Vec<String>,
        /// The allowed hosts, as they were given.
        #[serde(rename = "may_reach")]
        hosts: Vec<String>,
        variables: Vec<String>,
    },
    /// The webhook at this origin: scheme, host and port.
    Webhook { origin: String },
    Command {
        file: PathBuf,
        /// The number of arguments. Their values may be secrets, so they are left out.
        arguments: usize,
        /// Arguments that only a shell understands.
        #[serde(skip)]
        shell_operators: Vec<String>,
    },
    /// The work of an application, which polls the listener.
    Application,
    /// No work: this process observes, or only tests the account.
    Nothing,
}

/// The note about an application that polls.
const APPLICATION_NOTE: &str = "Tenure cannot stop the application that asks /leader: it must stop itself when the time \
                               that it was given is over, and pass the term on to whatever it writes to. If this \
                               process dies while it leads, the other candidates wait until its lease expires, \
                               since the application may go on";

/// Arguments that a shell interprets and that programs hardly ever take.
const SHELL_OPERATORS: [&str; 9] = ["|", "||", "&&", "&", ">", ">>", "<", "2>&1", "2>"];

impl WorkDescription {
    /// Returns the notes to log at the start.
    pub(crate) fn notes(&self) -> Vec<String> {
        let note = match self {
            Self::Component { hosts, .. } if self.sends_requests() && hosts.is_empty() => {
                "the handler can send requests (it imports wasi:http), but each will be refused: allow its targets \
                 with --allow-host HOST"
                    .to_owned()
            }
            Self::Command { shell_operators: operators, .. } if !operators.is_empty() => format!(
                "{} reaches the command unchanged, since no shell reads this; for a shell line, write -- /bin/sh -c \
                 'LINE'",
                operators.join(", ")
            ),
            Self::Application => APPLICATION_NOTE.to_owned(),
            _ => return Vec::new(),
        };
        vec![note]
    }

    /// Returns true if this is a component that can send requests.
    pub(crate) fn sends_requests(&self) -> bool {
        let http = |name: &String| name.starts_with("wasi:http/outgoing-handler");
        matches!(self, Self::Component { imports, .. } if imports.iter().any(http))
    }
}

impl fmt::Display for WorkDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Component { file, .. } => write!(f, "component {}", file.display()),
            Self::Webhook { origin } => write!(f, "webhook at {origin}"),
            Self::Command { file, .. } => write!(f, "command {}", file.display()),
            Self::Application => f.write_str("an application that asks"),
            Self::Nothing => f.write_str("none"),
        }
    }
}

/// Creates the handler from the settings, or none if there are complaints.
pub(crate) async fn from_configuration(
    engine: &Engine,
    clock: &BootClock,
    configuration: &mut Configuration,
    log: &Log,
    board: &Arc<Board>,
) -> Option<Work> {
    if configuration.observes() {
        let handler = Box::new(from_fn(async |_, _| Ok(())));
        return Some(Work {
            handler,
            grace: Some(Duration::ZERO),
            description: WorkDescription::Nothing,
        });
    }
    let output_log = log.clone();
    let output: LineSink =
        Arc::new(move |stream, line| output_log.event(&Event::Handler { line, stream }));
    let kinds = [
        (&HANDLER, Kind::Component),
        (&WEBHOOK, Kind::Webhook),
        (&COMMAND, Kind::Command),
        (&NO_WORK, Kind::Application),
    ];
    let configured: Vec<_> =
        kinds.into_iter().filter(|(setting, _)| configuration.resolved.is_on(setting)).collect();
    match configured.as_slice() {
        [(_, kind)] => {
            complain_about_others(configuration, *kind);
            match kind {
                Kind::Component => component(engine, clock, configuration, output, log).await,
                Kind::Webhook => webhook(clock, configuration, output),
                Kind::Command => command(configuration, output),
                Kind::Application => Some(application(clock, configuration, board)),
            }
        }
        [] if !configuration.needs_work => {
            let handler = Box::new(from_fn(async |_, _| Ok(())));
            Some(Work { handler, grace: None, description: WorkDescription::Nothing })
        }
        [] => {
            check_all(configuration);
            let problem = "no handler is given, so a leader would have no work";
            configuration.complain(&HANDLER, problem, ADVICE);
            None
        }
        several => {
            // Other mistakes in the settings are reported too.
            check_all(configuration);
            let kinds: Vec<_> = several.iter().map(|(_, kind)| kind_name(*kind)).collect();
            let problem = format!("{} are given, but a leader runs only one", kinds.join(" and "));
            let sources = several.iter().filter_map(|(setting, kind)| match kind {
                Kind::Command if configuration.resolved.is_from_option(setting) => {
                    Some("-- COMMAND".to_owned())
                }
                _ => Some(configuration.resolved.get(setting)?.describe_without_value()),
            });
            let sources = sources.collect::<Vec<_>>().join(", ");
            configuration.complain_at(sources, &problem, "leave out all but one of them");
            None
        }
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Component => "a component",
        Kind::Webhook => "a webhook",
        Kind::Command => "a command",
        Kind::Application => "an application that asks (--no-work)",
    }
}

/// Creates a handler that only waits. The grace period is the longest time for which an application
/// may act: the validity of a lease without beats, because beats may turn out to be impossible.
fn application(clock: &BootClock, configuration: &Configuration, board: &Arc<Board>) -> Work {
    let grace = configuration.settings.options.timings().map(|timings| timings.lease_validity());
    let handler = Box::new(Application::new(board.clone(), clock.clone()));
    Work { handler, grace, description: WorkDescription::Application }
}

/// Checks the settings of all kinds of work, if no kind is given or several are.
fn check_all(configuration: &mut Configuration) {
    configuration.handler_env();
    let _ = component_options(configuration);
    #[cfg(unix)]
    configuration.stop_time();
    match configuration.resolved.is_on(&WEBHOOK) {
        true => {
            if let Err(complaints) = Target::read(&webhook_variables(configuration)) {
                configuration.add_complaints(complaints);
            }
        }
        false => {
            let table = configuration.resolved.table.iter().copied();
            let webhook = table.filter(|setting| setting.works == [Kind::Webhook]);
            complain_about_settings(configuration, Kind::Component, &webhook.collect::<Vec<_>>());
        }
    }
}

/// Complains about settings that are not for this kind of work.
fn complain_about_others(configuration: &mut Configuration, kind: Kind) {
    let others = configuration.resolved.table.iter().copied();
    let others = others.filter(|s| !s.works.is_empty() && !s.works.contains(&kind));
    complain_about_settings(configuration, kind, &others.collect::<Vec<_>>());
}

fn complain_about_settings(
    configuration: &mut Configuration,
    kind: Kind,
    settings: &[&'static Setting],
) {
    let why = match kind {
        Kind::Component => "a component is stopped at once when its time is over",
        Kind::Webhook => "a webhook is one request, and its work is elsewhere",
        Kind::Command => "a command may do whatever this user may",
        Kind::Application => "an application that asks is not part of this process",
    };
    for setting in settings {
        // An environment variable may be meant for other processes, so it is no mistake here.
        if !configuration.resolved.is_written(setting) {
            continue;
        }
        let works = setting.works;
        let intended = works.iter().map(|work| kind_name(*work)).collect::<Vec<_>>().join(" or ");
        let problem = match works {
            [Kind::Webhook] => format!("this is for {intended}"),
            _ => format!("this is for {intended}; {why}"),
        };
        let alternatives = works.iter().map(|work| match work {
            Kind::Component => format!("a component with {}", configuration.display_name(&HANDLER)),
            Kind::Webhook => format!("a URL with {}", configuration.display_name(&WEBHOOK)),
            Kind::Command => format!("a command ({})", configuration.display_name(&COMMAND)),
            Kind::Application => configuration.display_name(&NO_WORK),
        });
        let advice = match setting.is(&WEBHOOK_TIMEOUT) {
            true => format!("leave it out, or use {}", configuration.display_name(&TURN_TIMEOUT)),
            false => {
                format!("leave it out, or give {}", alternatives.collect::<Vec<_>>().join(", or "))
            }
        };
        configuration.complain_of_use(setting, &problem, &advice);
    }
}

/// Creates the webhook handler, which sends one POST for each turn.
fn webhook(clock: &BootClock, configuration: &mut Configuration, output: LineSink) -> Option<Work> {
    if configuration.while_leading() {
        let [every, command] =
            [&EVERY, &COMMAND].map(|setting| configuration.display_name(setting));
        configuration.complain_of_use(
            &WHILE_LEADING,
            "a webhook is one call for each turn, and does not last as long as the leadership",
            &format!(
                "give a timer like {every} 1m, or a command ({command}) instead of the webhook"
            ),
        );
    }
    let authorities = configuration.authorities_of(&WEBHOOK_CA_FILE);
    let unusable = authorities.is_none() && configuration.resolved.text(&WEBHOOK_CA_FILE).is_some();
    let authorities = authorities.unwrap_or_default();
    let allows_retries = configuration.settings.options.retries == Some(Retries::UntilSuccess);
    let variables = webhook_variables(configuration);
    let handler = WebhookHandler::new(variables, authorities, allows_retries, Some(output), clock);
    let handler = handler.map_err(|complaints| configuration.add_complaints(complaints)).ok();
    let handler = handler.filter(|_| !unusable)?;
    let description = WorkDescription::Webhook { origin: handler.origin().to_owned() };
    Some(Work { handler: Box::new(handler), grace: None, description })
}

/// Returns the URL and the other variables of the webhook, by the same rules as in `tenure.wasm`.
fn webhook_variables(configuration: &Configuration) -> Variables {
    let mut variables = Variables::new();
    let resolved = &configuration.resolved;
    for setting in resolved.table.iter().filter(|setting| is_webhook_setting(setting)) {
        let Some(value) = resolved.get(setting).filter(|value| !value.is_blank()) else { continue };
        match value.items.is_empty() {
            // A value without items is the content of the file, in a variable of its own.
            true => variables.set(setting.content, env::var(setting.content).unwrap_or_default()),
            false => variables.set(setting.variable, value.text()),
        };
    }
    variables
}

/// Returns true if `tenure-webhook` reads the setting.
fn is_webhook_setting(setting: &Setting) -> bool {
    setting.is(&WEBHOOK)
        || (setting.works.contains(&Kind::Webhook) && !setting.is(&WEBHOOK_CA_FILE))
}

/// Returns the options that only a component has.
fn component_options(configuration: &mut Configuration) -> Options {
    let allow = configuration.allow_list();
    let memory_limit = configuration.size(&MEMORY_LIMIT);
    let memory_limit = memory_limit.and_then(|bytes| usize::try_from(bytes).ok());
    let memory_limit = memory_limit.unwrap_or(USUAL_MEMORY);
    Options { allow, memory_limit, ..Options::default() }
}

async fn component(
    engine: &Engine,
    clock: &BootClock,
    configuration: &mut Configuration,
    output: LineSink,
    log: &Log,
) -> Option<Work> {
    let options = component_options(configuration);
    let env = configuration.handler_env();
    let variables = env.iter().map(|(name, _)| name.clone()).collect();
    let options = Options { env, output: Some(output), ..options };
    let hosts =
        configuration.resolved.items(&ALLOW_HOST).map(|(_, item)| item.text.to_string_lossy());
    let hosts = hosts.map(|host| redacted_address(&host)).collect();
    let file = configuration.resolved.get(&HANDLER).filter(|value| !value.is_blank())?.path();
    // Earlier complaints are shown at once, without waiting for a compilation. A file that cannot
    // be opened adds a complaint.
    let is_valid = configuration.compiles && configuration.complaints.is_empty();
    if !is_valid && File::open(&file).is_ok() {
        return None;
    }
    let name = file.display().to_string();
    let (engine, clock, path) = (engine.clone(), clock.clone(), file.clone());
    let load = move || ComponentHandler::from_file(&engine, &path, options, &clock);
    match engine::load(log, &name, load).await {
        Ok(handler) => {
            let imports = handler.imports().to_vec();
            let description = WorkDescription::Component { file, imports, hosts, variables };
            Some(Work { handler: Box::new(handler), grace: None, description })
        }
        Err(error) => {
            configuration.complain(&HANDLER, &format!("the file {error}"), ADVICE);
            None
        }
    }
}

/// Returns the problem and the advice if a whole command line stands in place of a program.
#[cfg(unix)]
fn shell_line_problem(program: &str) -> Option<(String, &'static str)> {
    let is_line = program.trim().contains(char::is_whitespace);
    is_line.then(|| {
        (
            "there is no program of this name: a whole command line is in one word".to_owned(),
            "write the program and its arguments as separate words, as in -- backup --all; for a shell line, write \
             -- /bin/sh -c 'LINE', in a file command = [\"/bin/sh\", \"-c\", \"LINE\"]",
        )
    })
}

#[cfg(unix)]
fn command(configuration: &mut Configuration, output: LineSink) -> Option<Work> {
    use tenure::handler::{CommandHandler, CommandSettings};
    use tenure_supervisor::STOP_TIME;
    let env = configuration.handler_env();
    let stop_time = configuration.stop_time().unwrap_or(STOP_TIME);
    let attached = configuration.attached.clone();
    let supervisor = configuration.supervisor.clone();
    let settings = CommandSettings { env, stop_time, output, attached, supervisor };
    let words = configuration.resolved.items(&COMMAND).map(|(_, item)| item.text.clone());
    let words: Vec<_> = words.collect();
    match CommandHandler::new(&words, settings) {
        Ok(handler) => {
            let operators = words.iter().filter_map(|word| word.to_str());
            let operators = operators.filter(|word| SHELL_OPERATORS.contains(word));
            let description = WorkDescription::Command {
                file: handler.file().to_owned(),
                arguments: words.len().saturating_sub(1),
                shell_operators: operators.map(str::to_owned).collect(),
            };
            // Beats go on while a candidate leaves, so they do not shorten the stop time then.
            let beats = configuration.settings.options.failover.is_some();
            let grace = handler.grace().max(if beats { STOP_TIME } else { Duration::ZERO });
            Some(Work { handler: Box::new(handler), grace: Some(grace), description })
        }
        Err(error) => {
            let advice = "give a program by its path, or by a name that is on the PATH";
            match words.first().and_then(|word| shell_line_problem(&word.to_string_lossy())) {
                Some((problem, advice)) => configuration.complain(&COMMAND, &problem, advice),
                None => configuration.complain(&COMMAND, &error.to_string(), advice),
            }
            configuration.not_runnable = Some(error);
            None
        }
    }
}

#[cfg(not(unix))]
fn command(configuration: &mut Configuration, _: LineSink) -> Option<Work> {
    configuration.complain_of_use(
        &COMMAND,
        "this system cannot reliably stop a command and everything that it starts",
        "give a component with --handler, or run this on Linux or macOS",
    );
    None
}
