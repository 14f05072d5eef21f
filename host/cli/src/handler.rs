//! The work of `tenure run`: a component, a webhook, or any program.

use super::configuration::Configuration;
use super::log::Log;
use super::settings::setting::Setting;
use super::settings::setting::Work as Kind;
use super::settings::table::{
    COMMAND, HANDLER, MEMORY_LIMIT, TURN_TIMEOUT, WEBHOOK, WEBHOOK_CA_FILE, WEBHOOK_TIMEOUT,
    WHILE_LEADING,
};
use std::sync::Arc;
use std::time::Duration;
use tenure::clock::BootClock;
use tenure::component::Engine;
use tenure::contract;
use tenure::handler::{ComponentHandler, Handler, LineSink, MEMORY_LIMIT as USUAL_MEMORY, Options};
use tenure::program::WebhookHandler;
use tenure::runner::Event;
use tenure::settings::names;
use tenure_webhook::Target;

const ADVICE: &str = "name a component that exports tenure:election/leader-handler, or give a \
                      URL with --webhook, or a program and its arguments after --";

/// A handler, and what follows from its kind.
pub(super) struct Work {
    pub handler: Box<dyn Handler>,
    /// How long a running turn may go on when the candidate leaves, unless that is set.
    pub grace: Option<Duration>,
}

/// The handler that is set; none when there is something to complain about.
pub(super) fn of_run(
    engine: &Engine,
    clock: &BootClock,
    configuration: &mut Configuration,
    log: &Log,
) -> Option<Work> {
    let log = log.clone();
    let output: LineSink =
        Arc::new(move |stream, line| log.event(&Event::Handler { line, stream }));
    let kinds = [(&HANDLER, Kind::Component), (&WEBHOOK, Kind::Webhook), (&COMMAND, Kind::Command)];
    let given: Vec<_> =
        kinds.into_iter().filter(|(setting, _)| configuration.given.is_on(setting)).collect();
    match given.as_slice() {
        [(_, kind)] => {
            refuse_others(configuration, *kind);
            match kind {
                Kind::Component => component(engine, clock, configuration, output),
                Kind::Webhook => post(configuration),
                Kind::Command => command(clock, configuration, output),
            }
        }
        [] => {
            judge_all(configuration);
            let problem = "no handler is given, so a leader would have nothing to do";
            configuration.complain(&HANDLER, problem, ADVICE);
            None
        }
        several => {
            // What else is wrong is told all the same.
            judge_all(configuration);
            let kinds: Vec<_> = several.iter().map(|(_, kind)| named(*kind)).collect();
            let problem =
                format!("{} are given, but a leader runs only one of them", kinds.join(" and "));
            let sources = several.iter().filter_map(|(setting, kind)| match kind {
                Kind::Command if configuration.given.is_by_option(setting) => {
                    Some("-- COMMAND".to_owned())
                }
                _ => Some(configuration.given.get(setting)?.told_bare()),
            });
            let sources = sources.collect::<Vec<_>>().join(", ");
            configuration.complain_at(sources, &problem, "leave out all but one of them");
            None
        }
    }
}

fn named(kind: Kind) -> &'static str {
    match kind {
        Kind::Component => "a component",
        Kind::Webhook => "a webhook",
        Kind::Command => "a command",
    }
}

fn judge_all(configuration: &mut Configuration) {
    configuration.handler_env();
    let _ = of_component(configuration);
    #[cfg(unix)]
    configuration.stop_time();
    match configuration.given.is_on(&WEBHOOK) {
        true => drop(target(configuration)),
        false => refuse(configuration, Kind::Component, &[&WEBHOOK_TIMEOUT, &WEBHOOK_CA_FILE]),
    }
}

/// Complains about what is given, although it is not for this kind of work.
fn refuse_others(configuration: &mut Configuration, kind: Kind) {
    let others = configuration.given.table.iter().copied();
    let others = others.filter(|s| !s.works.is_empty() && !s.works.contains(&kind));
    refuse(configuration, kind, &others.collect::<Vec<_>>());
}

