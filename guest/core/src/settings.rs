//! What the environment says: the only way in which a candidate is configured.

mod account;
mod agenda;

use core::ops::RangeInclusive;
use core::time::Duration;

use chrono::{DateTime, Utc};

use super::agenda::Agenda;
use super::complaint::{Complaint, SettingId};
use super::environment::{Environment, SecretFile};
use super::failure_policy::FailurePolicy;
use super::limits;
use super::text::is_plain;
use super::timings::{Setting, Timings, Wanted, outside};
use account::Chosen;

use tenure_azure::account::Account;
use tenure_azure::credential::Credential;
use tenure_azure::name::BlobName;
use tenure_base::duration::parse_duration;
use tenure_base::prelude::*;
use tenure_base::secret::shown;
use tenure_base::text::{QUOTED, QUOTED_ADVICE, is_quoted};

/// The variables, by the names that Azure users know. docs/configuration.md and docs/security.md list them.
pub mod variable {
    /// The prefixes of all variables.
    pub const PREFIXES: [&str; 3] = ["TENURE_", "AZURE_", "IDENTITY_"];
    /// `CONTAINER/BLOB`: the election.
    pub const ELECTION: &str = "TENURE_ELECTION";
    /// The name of this candidate, for people.
    pub const NAME: &str = "TENURE_NAME";
    /// Where this candidate can be reached when it leads, for people and followers.
    pub const ADDRESS: &str = "TENURE_ADDRESS";
    /// Period of the lease.
    pub const LEASE: &str = "TENURE_LEASE";
    /// How long before its end a leader stops acting.
    pub const MARGIN: &str = "TENURE_MARGIN";
    /// From one renewal to the next.
    pub const RENEW: &str = "TENURE_RENEW";
    /// The longest a follower waits between two polls.
    pub const POLL: &str = "TENURE_POLL";
    /// The longest that one request may take.
    pub const REQUEST_TIMEOUT: &str = "TENURE_REQUEST_TIMEOUT";
    /// How soon a leader that died is replaced, where that is to be sooner than its lease ends.
    pub const FAILOVER: &str = "TENURE_FAILOVER";
    /// `true`: one turn for each leadership, as long as it lasts, instead of a timer.
    pub const WHILE_LEADING: &str = "TENURE_WHILE_LEADING";
    /// A leader resigns after so long.
    pub const MAX_TENURE: &str = "TENURE_MAX_TENURE";
    /// The period of the timer. Without this and `CRON` it has no slots.
    pub const EVERY: &str = "TENURE_EVERY";
    /// The times of the timer, as a cron expression.
    pub const CRON: &str = "TENURE_CRON";
    /// The time zone of the cron expression, by its IANA name.
    pub const TIME_ZONE: &str = "TENURE_TIME_ZONE";
    /// Over how long the slots of all elections are spread.
    pub const JITTER: &str = "TENURE_JITTER";
    /// `at-most-once` or `at-least-once`.
    pub const DELIVERY: &str = "TENURE_DELIVERY";
    /// After so many turns, a slot that is delivered at least once is abandoned.
    pub const MAX_ATTEMPTS: &str = "TENURE_MAX_ATTEMPTS";
    /// `skip`, `once` or `all N`: what becomes of missed slots.
    pub const MISSED: &str = "TENURE_MISSED";
    /// The longest that a turn may take. Without it, a turn may last as long as the leadership.
    pub const TURN_TIMEOUT: &str = "TENURE_TURN_TIMEOUT";
    /// So many failed turns in a row end the leadership; 0: never.
    pub const MAX_FAILURES: &str = "TENURE_MAX_FAILURES";
    /// How long a candidate waits before it contends again when its work ended its leadership.
    pub const COOL_DOWN: &str = "TENURE_COOL_DOWN";
    /// The storage account with its key or a SAS.
    pub const CONNECTION_STRING: &str = "AZURE_STORAGE_CONNECTION_STRING";
    /// A file that holds it, read again in each step.
    pub const CONNECTION_STRING_FILE: &str = "AZURE_STORAGE_CONNECTION_STRING_FILE";
    /// The name of the storage account.
    pub const ACCOUNT: &str = "AZURE_STORAGE_ACCOUNT";
    /// The address of its Blob service, where it is not the one of the public cloud.
    pub const SERVICE_ENDPOINT: &str = "AZURE_STORAGE_SERVICE_ENDPOINT";
    /// A key of the account.
    pub const KEY: &str = "AZURE_STORAGE_KEY";
    /// A file that holds it, read again in each step.
    pub const KEY_FILE: &str = "AZURE_STORAGE_KEY_FILE";
    /// A shared access signature, alone or with the address that it is for.
    pub const SAS_TOKEN: &str = "AZURE_STORAGE_SAS_TOKEN";
    /// A file that holds it, read again in each step.
    pub const SAS_TOKEN_FILE: &str = "AZURE_STORAGE_SAS_TOKEN_FILE";
    /// A token of Microsoft Entra ID for storage.
    pub const AUTH_TOKEN: &str = "AZURE_STORAGE_AUTH_TOKEN";
    /// A file that holds it, read again in each step.
    pub const AUTH_TOKEN_FILE: &str = "AZURE_STORAGE_AUTH_TOKEN_FILE";
    /// The application, or which managed identity of several.
    pub const CLIENT_ID: &str = "AZURE_CLIENT_ID";
    /// The directory of the application.
    pub const TENANT_ID: &str = "AZURE_TENANT_ID";
    /// The application's secret.
    pub const CLIENT_SECRET: &str = "AZURE_CLIENT_SECRET";
    /// A file that holds it, read again in each step.
    pub const CLIENT_SECRET_FILE: &str = "AZURE_CLIENT_SECRET_FILE";
    /// The file with the token of a workload identity.
    pub const FEDERATED_TOKEN_FILE: &str = "AZURE_FEDERATED_TOKEN_FILE";
    /// Where applications ask for tokens.
    pub const AUTHORITY_HOST: &str = "AZURE_AUTHORITY_HOST";
    /// Where an app asks for tokens of its managed identity.
    pub const IDENTITY_ENDPOINT: &str = "IDENTITY_ENDPOINT";
    /// What it shows there.
    pub const IDENTITY_HEADER: &str = "IDENTITY_HEADER";
    /// Where a machine asks for tokens, if not at 169.254.169.254.
    pub const IMDS_HOST: &str = "AZURE_POD_IDENTITY_AUTHORITY_HOST";

