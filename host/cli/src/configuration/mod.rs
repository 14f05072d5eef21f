//! From what was set to what a command works with: settings for the component, and those of the program.

mod complaints;
mod exposed;
mod listener;
mod read;
mod split;
#[cfg(unix)]
mod stop_time;
#[cfg(test)]
mod tests;
mod values;
mod work;

pub(super) use listener::listen_address;
pub(super) use read::expiry;
pub(super) use split::Split;

use super::complaint::Complaint;
use super::output::refuse;
use super::settings::setting::Setting;
use super::settings::table::{
    CA_FILE, CONNECTION_STRING_FILE, CRON, DELIVERY, EVERY, FAILOVER, JITTER, LISTEN, LOCK_POLL,
    MAX_ATTEMPTS, MAX_TENURE, MISSED, NO_WORK, POLL, TIME_ZONE, TURN_TIMEOUT, WHILE_LEADING,
};
use super::settings::{CommandLine, Elections, Given, Value};
use super::supervisor::Link;
use super::variables;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tenure::Authorities;
use tenure::engine::{CandidateSettings, Election, Variables};
#[cfg(unix)]
use tenure::handler::{Attached, NotRunnable};
use tenure::settings::InvalidSettings;
use tenure_clock::BootClock;
use tenure_core::{Options, Orders, Settings, Zone, limits};
use tenure_members::Part;

/// Settings of turns, which make sense together with a timer only.
const TURNS: [&Setting; 5] = [&TIME_ZONE, &JITTER, &DELIVERY, &MAX_ATTEMPTS, &MISSED];

/// What decides when there are turns.
const TIMERS: [&Setting; 3] = [&EVERY, &CRON, &WHILE_LEADING];

/// What was set, judged as far as that is done here.
pub(super) struct Configuration {
    pub given: Given,
    /// Those of the candidate.
    pub settings: CandidateSettings,
    pub complaints: Vec<Complaint>,
    /// False where the handler need not be compiled, since there are complaints about other elections.
    pub compiles: bool,
    /// False if it is no mistake that no work is given.
    pub needs_work: bool,
    /// Its work is split into shares.
    pub split: Option<Split>,
    /// The share that it is for, and the settings of the coordinating election.
    pub part: Option<(Part, CandidateSettings)>,
    /// Trusted beside the platform's.
    pub authorities: Authorities,
    /// The command has this process's streams, for one run.
    #[cfg(unix)]
    pub attached: Option<Arc<Attached>>,
    /// The supervisor of this process, which has the last wills.
    pub supervisor: Option<Arc<Link>>,
    /// Why the command cannot be run, if that was complained of.
    #[cfg(unix)]
    pub not_runnable: Option<NotRunnable>,
}

/// Settings that say nothing about an application that acts as long as the leadership lasts.
const OF_TURNS: [&Setting; 8] =
    [&EVERY, &CRON, &TIME_ZONE, &JITTER, &DELIVERY, &MAX_ATTEMPTS, &MISSED, &TURN_TIMEOUT];

impl Configuration {
    pub(super) fn of_run(given: Given) -> Self {
        let mut this = Self::of(given);
        this.default_name();
        if this.given.is_on(&NO_WORK) {
            this.without_work();
        }
        this.judge_split();
        if !this.while_leading() && !this.has_timer() {
            this.settings.options.on_trigger = Some(true);
        }
        this
    }

    /// For a candidate whose work is one run of a command, attached to this process.
    #[cfg(unix)]
    pub(super) fn of_lock(line: &CommandLine, attached: Arc<Attached>) -> Self {
        let (mut given, complaints) = Elections::of(line).only();
        // Variables and the file may be for others: of elections, and how they are led.
        given.keep_own();
        let mut this = Self::of(given);
        this.complaints.extend(complaints);
        let options = &mut this.settings.options;
        options.while_leading = Some(true);
        // It is told by the exit code that the command failed, and there is no next turn.
        options.max_failures = Some(0);
        options.orders = Some(Orders::Never);
        options.poll.get_or_insert(LOCK_POLL);
        this.default_name();
        this.attached = Some(attached);
        this
    }

    /// For a candidate that leads, while the work is an application's.
    fn without_work(&mut self) {
        for setting in OF_TURNS {
            // A variable may be set for others.
            if self.given.is_written(setting) {
                let problem = "without work there are no turns: the application may act for as long as this \
                               candidate leads";
                let advice = format!("leave it out, or leave out {}", self.called(&NO_WORK));
                self.complain_of_use(setting, problem, &advice);
            }
        }
        self.clear(&OF_TURNS);
        self.settings.options.while_leading = Some(true);
        if self.given.text(&LISTEN).is_none() {
            let problem = "the application needs a listener to ask, and there is none";
            let advice = format!("set {}, to 127.0.0.1:8080 for example", self.called(&LISTEN));
            self.complain_of_use(&NO_WORK, problem, &advice);
        }
    }

    /// For somebody who follows an election, and shows it to others.
    pub(super) fn of_observe(mut given: Given) -> Self {
        // Variables and the file are for candidates too.
        given.keep_own();
        let mut this = Self::of(given);
        this.settings.options.observe = Some(true);
        this.default_name();
        if this.given.text(&LISTEN).is_none() {
            const PROBLEM: &str = "no address is given, so this observer could not be asked";
            this.complain(&LISTEN, PROBLEM, LISTEN.advice);
        }
        this
    }

