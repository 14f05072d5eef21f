//! Derives the configuration of a command from its settings, both those that the election component
//! reads and those of this program.

mod complaints;
mod listener;
#[cfg(test)]
mod tests;
mod values;
mod work;

pub(crate) use complaints::unread_variables;
#[cfg(test)]
pub(crate) use complaints::{known_variables, misspelling};
pub(crate) use listener::listen_address;
pub(crate) use work::Split;

use crate::complaint::{Complaint, redacted};
use crate::output::fail_with_complaints;
use crate::settings::table::{
    CA_FILE, CONNECTION_STRING_FILE, CRON, DELIVERY, EVERY, FAILOVER, JITTER, LISTEN, LOCK_POLL,
    MAX_ATTEMPTS, MAX_TENURE, MISSED, NO_WORK, POLL, TIME_ZONE, TURN_TIMEOUT, WHILE_LEADING,
};
use crate::settings::{CommandLine, Elections, ResolvedSettings, Setting, Value};
use crate::supervisor::Link;
use chrono::{DateTime, Utc};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tenure::RootCertificates;
use tenure::engine::{CandidateSettings, Election, Variables};
#[cfg(unix)]
use tenure::handler::{AttachedCommand, NotRunnable};
use tenure::settings::InvalidSettings;
use tenure_azure::credential::Credential;
use tenure_azure::secret::Secret;
use tenure_clock::BootClock;
use tenure_core::{Environment, FileError, Options, Orders, SettingId, Settings, Zone, limits};
use tenure_members::Part;

/// Settings that have an effect only with an interval or a cron expression.
const TIMER_OPTIONS: [&Setting; 5] = [&TIME_ZONE, &JITTER, &DELIVERY, &MAX_ATTEMPTS, &MISSED];

/// Settings that decide when there are turns.
const TIMERS: [&Setting; 3] = [&EVERY, &CRON, &WHILE_LEADING];

/// Settings that this program has validated as far as it can.
pub(crate) struct Configuration {
    pub resolved: ResolvedSettings,
    pub settings: CandidateSettings,
    pub complaints: Vec<Complaint>,
    /// False if the handler need not be compiled, since other elections have complaints.
    pub compiles: bool,
    /// False if the work may be missing.
    pub needs_work: bool,
    /// Set if the work is split into shares.
    pub split: Option<Split>,
    /// The share of this candidate, and the settings of the coordinating election.
    pub part: Option<(Part, CandidateSettings)>,
    /// Authorities to trust in addition to the platform's.
    pub authorities: RootCertificates,
    /// The command of `tenure lock`, which uses this process's streams and runs once.
    #[cfg(unix)]
    pub attached: Option<Arc<AttachedCommand>>,
    /// The supervisor of this process, which keeps the last wills.
    pub supervisor: Option<Arc<Link>>,
    /// The reason why the command cannot be run, if there is a complaint about that.
    #[cfg(unix)]
    pub not_runnable: Option<NotRunnable>,
}

/// Settings of turns. They do not apply to an application that acts as long as the leadership
/// lasts.
const TURN_SETTINGS: [&Setting; 8] =
    [&EVERY, &CRON, &TIME_ZONE, &JITTER, &DELIVERY, &MAX_ATTEMPTS, &MISSED, &TURN_TIMEOUT];

impl Configuration {
    pub(crate) fn for_run(resolved: ResolvedSettings) -> Self {
        let mut this = Self::new(resolved);
        this.default_name();
        if this.resolved.is_on(&NO_WORK) {
            this.configure_without_work();
        }
        this.validate_split();
        if !this.while_leading() && !this.has_timer() {
            this.settings.options.on_trigger = Some(true);
        }
        this
    }

    /// Configures a candidate whose work is one run of a command, attached to this process.
    #[cfg(unix)]
    pub(crate) fn for_lock(line: &CommandLine, attached: Arc<AttachedCommand>) -> Self {
        let (mut resolved, complaints) = Elections::from_command_line(line).into_single();
        // Variables and the file may contain settings of `tenure run`, which a lock ignores.
        resolved.retain_command_settings();
        let mut this = Self::new(resolved);
        this.complaints.extend(complaints);
        let options = &mut this.settings.options;
        options.while_leading = Some(true);
        // The exit code reports that the command failed, and there is no next turn.
        options.max_failures = Some(0);
        options.orders = Some(Orders::Never);
        options.poll.get_or_insert(LOCK_POLL);
        this.default_name();
        this.attached = Some(attached);
        this
    }