    // A host sets the rest, and no user.

    /// `true`: the candidate looks and takes no part.
    pub const OBSERVE: &str = "TENURE_OBSERVE";
    /// `true`: the election coordinates shares.
    pub const COORDINATES: &str = "TENURE_COORDINATES";
    /// `true`: the work has no timer, and runs for triggers only.
    pub const ON_TRIGGER: &str = "TENURE_ON_TRIGGER";
    /// The time between two reads of orders by a leader: a duration, or `never`.
    pub const ORDERS: &str = "TENURE_ORDERS";
    /// `true`: the host sends the requests that reports hold.
    pub const BACKGROUND: &str = "TENURE_BACKGROUND";
    /// `true`: reports hold the leader's last will.
    pub const LAST_WILL: &str = "TENURE_LAST_WILL";
}

/// The lease of a single invocation, which does not renew beside its turn.
const ONE_SHOT_LEASE: Duration = *limits::LEASE.end();

/// What the host must grant to the component, and to nobody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Origins that requests go to.
    pub origins: Vec<String>,
    /// The kind of credential that is used, and why.
    pub credential: String,
    /// Notes for people at the start, such as when the credential expires.
    pub notes: Vec<String>,
}

/// All settings of a candidate.
#[derive(Debug)]
pub struct Settings {
    /// The blob that decides.
    pub election: BlobName,
    /// The storage account and its key.
    pub account: Account,
    /// The name of this candidate.
    pub name: String,
    /// Where it can be reached.
    pub address: Option<String>,
    /// Its periods.
    pub timings: Timings,
    /// What it runs when it leads.
    pub agenda: Agenda,
    /// What its work is held to.
    pub failure_policy: FailurePolicy,
    /// A leader resigns after so long.
    pub max_tenure: Option<Duration>,
    /// It looks, and takes no part: it never contends, and writes nothing.
    pub observes: bool,
    /// Its election coordinates shares: the leader runs no work itself.
    pub coordinates: bool,
    /// The time between two reads of the orders, while it leads. None: it reads none.
    pub orders: Option<Duration>,
    /// It is for a single invocation.
    pub one_shot: bool,
    /// The file with the secret of the credential, if there is one.
    pub file: Option<SecretFile>,
    /// The kind of credential, and why it is used.
    credential: String,
}

