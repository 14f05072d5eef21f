//! The validated settings of a candidate. Typed options become settings or complaints.

mod account;
mod agenda;
pub(crate) mod timings;

use core::ops::RangeInclusive;
use core::time::Duration;

use super::options::{
    Complaint, Environment, Options, Orders, SecretFile, SettingId, Value, complaint, is_blank,
    number_range, unreadable,
};
use super::{limits, variable};
use crate::record::text::is_plain;
use crate::schedule::agenda::Agenda;
use crate::schedule::slots::Schedule;
use account::ChosenAccount;
use chrono::{DateTime, Utc};
use tenure_azure::account::Account;
use tenure_azure::blob::BlobName;
use tenure_azure::credential::Credential;
use tenure_base::duration::format_duration;
use tenure_base::prelude::*;
use tenure_base::text::{QUOTED, is_quoted, redact};
use timings::Timings;

/// The lease of a single invocation, which does not renew during its turn.
const ONE_SHOT_LEASE: Duration = *limits::LEASE.end();

/// Access that a host must grant to the component, and only to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Origins that requests are sent to.
    pub origins: Vec<String>,
    /// The kind of credential in use, and the reason for it.
    pub credential: String,
    /// Notes for the operator at startup, such as the expiry of the credential.
    pub notes: Vec<String>,
}

/// All settings of a candidate.
#[derive(Debug)]
pub struct Settings {
    /// The blob of the election.
    pub election: BlobName,
    /// The storage account and its credential.
    pub account: Account,
    /// The name of this candidate.
    pub name: String,
    /// Address at which this candidate can be reached when it leads.
    pub address: Option<String>,
    /// The periods of the election.
    pub timings: Timings,
    /// The schedule of the work, and its rules.
    pub agenda: Agenda,
    /// The failures of the work that end a leadership.
    pub failure_policy: FailurePolicy,
    /// Time after which a leader resigns. None: never.
    pub max_tenure: Option<Duration>,
    /// True if the candidate only observes: it never contends, and writes nothing.
    pub observes: bool,
    /// True if the election coordinates shares: the leader runs no work itself.
    pub coordinates: bool,
    /// Interval between two reads of the orders by a leader. None if a leader reads no orders.
    pub orders: Option<Duration>,
    /// True if the settings are for a single invocation.
    pub one_shot: bool,
    /// True if the host sends the background requests of reports.
    pub(crate) background: bool,
    /// True if reports include the leader's last will.
    pub(crate) last_will: bool,
    /// The file with the secret of the credential, if there is one.
    pub file: Option<SecretFile>,
    /// The kind of credential, and the reason for it.
    credential: String,
}

impl Settings {
    /// Reads and validates all variables. A variable that is set but empty counts as not set.
    ///
    /// # Errors
    /// All complaints at once; none of them holds a secret.
    pub fn read(environment: impl Environment) -> Result<Self, Vec<Complaint>> {
        Self::read_from(&environment)
    }

    /// Reads the settings like [`read`](Self::read).
    ///
    /// # Errors
    /// All complaints.
    pub fn read_from(environment: &dyn Environment) -> Result<Self, Vec<Complaint>> {
        SettingsReader::read(environment, false)
    }

    /// Returns the files that the variables name. The host opens them before anything else.
    #[must_use]
    pub fn files(variable: impl Fn(&str) -> Option<String>) -> Vec<String> {
        account::files(|name| variable(name).filter(|value| !value.trim().is_empty()))
    }

    /// Reads the settings of a single invocation, which is one whole turn. They require a timer,
    /// and default to the longest lease.
    ///
    /// # Errors
    /// Same as [`Settings::read`].
    pub fn one_shot(environment: impl Environment) -> Result<Self, Vec<Complaint>> {
        SettingsReader::read(&environment, true)
    }

    /// Returns true if a leader with these settings reads orders.
    pub(crate) fn reads_orders(&self) -> bool {
        self.orders.is_some() && self.election.may_have_side_blobs()
    }

    /// Returns the access that the host must grant, and notes for the operator. `now` is the time
    /// of day.
    pub fn needs(&self, now: DateTime<Utc>) -> Needs {
        let mut needs = Needs {
            origins: vec![self.account.origin().to_string()],
            credential: self.credential.clone(),
            notes: Vec::new(),
        };
        match self.account.credential() {
            Credential::Identity(identity) => needs.origins.push(identity.origin().to_string()),
            Credential::Sas(sas) => needs.notes.extend(sas.validity_note(now)),
            Credential::SharedKey(..) | Credential::Token(_) => {}
        }
        needs
    }
}

impl Options {
    /// Returns the periods of the candidate. None if they are invalid.
    #[must_use]
    pub fn timings(&self) -> Option<Timings> {
        self.read_part(|reader| reader.timings())
    }

    /// Returns the description of the timer, as a leader's record has it. None if there is no
    /// timer, or if it is invalid.
    #[must_use]
    pub fn schedule(&self) -> Option<String> {
        self.read_part(|reader| reader.schedule()).as_ref().map(Schedule::description)
    }