    /// Configures a candidate that leads while an application does the work.
    fn configure_without_work(&mut self) {
        for setting in TURN_SETTINGS {
            // A variable may be meant for other processes.
            if self.resolved.is_written(setting) {
                let problem = "without work there are no turns: the application may act for as long as this \
                               candidate leads";
                let advice = format!("leave it out, or leave out {}", self.display_name(&NO_WORK));
                self.complain_of_use(setting, problem, &advice);
            }
        }
        self.unset(&TURN_SETTINGS);
        self.settings.options.while_leading = Some(true);
        if self.resolved.text(&LISTEN).is_none() {
            let problem = "the application needs a listener to ask, and there is none";
            let advice =
                format!("set {}, to 127.0.0.1:8080 for example", self.display_name(&LISTEN));
            self.complain_of_use(&NO_WORK, problem, &advice);
        }
    }

    /// Configures an observer, which follows an election and serves its state.
    pub(crate) fn for_observe(mut resolved: ResolvedSettings) -> Self {
        // Variables and the file may contain settings of candidates, which an observer ignores.
        resolved.retain_command_settings();
        let mut this = Self::new(resolved);
        this.settings.options.observe = Some(true);
        this.default_name();
        if this.resolved.text(&LISTEN).is_none() {
            const PROBLEM: &str = "no address is given, so clients could not query this observer";
            this.complain(&LISTEN, PROBLEM, LISTEN.advice);
        }
        this
    }

    /// Returns the time zone of the schedule. UTC if none is set, or if no zone has that name.
    pub(crate) fn zone(&self) -> Zone {
        let zone = self.settings.options.time_zone.as_deref();
        zone.and_then(|name| Zone::from_name(name.trim())).unwrap_or(Zone::UTC)
    }

    /// Returns true if this process only observes the election.
    pub(crate) fn observes(&self) -> bool {
        self.settings.options.observe == Some(true)
    }

    /// Configures a command that only reads an election.
    pub(crate) fn for_status(resolved: ResolvedSettings) -> Self {
        let mut this = Self::new(resolved);
        // These settings depend on others, which may be given only as options of `tenure run`.
        if !this.has_timer() {
            this.unset(&TIMER_OPTIONS);
        }
        if this.settings.options.retries.is_none() {
            this.unset(&[&MAX_ATTEMPTS]);
        }
        if this.settings.options.cron.is_none() {
            this.unset(&[&TIME_ZONE]);
        }
        this.settings.options.observe = Some(true);
        this
    }

    pub(crate) fn for_reset_slot(line: &CommandLine) -> Self {
        let mut this = Self::for_operator(line);
        // This candidate must win before the others poll again. Beats would need background
        // requests, which it does not send.
        this.unset(&[&MAX_TENURE, &FAILOVER, &POLL]);
        let options = &mut this.settings.options;
        options.name = Some("tenure reset-slot".to_owned());
        options.orders = Some(Orders::Never);
        options.poll = Some(*limits::POLL.start());
        this
    }

    /// Configures an operator's command about one election, which runs no turns.
    pub(crate) fn for_operator(line: &CommandLine) -> Self {
        let (resolved, complaints) = Elections::from_command_line(line).into_single();
        let mut this = Self::new(resolved);
        this.complaints.extend(complaints);
        this.unset(&TIMER_OPTIONS);
        this.unset(&TIMERS);
        this
    }

    fn new(resolved: ResolvedSettings) -> Self {
        let options = Options::read(&|name| resolved.component_value(name));
        let mut this = Self {
            settings: CandidateSettings { options, credential: credential_variables(&resolved) },
            complaints: Vec::new(),
            compiles: true,
            needs_work: true,
            split: None,
            part: None,
            authorities: RootCertificates::default(),
            #[cfg(unix)]
            attached: None,
            supervisor: None,
            #[cfg(unix)]
            not_runnable: None,
            resolved,
        };
        this.check_empty_values();
        this.complaints.extend(complaints::misspelled_variables(&this.resolved.table));
        this.authorities = this.authorities_of(&CA_FILE).unwrap_or_default();
        this
    }

    /// Returns the election with these settings, for an operator's command.
    ///
    /// # Errors
    ///
    /// Returns the exit code, after printing the complaints about the settings.
    pub(crate) fn operator_election(&mut self, clock: &BootClock) -> Result<Election, ExitCode> {
        let (election, _) =
            self.resolve_election(&Election::new(CandidateSettings::default(), clock));
        if self.complaints.is_empty() {
            Ok(election)
        } else {
            Err(fail_with_complaints(&self.complaints))
        }
    }

    /// Returns the election with these settings, which uses the connections of `shared`, and the
    /// validated settings. If they are invalid, adds complaints and returns none for them.
    pub(crate) fn resolve_election(&mut self, shared: &Election) -> (Election, Option<Settings>) {
        let election = shared.with_settings(self.settings.clone());
        let election = election.with_root_certificates(self.authorities.clone());
        let read = self.read().filter(|_| match election.check() {
            Ok(_) => true,
            Err(InvalidSettings(complaints)) => {
                self.add_complaints(complaints);
                false
            }
        });
        (election, read)
    }