impl Settings {
    /// Reads and judges all variables. A variable that is set but empty counts as not set.
    ///
    /// # Errors
    /// Every complaint at once; none of them holds a secret.
    pub fn read(environment: impl Environment) -> Result<Self, Vec<Complaint>> {
        Self::read_from(&environment)
    }

    /// As [`read`](Self::read).
    ///
    /// # Errors
    /// All complaints.
    pub fn read_from(environment: &dyn Environment) -> Result<Self, Vec<Complaint>> {
        Reader::new(environment, None).settings()
    }

    /// The files that the variables name. They are to be opened before anything else.
    #[must_use]
    pub fn files(variable: impl Fn(&str) -> Option<String>) -> Vec<String> {
        account::files(|name| variable(name).filter(|value| !value.trim().is_empty()))
    }

    /// The same for a single invocation, which is one whole turn: it has to know of a turn, and
    /// its lease is the longest one unless another is set.
    ///
    /// # Errors
    /// As [`Settings::read`].
    pub fn one_shot(environment: impl Environment) -> Result<Self, Vec<Complaint>> {
        let mut reader = Reader::new(&environment, Some(ONE_SHOT_LEASE));
        let timers = [variable::EVERY, variable::CRON];
        if timers.iter().all(|name| reader.get(name).is_none()) {
            let problem = "no timer is set, so no turn would ever run";
            let advice = "set how often a turn runs, like 10m or 24h, or set TENURE_CRON; calls may come more often \
                          than that";
            reader.complain(variable::EVERY, problem, advice);
        }
        if reader.get(variable::MAX_TENURE).is_some() {
            const PROBLEM: &str =
                "is for a long-running candidate; each call is one whole turn here";
            reader.complain(variable::MAX_TENURE, PROBLEM, "leave it out, or use tenure run");
        }
        reader.settings()
    }

    /// Returns true if a leader with these settings reads orders.
    pub(super) fn reads_orders(&self) -> bool {
        self.orders.is_some() && self.election.may_have_side_blobs()
    }

    /// What the host must allow, and people should know. `now` is the time of day.
    pub fn needs(&self, now: DateTime<Utc>) -> Needs {
        let mut needs = Needs {
            origins: vec![self.account.origin().to_string()],
            credential: self.credential.clone(),
            notes: Vec::new(),
        };
        match self.account.credential() {
            Credential::Identity(identity) => needs.origins.push(identity.origin().to_string()),
            Credential::Sas(sas) => needs.notes.extend(sas.times(now)),
            Credential::SharedKey(..) | Credential::Token(_) => {}
        }
        needs
    }
}

struct Reader<'e> {
    environment: &'e dyn Environment,
    /// The lease where none is set.
    lease: Option<Duration>,
    complaints: Vec<Complaint>,
    /// The file with the secret of the credential.
    file: Option<SecretFile>,
}

impl<'e> Reader<'e> {
    fn new(environment: &'e dyn Environment, lease: Option<Duration>) -> Self {
        Self { environment, lease, complaints: Vec::new(), file: None }
    }