    /// Reads one part of the options. None if that part is invalid, whatever the others are.
    fn read_part<T>(&self, part: fn(&mut SettingsReader<'_>) -> Option<T>) -> Option<T> {
        let mut reader = SettingsReader::new(self, &|_: &str| None, false);
        let before = reader.complaints.len();
        part(&mut reader).filter(|_| reader.complaints.len() == before)
    }
}

struct SettingsReader<'e> {
    options: &'e Options,
    /// The source of the credential and of the files with secrets.
    environment: &'e dyn Environment,
    one_shot: bool,
    complaints: Vec<Complaint>,
    /// The file with the secret of the credential.
    file: Option<SecretFile>,
}

impl<'e> SettingsReader<'e> {
    fn new(options: &'e Options, environment: &'e dyn Environment, one_shot: bool) -> Self {
        Self { options, environment, one_shot, complaints: options.invalid.clone(), file: None }
    }

    /// Validates the options that the host has as values, or those in its variables.
    fn read(environment: &'e dyn Environment, one_shot: bool) -> Result<Settings, Vec<Complaint>> {
        let from_variables;
        let options = match environment.options() {
            Some(options) => options,
            None => {
                from_variables = Options::read(&|name| environment.variable(name));
                &from_variables
            }
        };
        SettingsReader::new(options, environment, one_shot).settings()
    }

    /// Complains about settings that a single invocation requires or that make no sense for one.
    fn check_one_turn(&mut self) {
        let Options { every, cron, max_tenure, .. } = self.options;
        if every.is_none() && cron.is_none() && !self.has_complaint(&[variable::EVERY]) {
            let problem = "no timer is set, so no turn would ever run";
            let advice = "set how often a turn runs, like 10m or 24h, or set TENURE_CRON; calls may come more often \
                          than that";
            self.complain(variable::EVERY, problem, advice);
        }
        if max_tenure.is_some() {
            const PROBLEM: &str =
                "is for a long-running candidate; each call is one whole turn here";
            self.complain(variable::MAX_TENURE, PROBLEM, "leave it out, or use tenure run");
        }
    }

    fn settings(self) -> Result<Settings, Vec<Complaint>> {
        let mut reader = self;
        if reader.one_shot {
            reader.check_one_turn();
        }
        let election = reader.election();
        let account = reader.account();
        let name = non_blank(&reader.options.name);
        let name = reader.text(variable::NAME, name, limits::MAX_NAME);
        let address = non_blank(&reader.options.address);
        let address = reader.text(variable::ADDRESS, address, limits::MAX_ADDRESS);
        let timings = reader.timings();
        let agenda = reader.agenda(election.as_ref(), timings.as_ref());
        let failure_policy = reader.failure_policy(agenda.is_one_turn_a_term());
        let max_tenure = reader.max_tenure(timings.as_ref());
        match (election, account, timings) {
            (Some(election), Some(chosen_account), Some(timings))
                if reader.complaints.is_empty() =>
            {
                let ChosenAccount { account, explanation: credential } = chosen_account;
                let Self { options, one_shot, file, .. } = reader;
                let orders = match options.orders {
                    Some(Orders::Never) => None,
                    Some(Orders::Every(every)) => Some(every),
                    None => Some(limits::DEFAULT_ORDERS),
                };
                Ok(Settings {
                    election,
                    account,
                    name: name.unwrap_or_else(|| "unnamed".into()),
                    address,
                    timings,
                    agenda,
                    failure_policy,
                    max_tenure,
                    observes: options.observe == Some(true),
                    coordinates: options.coordinates == Some(true),
                    orders: orders.filter(|_| !one_shot),
                    one_shot,
                    background: options.background == Some(true),
                    last_will: options.last_will == Some(true),
                    file,
                    credential,
                })
            }
            _ => Err(reader.complaints),
        }
    }

    fn setting_name(&self, setting: &'static str, about: &'static str) -> String {
        self.environment.setting_name(SettingId::new(setting), SettingId::new(about))
    }

    /// Returns a variable that is not blank. The settings of the credential are variables only.
    fn get(&self, name: &str) -> Option<String> {
        self.environment.variable(name).filter(|value| !is_blank(value))
    }

    fn has_complaint(&self, settings: &[&str]) -> bool {
        self.complaints.iter().any(|complaint| settings.contains(&complaint.setting.variable()))
    }

    fn complain(&mut self, setting: &'static str, problem: impl AsRef<str>, advice: &str) {
        self.note(setting, problem.as_ref(), advice);
    }

    /// Complains about a setting with a text of its value, followed by the problem.
    #[inline(never)]
    fn complain_of(&mut self, setting: &'static str, value: &str, problem: &str, advice: &str) {
        self.note(setting, &format!("\"{}\"{problem}", redact(value)), advice);
    }

    // Not inlined, since there are very many complaints.
    #[inline(never)]
    fn note(&mut self, setting: &'static str, problem: &str, advice: &str) {
        let value = self.environment.variable(setting);
        self.complaints.push(complaint(setting, value.as_deref(), problem, advice));
    }

