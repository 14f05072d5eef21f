//! From flags and variables to settings, keeping in mind where each came from.

mod component;
mod listener;
mod origin;
#[cfg(test)]
mod tests;
mod work;

pub(super) use origin::Vocabulary;

use super::args::{
    ElectionArguments, LookArguments, LookTimes, ResetSlotArguments, RunArguments,
    StorageArguments, WatchArguments,
};
use super::complaint::{Complaint, shown};
use super::{ca_file, exposed, variables};
use clap::Args;
use std::path::Path;
use std::process;
use tenure::egress::Authorities;
use tenure::settings::{Settings, names};

/// Settings of turns, which make sense together with a timer only.
const TURNS: [&str; 5] =
    [names::TIME_ZONE, names::JITTER, names::DELIVERY, names::MAX_ATTEMPTS, names::MISSED];

/// Settings that name files with secrets. A federated token is none of them: the platform writes it.
const SECRET_FILES: [&str; 6] = [
    names::CONNECTION_STRING_FILE,
    "AZURE_STORAGE_KEY_FILE",
    "TENURE_SECOND_KEY_FILE",
    "AZURE_STORAGE_SAS_TOKEN_FILE",
    "AZURE_STORAGE_AUTH_TOKEN_FILE",
    "AZURE_CLIENT_SECRET_FILE",
];

/// Settings for the component, and the origin of those that are not from the environment.
#[derive(Default)]
pub(super) struct Configuration {
    pub settings: Settings,
    pub complaints: Vec<Complaint>,
    /// Trusted beside the platform's.
    pub authorities: Authorities,
    origins: Vec<(&'static str, String)>,
    /// The settings that have an option here, given or not, and which.
    options: Vec<(&'static str, &'static str)>,
}

impl Configuration {
    pub(super) fn of_run(arguments: &RunArguments) -> Self {
        let mut this = Self::of(&arguments.storage);
        this.flag(names::ELECTION, "--election", arguments.election.as_deref());
        this.flag(names::NAME, "--name", arguments.name.as_deref());
        this.flag(names::LEASE, "--lease", arguments.lease.as_deref());
        this.flag(names::MARGIN, "--margin", arguments.margin.as_deref());
        this.flag(names::RENEW, "--renew", arguments.renew.as_deref());
        this.flag(names::POLL, "--poll", arguments.poll.as_deref());
        let request_timeout = arguments.request_timeout.as_deref();
        this.flag(names::REQUEST_TIMEOUT, "--request-timeout", request_timeout);
        this.flag(names::EVERY, "--every", arguments.every.as_deref());
        this.flag(names::CRON, "--cron", arguments.cron.as_deref());
        this.flag(
            names::WHILE_LEADING,
            "--while-leading",
            arguments.while_leading.then_some("true"),
        );
        this.flag(names::PRIORITY, "--priority", arguments.priority.as_deref());
        this.flag(names::MAX_TENURE, "--max-tenure", arguments.max_tenure.as_deref());
        this.flag(names::WARM_UP, "--warm-up", arguments.warm_up.as_deref());
        this.flag(names::TIME_ZONE, "--time-zone", arguments.time_zone.as_deref());
        this.flag(names::JITTER, "--jitter", arguments.jitter.as_deref());
        this.flag(names::DELIVERY, "--delivery", arguments.delivery.as_deref());
        this.flag(names::MAX_ATTEMPTS, "--max-attempts", arguments.max_attempts.as_deref());
        this.flag(names::MISSED, "--missed", arguments.missed.as_deref());
        this.flag(names::ON_START, "--on-start", arguments.on_start.as_deref());
        this.flag(names::TURN_TIMEOUT, "--turn-timeout", arguments.turn_timeout.as_deref());
        this.flag(names::MAX_FAILURES, "--max-failures", arguments.max_failures.as_deref());
        this.flag(names::COOL_DOWN, "--cool-down", arguments.cool_down.as_deref());
        this.flag(names::ADDRESS, "--address", arguments.address.as_deref());
        if this.settings.get(names::NAME).is_none() {
            this.settings.set(names::NAME, default_name());
        }
        let timers = [names::EVERY, names::CRON, names::ON_START, names::WHILE_LEADING];
        if timers.iter().all(|timer| this.settings.get(timer).is_none()) {
            this.complaints.push(Complaint::new(
                "--every",
                "no timer is given, so the handler would never run",
                "give --every 5s, --cron '0 9 * * MON-FRI', --on-start VALUE or --while-leading",
            ));
        }
        this
    }

    pub(super) fn of_look(arguments: &LookArguments) -> Self {
        Self::of_onlooker(&arguments.target, &arguments.target.between)
    }

    pub(super) fn of_watch(arguments: &WatchArguments) -> Self {
        Self::of_onlooker(&arguments.target, &arguments.target.between.look)
    }