fn refuse(configuration: &mut Configuration, kind: Kind, settings: &[&'static Setting]) {
    let why = match kind {
        Kind::Component => "a component is stopped at once when its time is over",
        Kind::Webhook => "a webhook is one request, and its work is elsewhere",
        Kind::Command => "a command may do whatever this user may",
    };
    for setting in settings {
        // A variable may be set for others.
        if !configuration.given.is_written(setting) {
            continue;
        }
        let works = setting.works;
        let for_what = works.iter().map(|work| named(*work)).collect::<Vec<_>>().join(" or ");
        let problem = match works {
            [Kind::Webhook] => format!("this is for {for_what}"),
            _ => format!("this is for {for_what}; {why}"),
        };
        let give = works.iter().map(|work| match work {
            Kind::Component => "a component with --handler",
            Kind::Webhook => "a URL with --webhook",
            Kind::Command => "a command after --",
        });
        let advice = match setting.is(&WEBHOOK_TIMEOUT) {
            true => format!("leave it out, or use {}", TURN_TIMEOUT.option()),
            false => format!("leave it out, or give {}", give.collect::<Vec<_>>().join(", or ")),
        };
        configuration.complain_of_use(setting, &problem, &advice);
    }
}

/// Each turn is one POST.
fn post(configuration: &mut Configuration) -> Option<Work> {
    if configuration.while_leading() {
        configuration.complain_of_use(
            &WHILE_LEADING,
            "a webhook is one call for each turn, and does not last as long as the leadership",
            "give a timer like --every 1m, or a program after -- instead of the webhook",
        );
    }
    let authorities = configuration.authorities_of(&WEBHOOK_CA_FILE);
    let target = target(configuration)?;
    if authorities.is_none() && configuration.given.text(&WEBHOOK_CA_FILE).is_some() {
        return None;
    }
    match WebhookHandler::new(target, authorities.unwrap_or_default()) {
        Ok(handler) => Some(Work { handler: Box::new(handler), grace: None }),
        Err(_) => {
            configuration.complain(
                &WEBHOOK,
                "names a host that is neither a name nor an address",
                "write it like https://example.com/tick",
            );
            None
        }
    }
}

/// Where to, and how; by the same rules as in `tenure.wasm`.
fn target(configuration: &mut Configuration) -> Option<Target> {
    let given = &configuration.given;
    let read = Target::read(|variable: &str| given.text(given.of_variable(variable)?));
    match read {
        Ok(target) => Some(target),
        Err(complaints) => {
            let told = complaints.into_iter().map(|complaint| contract::Complaint {
                setting: complaint.setting.to_owned(),
                problem: complaint.problem,
                advice: complaint.advice,
            });
            configuration.add(told.collect());
            None
        }
    }
}

/// What only a component is given.
fn of_component(configuration: &mut Configuration) -> Options {
    let allow = configuration.allow_list();
    let term_header = configuration.term_header();
    let memory_limit = configuration.size(&MEMORY_LIMIT);
    let memory_limit = memory_limit.and_then(|bytes| usize::try_from(bytes).ok());
    let memory_limit = memory_limit.unwrap_or(USUAL_MEMORY);
    Options { allow, term_header, memory_limit, ..Options::default() }
}

fn component(
    engine: &Engine,
    clock: &BootClock,
    configuration: &mut Configuration,
    output: LineSink,
) -> Option<Work> {
    let options = of_component(configuration);
    let env = configuration.handler_env();
    let options = Options { env, output: Some(output), ..options };
    let file = configuration.given.get(&HANDLER).filter(|value| !value.is_blank())?.path();
    match ComponentHandler::from_file(engine, &file, options, clock) {
        Ok(handler) => Some(Work { handler: Box::new(handler), grace: None }),
        Err(error) => {
            configuration.complain(&HANDLER, &format!("the file {error}"), ADVICE);
            None
        }
    }
}

#[cfg(unix)]
fn command(clock: &BootClock, configuration: &mut Configuration, output: LineSink) -> Option<Work> {
    use tenure::program::command::{CommandHandler, STOP_TIME, Settings};
    let env = configuration.handler_env();
    let stop_time = configuration.stop_time().unwrap_or(STOP_TIME);
    // A leader that leaves in good order beats meanwhile, and the command has the time that it always has.
    let beats = configuration.settings.get(names::FAILOVER).is_some();
    let grace = if beats { stop_time.max(STOP_TIME) } else { stop_time };
    let attached = configuration.attached.clone();
    let settings = Settings { env, stop_time, output, attached };
    let words = configuration.given.words(&COMMAND).map(|(_, word)| word.text.clone());
    let words: Vec<_> = words.collect();
    match CommandHandler::new(&words, settings, clock) {
        // It is told to end at once then, and has the time for it that it always has.
        Ok(handler) => Some(Work { handler: Box::new(handler), grace: Some(grace) }),
        Err(error) => {
            let advice = "give a program by its path, or by a name that is on the PATH";
            configuration.complain(&COMMAND, &error.to_string(), advice);
            configuration.not_runnable = Some(error);
            None
        }
    }
}

#[cfg(not(unix))]
fn command(_: &BootClock, configuration: &mut Configuration, _: LineSink) -> Option<Work> {
    configuration.complain_of_use(
        &COMMAND,
        "on this system a command and all that it starts cannot be stopped for sure",
        "give a component with --handler, or run this on Linux or macOS",
    );
    None
}