    /// Complains about quotation marks around a value.
    fn complain_of_quotes(&mut self, setting: &'static str, advice: String) {
        let (setting, problem) = (SettingId::new(setting), QUOTED.into());
        self.complaints.push(Complaint { setting, problem, advice });
    }

    fn election(&mut self) -> Option<BlobName> {
        const ADVICE: &str = "name a container and a blob, like jobs/nightly";
        let Some(value) = non_blank(&self.options.election) else {
            self.complain(variable::ELECTION, "no election is named", ADVICE);
            return None;
        };
        match BlobName::parse(value) {
            Ok(name) => Some(name),
            Err(problems) => {
                for problem in problems {
                    self.complain_of(variable::ELECTION, value, &format!(": {problem}"), ADVICE);
                }
                None
            }
        }
    }

    fn text(
        &mut self,
        setting: &'static str,
        value: Option<&str>,
        longest: usize,
    ) -> Option<String> {
        let value = value?;
        if value.len() > longest {
            let problem = format!("has {} bytes, more than {longest}", value.len());
            self.complain(setting, problem, "shorten it; it is kept in the blob's metadata");
        }
        if !is_plain(value) {
            let problem = "holds control characters";
            self.complain(setting, problem, "leave them out: it is shown on terminals");
        }
        Some(value.into())
    }

    fn duration_in(
        &mut self,
        setting: &'static str,
        duration: Option<Duration>,
        range: RangeInclusive<Duration>,
        advice: &str,
    ) -> Option<Duration> {
        if let Some(duration) = duration.filter(|duration| !range.contains(duration)) {
            let [duration, least, most] =
                [duration, *range.start(), *range.end()].map(format_duration);
            let problem = format!("{duration} is not between {least} and {most}");
            self.complain(setting, problem, advice);
        }
        duration
    }

    fn max_tenure(&mut self, timings: Option<&Timings>) -> Option<Duration> {
        let advice = "choose far more than a lease, like 1h; the leader changes each time";
        let least = timings.map_or(Duration::ZERO, |timings| 4 * timings.lease);
        let max_tenure = self.options.max_tenure;
        self.duration_in(variable::MAX_TENURE, max_tenure, least..=limits::MAX_TENURE, advice)
    }

    fn failure_policy(&mut self, is_one_turn_a_term: bool) -> FailurePolicy {
        let turn_timeout = self.duration_in(
            variable::TURN_TIMEOUT,
            self.options.turn_timeout,
            limits::TURN_TIMEOUT,
            "choose longer than the slowest successful turn, or leave it out",
        );
        let cool_down = self.duration_in(
            variable::COOL_DOWN,
            self.options.cool_down,
            limits::COOL_DOWN,
            "choose long enough for another candidate to take over; 30s is usual",
        );
        let default_max_failures = match is_one_turn_a_term {
            true => limits::DEFAULT_MAX_FAILURES_WHILE_LEADING,
            false => limits::DEFAULT_MAX_FAILURES,
        };
        FailurePolicy {
            turn_timeout,
            max_failures: self
                .number(variable::MAX_FAILURES, self.options.max_failures)
                .unwrap_or(default_max_failures),
            cool_down: cool_down.unwrap_or(limits::DEFAULT_COOL_DOWN),
        }
    }

    /// Returns a number, and complains if it is outside its range.
    fn number(&mut self, setting: &'static str, number: Option<u32>) -> Option<u32> {
        if let Some(number) = number.filter(|number| !number_range(setting).0.contains(number)) {
            self.refuse(setting, &number);
        }
        number
    }

    /// Complains about a value that is outside the range of its type.
    fn refuse<T: Value>(&mut self, setting: &'static str, value: &T) {
        self.complaints.push(unreadable(setting, &value.to_text(), T::rule(setting)));
    }
}

/// Returns a text that is set and not blank.
fn non_blank(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !is_blank(text))
}

/// Maximum factor by which a cool-down grows.
const MAX_COOL_DOWN_FACTOR: u32 = 16;

/// The failures of the work that end a leadership, and the length of the cool-down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailurePolicy {
    /// Time limit of a turn. None: as long as the leadership lasts.
    pub turn_timeout: Option<Duration>,
    /// Number of failed turns in a row that end the leadership; 0: never. A turn that trapped or
    /// timed out ends the leadership at once.
    pub max_failures: u32,
    /// Maximum length of the first cool-down; the minimum is half of it. During a cool-down the
    /// candidate does not contend. The length doubles each time until a turn succeeds, up to 16
    /// times this or an hour.
    pub cool_down: Duration,
}

impl FailurePolicy {
    /// Returns the maximum length of a cool-down that follows this number of others in a row.
    pub(crate) fn longest_cool_down(&self, previous: u32) -> Duration {
        let factor = 1_u32.checked_shl(previous).unwrap_or(MAX_COOL_DOWN_FACTOR);
        let factor = factor.min(MAX_COOL_DOWN_FACTOR);
        self.cool_down.saturating_mul(factor).min(*limits::COOL_DOWN.end())
    }
}

#[cfg(test)]
mod tests;
