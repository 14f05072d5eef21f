//! `tenure watch`: looks at an election again and again, and tells what changed.

mod change;

use super::configuration::Configuration;
use super::settings::CommandLine;
use super::settings::table::{INTERVAL, JSON};
use super::signals::Signals;
use super::status::complain;
use super::terminal::{colour_wanted, columns};
use super::{fail, unwritten};
use change::{Change, Watcher};
use chrono::{DateTime, Local, SecondsFormat, Utc};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;
use tenure::clock::{BootClock, Clock};
use tenure::component::ElectionComponent;
use tenure::settings::names;
use tokio::select;

/// How often to look unless it was said.
pub(super) const USUAL: Duration = Duration::from_secs(2);

pub(super) async fn watch(line: &CommandLine) -> ExitCode {
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return fail(format_args!("signals cannot be handled: {error}")),
    };
    let mut configuration = Configuration::of_look(line);
    let json = configuration.given.is_on(&JSON);
    let clock = BootClock::new();
    let component = match configuration.component(&clock).await {
        Ok(component) => component,
        Err(failure) => return fail(failure),
    };
    let interval = configuration.duration(&INTERVAL).unwrap_or(USUAL);
    if !configuration.complaints.is_empty() {
        return complain(&configuration.complaints, json);
    }
    let election = configuration.settings.get(names::ELECTION).unwrap_or_default();
    let page = Page::new(election, json);
    select! {
        told = look_on(&component, &clock, interval, &page) => match told {
            // The reader has seen enough.
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(error),
        },
        () = signals.next() => ExitCode::SUCCESS,
    }
}

/// Until nobody reads any more, or nothing can be written.
async fn look_on(
    component: &ElectionComponent,
    clock: &BootClock,
    interval: Duration,
    page: &Page<'_>,
) -> Result<(), String> {
    let mut watcher = Watcher::default();
    loop {
        let began = clock.now();
        let seen = component.inspect().await.map_err(|error| error.to_string())?;
        for change in watcher.see(seen) {
            if let Err(error) = page.write(&change) {
                unwritten(&error);
                return Ok(());
            }
        }
        clock.sleep_until(began + interval).await;
    }
}

/// Where changes are written to.
struct Page<'a> {
    election: &'a str,
    json: bool,
    colour: bool,
}

impl<'a> Page<'a> {
    fn new(election: &'a str, json: bool) -> Self {
        Self { election, json, colour: io::stdout().is_terminal() && colour_wanted() }
    }

    fn write(&self, change: &Change) -> io::Result<()> {
        let now = Utc::now();
        let line = match self.json {
            true => self.as_json(now, change)?,
            false => change.line(&now.with_timezone(&Local), self.colour, columns(io::stdout())),
        };
        let mut out = io::stdout();
        writeln!(out, "{line}").and_then(|()| out.flush())
    }

    fn as_json(&self, now: DateTime<Utc>, change: &Change) -> io::Result<String> {
        #[derive(Serialize)]
        struct Line<'a> {
            timestamp: String,
            election: &'a str,
            #[serde(flatten)]
            change: &'a Change,
        }
        let timestamp = now.to_rfc3339_opts(SecondsFormat::Millis, true);
        let line = serde_json::to_string(&Line { timestamp, election: self.election, change })?;
        Ok(super::log::without_controls(line))
    }
}