    /// The time zone that is set for the schedule; UTC where none is, or none of that name exists.
    pub(super) fn zone(&self) -> Zone {
        let zone = self.settings.options.time_zone.as_deref();
        zone.and_then(|name| Zone::named(name.trim())).unwrap_or(Zone::UTC)
    }

    /// Whether it takes no part.
    pub(super) fn observes(&self) -> bool {
        self.settings.options.observe == Some(true)
    }

    /// For somebody who looks at an election, and takes no part.
    pub(super) fn of_look(given: Given) -> Self {
        let mut this = Self::of(given);
        // What they go with may be given to `tenure run` as an option.
        if !this.has_timer() {
            this.clear(&TURNS);
        }
        if this.settings.options.retries.is_none() {
            this.clear(&[&MAX_ATTEMPTS]);
        }
        if this.settings.options.cron.is_none() {
            this.clear(&[&TIME_ZONE]);
        }
        this.settings.options.observe = Some(true);
        this
    }

    pub(super) fn of_reset_slot(line: &CommandLine) -> Self {
        let mut this = Self::of_operator(line);
        // It is to win before the others look again, and sends nothing beside its steps, which beats need.
        this.clear(&[&MAX_TENURE, &FAILOVER, &POLL]);
        let options = &mut this.settings.options;
        options.name = Some("tenure reset-slot".to_owned());
        options.orders = Some(Orders::Never);
        options.poll = Some(*limits::POLL.start());
        this
    }

    /// For an operator, who has no turns, and means one election.
    pub(super) fn of_operator(line: &CommandLine) -> Self {
        let (given, complaints) = Elections::of(line).only();
        let mut this = Self::of(given);
        this.complaints.extend(complaints);
        this.clear(&TURNS);
        this.clear(&TIMERS);
        this
    }

    fn of(given: Given) -> Self {
        let options = Options::read(&|name| given.of_component(name));
        let mut this = Self {
            settings: CandidateSettings { options, credential: credential(&given) },
            complaints: Vec::new(),
            compiles: true,
            needs_work: true,
            split: None,
            part: None,
            authorities: Authorities::default(),
            #[cfg(unix)]
            attached: None,
            supervisor: None,
            #[cfg(unix)]
            not_runnable: None,
            given,
        };
        this.judge_empty();
        this.complaints.extend(variables::misspelt(&this.given.table));
        this.authorities = this.authorities_of(&CA_FILE).unwrap_or_default();
        this
    }

    /// Returns the election with these settings, for an operator's command.
    ///
    /// # Errors
    ///
    /// The exit code, once it was written what is wrong with the settings.
    pub(super) fn election_of_operator(&mut self, clock: &BootClock) -> Result<Election, ExitCode> {
        let (election, _) = self.reach(&Election::new(CandidateSettings::default(), clock));
        if self.complaints.is_empty() { Ok(election) } else { Err(refuse(&self.complaints)) }
    }

    /// Returns the election with these settings, over the connections of `shared`, and the settings as it reads them. Adds
    /// what is wrong with them.
    pub(super) fn reach(&mut self, shared: &Election) -> (Election, Option<Settings>) {
        let election = shared.with_settings(self.settings.clone());
        let election = election.trusting(self.authorities.clone());
        let read = self.read().filter(|_| match election.check() {
            Ok(_) => true,
            Err(InvalidSettings(complaints)) => {
                self.add(complaints);
                false
            }
        });
        (election, read)
    }

    /// Whether the work is to last as long as the leadership.
    pub(super) fn while_leading(&self) -> bool {
        self.settings.options.while_leading == Some(true)
    }

    fn has_timer(&self) -> bool {
        self.settings.options.every.is_some() || self.settings.options.cron.is_some()
    }

    fn default_name(&mut self) {
        self.settings.options.name.get_or_insert_with(tenure::settings::Settings::default_name);
    }

    fn clear(&mut self, settings: &[&'static Setting]) {
        let names = settings.iter().flat_map(|setting| setting.variables());
        names.for_each(|name| self.settings.options.unset(name));
    }

    /// The files with secrets of the account, and of the work, that other users of this machine may read.
    pub(super) fn exposed(&self) -> Vec<String> {
        let secrets = self.given.table.iter().filter(|setting| !setting.content.is_empty());
        let files = secrets.filter_map(|setting| match setting.works {
            [] => {
                let file = self.settings.credential.get(setting.variable);
                file.map(|file| PathBuf::from(file.trim()))
            }
            _ => self.given.get(setting).filter(|value| !value.words.is_empty()).map(Value::path),
        });
        files.filter_map(|file| exposed::warning(&file)).collect()
    }
}

/// Returns the variables of the credential. An option and the file take precedence.
fn credential(given: &Given) -> Variables {
    let mut credential = Variables::from_env().of_credentials();
    let written = given.get(&CONNECTION_STRING_FILE).filter(|value| !value.is_by_variable());
    if let Some(value) = written {
        // The connection string itself is another way to say the same.
        CONNECTION_STRING_FILE.variables().for_each(|name| credential.remove(name));
        // It is read again in each step, from wherever the component is then.
        let path = value.path();
        let path = std::path::absolute(&path).unwrap_or(path);
        credential.set(CONNECTION_STRING_FILE.variable, path.to_string_lossy());
    }
    credential
}