    /// Reads and validates the settings of the election. Returns none after adding complaints.
    pub(crate) fn read(&mut self) -> Option<Settings> {
        let read = Settings::read_from(&LocalEnvironment {
            settings: &self.settings,
            resolved: &self.resolved,
        });
        read.map_err(|complaints| self.add_complaints(complaints)).ok()
    }

    /// Returns true if the work lasts as long as the leadership.
    pub(crate) fn while_leading(&self) -> bool {
        self.settings.options.while_leading == Some(true)
    }

    fn has_timer(&self) -> bool {
        self.settings.options.every.is_some() || self.settings.options.cron.is_some()
    }

    fn default_name(&mut self) {
        self.settings.options.name.get_or_insert_with(tenure::settings::Settings::default_name);
    }

    fn unset(&mut self, settings: &[&'static Setting]) {
        let names = settings.iter().flat_map(|setting| setting.variables());
        names.for_each(|name| self.settings.options.unset(name));
    }

    /// Returns warnings about the files with secrets of the account and of the work, if other users
    /// of this machine may read them.
    pub(crate) fn file_permission_warnings(&self) -> Vec<String> {
        let secrets = self.resolved.table.iter().filter(|setting| !setting.content.is_empty());
        let files = secrets.filter_map(|setting| match setting.works {
            [] => {
                let file = self.settings.credential.get(setting.variable);
                file.map(|file| PathBuf::from(file.trim()))
            }
            _ => {
                self.resolved.get(setting).filter(|value| !value.items.is_empty()).map(Value::path)
            }
        });
        files.filter_map(|file| file_permission_warning(&file)).collect()
    }
}

/// Returns the variables of the credential. An option and the file take precedence.
fn credential_variables(resolved: &ResolvedSettings) -> Variables {
    let mut credential = Variables::from_env().credentials_only();
    let written = resolved.get(&CONNECTION_STRING_FILE).filter(|value| !value.is_from_variable());
    if let Some(value) = written {
        // The variable of the connection string itself would conflict with its file.
        CONNECTION_STRING_FILE.variables().for_each(|name| credential.remove(name));
        // The component reads the file again in each step, and may have another working directory.
        let path = value.path();
        let path = std::path::absolute(&path).unwrap_or(path);
        credential.set(CONNECTION_STRING_FILE.variable, path.to_string_lossy());
    }
    credential
}

/// Returns a warning if other users may read a file with a secret: its mode permits it, and they
/// may enter each directory above it.
#[cfg(unix)]
fn file_permission_warning(file: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    const READ: u32 = 0o004;
    const ENTER: u32 = 0o001;
    // Other code reports files that cannot be read.
    let mode = |path: &Path| std::fs::metadata(path).ok().map(|metadata| metadata.mode() & 0o7777);
    let resolved = file.canonicalize().ok()?;
    let file_mode = mode(&resolved)?;
    let grants = |path: &Path, right| mode(path).is_some_and(|mode| mode & right != 0);
    let is_reachable = resolved.ancestors().skip(1).all(|directory| grants(directory, ENTER));
    (file_mode & READ != 0 && is_reachable).then(|| {
        format!(
            "every user of this machine may read {}, which holds a secret (mode {file_mode:04o}): chmod it to 600, or to \
             640 for a group that needs it",
            redacted(&file.to_string_lossy())
        )
    })
}

#[cfg(not(unix))]
fn file_permission_warning(_: &Path) -> Option<String> {
    None
}

/// Returns the expiry of the shared access signature in the current settings and their files. None
/// for any other credential.
pub(crate) fn expiry(settings: &CandidateSettings) -> Option<DateTime<Utc>> {
    match Settings::read_from(settings).ok()?.account.credential() {
        Credential::Sas(sas) => sas.validity_bounds().1,
        _ => None,
    }
}

/// Settings and the files that they name, as this process reads them. Messages name a setting as it
/// was given.
struct LocalEnvironment<'s> {
    settings: &'s CandidateSettings,
    resolved: &'s ResolvedSettings,
}

impl Environment for LocalEnvironment<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        self.settings.variable(name)
    }

    fn file(&self, path: &str) -> Result<Secret, FileError> {
        self.settings.file(path)
    }

    fn options(&self) -> Option<&Options> {
        self.settings.options()
    }

    fn setting_name(&self, setting: SettingId, about: SettingId) -> String {
        let row = |id: SettingId| self.resolved.find_by_variable(id.variable());
        match row(setting) {
            Some(known) => {
                let about = row(about).and_then(|about| self.resolved.get(about));
                self.resolved.display_name(known, about)
            }
            None => setting.variable().to_owned(),
        }
    }
}