    fn settings(self) -> Result<Settings, Vec<Complaint>> {
        let mut reader = self;
        let election = reader.election();
        let account = reader.account();
        let name =
            reader.text(variable::NAME, limits::LONGEST_NAME).unwrap_or_else(|| "unnamed".into());
        let address = reader.text(variable::ADDRESS, limits::LONGEST_ADDRESS);
        let timings = reader.timings();
        let agenda = reader.agenda(election.as_ref(), timings.as_ref());
        let failure_policy = reader.failure_policy(agenda.is_one_turn_a_term());
        let max_tenure = reader.max_tenure(timings.as_ref());
        let observes = reader.observes();
        let coordinates = reader.get(variable::COORDINATES).is_some_and(|value| value == "true");
        match (election, account, timings) {
            (Some(election), Some(chosen), Some(timings)) if reader.complaints.is_empty() => {
                let Chosen { account, why: credential } = chosen;
                let one_shot = reader.lease.is_some();
                let orders = reader.orders().filter(|_| !one_shot);
                let file = reader.file;
                Ok(Settings {
                    election,
                    account,
                    name,
                    address,
                    timings,
                    agenda,
                    failure_policy,
                    max_tenure,
                    observes,
                    coordinates,
                    orders,
                    one_shot,
                    file,
                    credential,
                })
            }
            _ => Err(reader.complaints),
        }
    }

    /// Returns the name of a setting for a text about the setting `about`.
    fn called(&self, setting: &'static str, about: &'static str) -> String {
        self.environment.called(SettingId::of(setting), SettingId::of(about))
    }

    fn get(&self, setting: &str) -> Option<String> {
        self.environment.variable(setting).filter(|value| !value.trim().is_empty())
    }

    fn observes(&self) -> bool {
        self.get(variable::OBSERVE).is_some_and(|value| value == "true")
    }

    fn orders(&self) -> Option<Duration> {
        match self.get(variable::ORDERS).as_deref() {
            Some("never") => None,
            Some(every) => Some(parse_duration(every).unwrap_or(limits::DEFAULT_ORDERS)),
            None => Some(limits::DEFAULT_ORDERS),
        }
    }

    fn complain(&mut self, setting: &'static str, problem: impl AsRef<str>, advice: &str) {
        self.note(setting, problem.as_ref(), advice);
    }

    /// The same of a value, which the problem follows.
    #[inline(never)]
    fn complain_of(&mut self, setting: &'static str, value: &str, problem: &str, advice: &str) {
        self.note(setting, &format!("\"{}\"{problem}", shown(value)), advice);
    }

    // In one place: there are very many complaints.
    #[inline(never)]
    fn note(&mut self, setting: &'static str, problem: &str, advice: &str) {
        let (mut problem, mut advice) = (String::from(problem), String::from(advice));
        // They need not be the cause.
        if self.environment.variable(setting).is_some_and(|value| is_quoted(&value)) {
            for (text, more) in [(&mut problem, QUOTED), (&mut advice, QUOTED_ADVICE)] {
                text.push_str("; ");
                text.push_str(more);
            }
        }
        self.complaints.push(Complaint { setting: SettingId::of(setting), problem, advice });
    }

    /// Complains of quotation marks around a value that has none in itself.
    fn complain_of_quotes(&mut self, setting: &'static str, advice: String) {
        let (setting, problem) = (SettingId::of(setting), QUOTED.into());
        self.complaints.push(Complaint { setting, problem, advice });
    }

    fn election(&mut self) -> Option<BlobName> {
        const ADVICE: &str = "name a container and a blob, like jobs/nightly";
        let Some(value) = self.get(variable::ELECTION) else {
            self.complain(variable::ELECTION, "no election is named", ADVICE);
            return None;
        };
        match BlobName::parse(&value) {
            Ok(name) => Some(name),
            Err(problems) => {
                for problem in problems {
                    self.complain_of(variable::ELECTION, &value, &format!(": {problem}"), ADVICE);
                }
                None
            }
        }
    }

    fn text(&mut self, setting: &'static str, longest: usize) -> Option<String> {
        let value = self.get(setting)?;
        if value.len() > longest {
            let problem = format!("has {} bytes, more than {longest}", value.len());
            self.complain(setting, problem, "shorten it; it is kept in the blob's metadata");
        }
        if !is_plain(&value) {
            let problem = "holds control characters";
            self.complain(setting, problem, "leave them out: it is shown on terminals");
        }
        Some(value)
    }