    /// Of somebody who does not take part.
    fn of_onlooker(target: &ElectionArguments<impl Args>, times: &LookTimes) -> Self {
        let mut this = Self::of_election(target);
        let request_timeout = times.request_timeout.as_deref();
        this.flag(names::REQUEST_TIMEOUT, "--request-timeout", request_timeout);
        // What they go with may be given to `tenure run` as an option.
        let timer = [names::EVERY, names::CRON].iter().any(|n| this.settings.get(n).is_some());
        if !timer {
            this.clear(&TURNS);
        }
        if this.settings.get(names::DELIVERY).is_none() {
            this.clear(&[names::MAX_ATTEMPTS]);
        }
        if this.settings.get(names::CRON).is_none() {
            this.clear(&[names::TIME_ZONE]);
        }
        this
    }

    /// Whether the work is to last as long as the leadership.
    pub(super) fn while_leading(&self) -> bool {
        self.settings.get(names::WHILE_LEADING).is_some_and(|value| value.trim() == "true")
    }

    fn clear(&mut self, settings: &[&str]) {
        for setting in settings {
            self.settings.set(setting, "");
        }
    }

    pub(super) fn of_reset_slot(arguments: &ResetSlotArguments) -> Self {
        let mut this = Self::of_election(&arguments.target);
        this.settings.set(names::NAME, "tenure reset-slot");
        // It has no turns of its own, and is to win before the others look again.
        this.clear(&TURNS);
        this.clear(&[names::EVERY, names::CRON, names::ON_START, names::WHILE_LEADING]);
        this.clear(&[names::PRIORITY, names::MAX_TENURE, names::WARM_UP]);
        this.settings.set(names::POLL, "500ms");
        this
    }

    /// For an operator who looks at an election, and takes no part.
    pub(super) fn of_operator(target: &ElectionArguments<impl Args>) -> Self {
        let mut this = Self::of_election(target);
        this.clear(&TURNS);
        this.clear(&[names::EVERY, names::CRON, names::ON_START, names::WHILE_LEADING]);
        this
    }

    fn of_election(target: &ElectionArguments<impl Args>) -> Self {
        let mut this = Self::of(&target.storage);
        this.flag(names::ELECTION, "--election", target.election.as_deref());
        this
    }

    fn of(storage: &StorageArguments) -> Self {
        let mut this = Self { settings: Settings::from_env(), ..Self::default() };
        // The host's business alone.
        this.clear(&[names::CONTROL_TOKEN, tenure::program::webhook::variable::URL]);
        if let Some(file) = &storage.connection_string_file {
            this.connection_string(file);
        }
        this.complaints.extend(variables::misspelt());
        match ca_file::STORAGE.authorities(storage.ca_file.as_deref()) {
            Ok(authorities) => this.authorities = authorities,
            Err(complaint) => this.complaints.push(complaint),
        }
        this
    }

    /// A value from the command line. Even an empty one wins, and is judged.
    fn flag(&mut self, setting: &'static str, flag: &'static str, value: Option<&str>) {
        self.options.push((setting, flag));
        let Some(value) = value else { return };
        if value.trim().is_empty() {
            self.complaints.push(Complaint::new(
                flag,
                "the value is empty",
                "give a value, or leave the flag out",
            ));
        }
        self.settings.set(setting, value);
        self.origins.push((setting, format!("{flag} {}", shown(value))));
    }

    /// The files with secrets of the account that other users of this machine may read.
    pub(super) fn exposed(&self) -> Vec<String> {
        let files = SECRET_FILES.iter().filter_map(|name| self.settings.get(name));
        files.filter_map(|file| exposed::warning(Path::new(file.trim()))).collect()
    }

    fn connection_string(&mut self, file: &Path) {
        let name = file.to_string_lossy();
        let source = format!("--connection-string-file {}", shown(&name));
        if name.contains(';') && name.contains('=') {
            self.complaints.push(Complaint::new(
                "--connection-string-file …",
                "this is a connection string, not a file",
                format!(
                    "set {} to it: other users of this machine can read arguments",
                    names::CONNECTION_STRING
                ),
            ));
            self.origins.push((names::CONNECTION_STRING, String::new()));
            return;
        }
        // The component reads it, and judges it: again in each step, so that it can be replaced.
        let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        self.settings.set(names::CONNECTION_STRING_FILE, path.to_string_lossy());
        // The command line wins.
        self.settings.set(names::CONNECTION_STRING, "");
        self.origins.push((names::CONNECTION_STRING_FILE, source));
    }
}

/// A setting that the component does not see: its value, and where that came from.
fn host_setting(variable: &str, flag: &str, given: Option<&str>) -> Option<(String, String)> {
    if let Some(value) = given {
        return Some((format!("{flag} {}", shown(value)), value.to_owned()));
    }
    let value = std::env::var(variable).ok().filter(|value| !value.trim().is_empty())?;
    Some((variable.to_owned(), value))
}

/// A name for a candidate that was given none: that of the machine, and of the process.
fn default_name() -> String {
    let host = hostname::get().ok().and_then(|name| name.into_string().ok());
    format!("{}-{}", host.as_deref().unwrap_or("candidate"), process::id())
}