    fn duration(&mut self, setting: &'static str) -> Option<Duration> {
        let value = self.get(setting)?;
        match parse_duration(&value) {
            Some(duration) => Some(duration),
            None => {
                let advice = "write it with its unit, like 15s, 500ms or 1h30m";
                self.complain_of(setting, &value, " is not a duration", advice);
                None
            }
        }
    }

    fn timings(&mut self) -> Option<Timings> {
        let complaints = self.complaints.len();
        let mut wanted = Wanted {
            lease: self.duration(variable::LEASE).or(self.lease),
            margin: self.duration(variable::MARGIN),
            renew: self.duration(variable::RENEW),
            poll: self.duration(variable::POLL),
            request_timeout: self.duration(variable::REQUEST_TIMEOUT),
            failover: self.duration(variable::FAILOVER),
            incomplete: false,
        };
        wanted.incomplete = self.complaints.len() > complaints;
        if wanted.failover.is_some() && self.lease.is_some() {
            let problem = "an invocation that is one whole turn cannot use failover";
            let advice = "leave it out, or let a host call the component in steps";
            self.complain(variable::FAILOVER, String::from(problem), advice);
        }
        wanted
            .judge()
            .map_err(|breaches| {
                self.complaints.extend(breaches.into_iter().map(|breach| Complaint {
                    setting: SettingId::of(match breach.setting {
                        Setting::Lease => variable::LEASE,
                        Setting::Margin => variable::MARGIN,
                        Setting::Renew => variable::RENEW,
                        Setting::Poll => variable::POLL,
                        Setting::RequestTimeout => variable::REQUEST_TIMEOUT,
                        Setting::Failover => variable::FAILOVER,
                    }),
                    problem: breach.problem,
                    advice: breach.advice,
                }));
            })
            .ok()
    }

    /// A duration that fits; None also when it was complained about.
    fn duration_in(
        &mut self,
        setting: &'static str,
        range: RangeInclusive<Duration>,
        advice: &str,
    ) -> Option<Duration> {
        let duration = self.duration(setting)?;
        if let Some(problem) = outside(duration, &range) {
            self.complain(setting, problem, advice);
        }
        Some(duration)
    }

    fn max_tenure(&mut self, timings: Option<&Timings>) -> Option<Duration> {
        let advice = "choose far more than a lease, like 1h; the leader changes each time";
        let least = timings.map_or(Duration::ZERO, |timings| 4 * timings.lease);
        self.duration_in(variable::MAX_TENURE, least..=limits::LONGEST_TENURE, advice)
    }

    fn failure_policy(&mut self, one_turn_a_term: bool) -> FailurePolicy {
        let turn_timeout = self.duration_in(
            variable::TURN_TIMEOUT,
            limits::TURN_TIMEOUT,
            "choose longer than the slowest successful turn, or leave it out",
        );
        let cool_down = self.duration_in(
            variable::COOL_DOWN,
            limits::COOL_DOWN,
            "choose long enough for another candidate to take over; 30s is usual",
        );
        let max_failures = match one_turn_a_term {
            true => limits::DEFAULT_MAX_FAILURES_WHILE_LEADING,
            false => limits::DEFAULT_MAX_FAILURES,
        };
        FailurePolicy {
            turn_timeout,
            max_failures: self.max_failures().unwrap_or(max_failures),
            cool_down: cool_down.unwrap_or(limits::DEFAULT_COOL_DOWN),
        }
    }

    fn max_failures(&mut self) -> Option<u32> {
        let advice = "choose how many failed turns in a row are too many; 0 allows any number";
        self.number(variable::MAX_FAILURES, limits::MAX_FAILURES, advice)
    }

    fn number(
        &mut self,
        setting: &'static str,
        range: RangeInclusive<u32>,
        advice: &str,
    ) -> Option<u32> {
        let value = self.get(setting)?;
        let number = value.trim().parse().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let (least, most) = (range.start(), range.end());
            let problem = format!(" is not a whole number from {least} to {most}");
            self.complain_of(setting, &value, &problem, advice);
        }
        number
    }
}

#[cfg(test)]
mod tests;
