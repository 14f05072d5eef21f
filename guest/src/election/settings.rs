//! What the environment says: the only way in which a candidate is configured.

mod agenda;

use core::ops::RangeInclusive;
use core::time::Duration;

use super::slots::Agenda;
use super::timings::{Setting, Timings, Wanted};
use super::watchdog::Watchdog;
use crate::azure::account::Account;
use crate::azure::name::BlobName;
use crate::prelude::*;
use tenure_base::duration::{format_duration, parse_duration};

/// The variables, by the names that Azure users know and the README lists.
pub mod variable {
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
    /// The longest a follower waits between two looks.
    pub const POLL: &str = "TENURE_POLL";
    /// The longest that one request may take.
    pub const REQUEST_TIMEOUT: &str = "TENURE_REQUEST_TIMEOUT";
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
    /// A value that has one turn for ever: a release, for example.
    pub const ON_START: &str = "TENURE_ON_START";
    /// The longest that a turn may take. Without it, a turn may last as long as the leadership.
    pub const TURN_TIMEOUT: &str = "TENURE_TURN_TIMEOUT";
    /// So many failed turns in a row end the leadership; 0: never.
    pub const MAX_FAILURES: &str = "TENURE_MAX_FAILURES";
    /// How long a candidate stays out of the race after its work ended its leadership.
    pub const COOL_DOWN: &str = "TENURE_COOL_DOWN";
    /// The storage account and its key.
    pub const CONNECTION_STRING: &str = "AZURE_STORAGE_CONNECTION_STRING";
}

const LONGEST_NAME: usize = 128;
const LONGEST_ADDRESS: usize = 256;

const TURN_TIMEOUT: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(24 * 3600);
const COOL_DOWN: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
const MOST_FAILURES: u32 = 1000;

/// The lease of a single invocation, which does not renew beside its turn.
const ONE_SHOT_LEASE: Duration = Duration::from_secs(60);

/// One thing that is wrong with the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The variable.
    pub setting: &'static str,
    /// The value, unless it is secret, and the rule that it breaks.
    pub problem: String,
    /// What to do about it.
    pub advice: String,
}

/// What the host must grant to the component, and to nobody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Origins that requests go to.
    pub origins: Vec<String>,
    /// Files that are read.
    pub files: Vec<String>,
}

/// Everything that a candidate was told.
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
    pub watchdog: Watchdog,
}

impl Settings {
    /// Reads and judges all variables. A variable that is set but empty counts as not set.
    ///
    /// # Errors
    /// Every complaint at once; none of them holds a secret.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Vec<Complaint>> {
        Reader { variable: &variable, lease: None, complaints: Vec::new() }.settings()
    }

    /// The same for a single invocation, which is one whole turn: it has to know of a turn, and
    /// its lease is the longest one unless another is set.
    ///
    /// # Errors
    /// As [`Settings::read`].
    pub fn one_shot(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Vec<Complaint>> {
        let lease = Some(ONE_SHOT_LEASE);
        let mut reader = Reader { variable: &variable, lease, complaints: Vec::new() };
        let timers = [variable::EVERY, variable::CRON, variable::ON_START];
        if timers.iter().all(|name| reader.get(name).is_none()) {
            let problem = "no timer is set, so there is never a turn to run".into();
            let advice = "set it like 10m or 24h, or TENURE_CRON: how often a turn is to run, however \
                          often this is called";
            reader.complain(variable::EVERY, problem, advice);
        }
        reader.settings()
    }

    /// What the host must allow.
    pub fn needs(&self) -> Needs {
        Needs { origins: vec![self.account.origin().to_string()], files: Vec::new() }
    }
}

/// A value in a complaint. One that looks like a secret put into the wrong place is not shown.
fn shown(value: &str) -> &str {
    let lower = value.to_ascii_lowercase();
    let secret = ["accountkey=", "sharedaccesssignature=", "sig="];
    if value.len() > 1100 || secret.iter().any(|mark| lower.contains(mark)) { "…" } else { value }
}

struct Reader<'v> {
    // One body for all ways to look a variable up.
    variable: &'v dyn Fn(&str) -> Option<String>,
    /// The lease where none is set.
    lease: Option<Duration>,
    complaints: Vec<Complaint>,
}

impl Reader<'_> {
    fn settings(self) -> Result<Settings, Vec<Complaint>> {
        let mut reader = self;
        let election = reader.election();
        let account = reader.account();
        let name = reader.text(variable::NAME, LONGEST_NAME).unwrap_or_else(|| "unnamed".into());
        let address = reader.text(variable::ADDRESS, LONGEST_ADDRESS);
        let timings = reader.timings();
        let agenda = reader.agenda(election.as_ref(), timings.as_ref());
        let watchdog = reader.watchdog();
        match (election, account, timings) {
            (Some(election), Some(account), Some(timings)) if reader.complaints.is_empty() => {
                Ok(Settings { election, account, name, address, timings, agenda, watchdog })
            }
            _ => Err(reader.complaints),
        }
    }

    fn get(&self, setting: &str) -> Option<String> {
        (self.variable)(setting).filter(|value| !value.trim().is_empty())
    }

    fn complain(&mut self, setting: &'static str, problem: String, advice: &str) {
        self.complaints.push(Complaint { setting, problem, advice: advice.into() });
    }

    fn election(&mut self) -> Option<BlobName> {
        const ADVICE: &str = "name a container and a blob, for example leases/nightly-report";
        let Some(value) = self.get(variable::ELECTION) else {
            self.complain(variable::ELECTION, "no election is named".into(), ADVICE);
            return None;
        };
        match BlobName::parse(&value) {
            Ok(name) => Some(name),
            Err(problems) => {
                for problem in problems {
                    let problem = format!("\"{}\": {problem}", shown(&value));
                    self.complain(variable::ELECTION, problem, ADVICE);
                }
                None
            }
        }
    }

    fn account(&mut self) -> Option<Account> {
        let Some(value) = self.get(variable::CONNECTION_STRING) else {
            self.complain(
                variable::CONNECTION_STRING,
                "no storage account is given".into(),
                "set it to the connection string of the account (Azure portal: Access keys), or \
                 to UseDevelopmentStorage=true for Azurite on its usual port",
            );
            return None;
        };
        match Account::from_connection_string(&value) {
            Ok(account) => Some(account),
            Err(problems) => {
                for problem in problems {
                    self.complain(variable::CONNECTION_STRING, problem.problem, &problem.advice);
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
        if value.chars().any(char::is_control) {
            let problem = "holds control characters".to_string();
            self.complain(setting, problem, "leave them out: people see it on their terminals");
        }
        Some(value)
    }

    fn duration(&mut self, setting: &'static str) -> Option<Duration> {
        let value = self.get(setting)?;
        match parse_duration(&value) {
            Some(duration) => Some(duration),
            None => {
                let problem = format!("\"{}\" is not a duration", shown(&value));
                self.complain(setting, problem, "write it with its unit, like 15s, 500ms or 1h30m");
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
            incomplete: false,
        };
        wanted.incomplete = self.complaints.len() > complaints;
        wanted
            .judge()
            .map_err(|breaches| {
                self.complaints.extend(breaches.into_iter().map(|breach| Complaint {
                    setting: match breach.setting {
                        Setting::Lease => variable::LEASE,
                        Setting::Margin => variable::MARGIN,
                        Setting::Renew => variable::RENEW,
                        Setting::Poll => variable::POLL,
                        Setting::RequestTimeout => variable::REQUEST_TIMEOUT,
                    },
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
        if !range.contains(&duration) {
            let [duration, least, most] =
                [duration, *range.start(), *range.end()].map(format_duration);
            let problem = format!("{duration} is not between {least} and {most}");
            self.complain(setting, problem, advice);
        }
        Some(duration)
    }

    fn watchdog(&mut self) -> Watchdog {
        let turn_timeout = self.duration_in(
            variable::TURN_TIMEOUT,
            TURN_TIMEOUT,
            "choose longer than the slowest good turn takes, or leave it out",
        );
        let cool_down = self.duration_in(
            variable::COOL_DOWN,
            COOL_DOWN,
            "choose long enough for another candidate to take over; 30s is usual",
        );
        Watchdog {
            turn_timeout,
            max_failures: self.max_failures().unwrap_or(3),
            cool_down: cool_down.unwrap_or(Duration::from_secs(30)),
        }
    }

    fn max_failures(&mut self) -> Option<u32> {
        let advice = "choose how many failed turns in a row are too many; 0 allows any number";
        self.number(variable::MAX_FAILURES, 0..=MOST_FAILURES, advice)
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
            let problem =
                format!("\"{}\" is not a whole number from {least} to {most}", shown(&value));
            self.complain(setting, problem, advice);
        }
        number
    }
}

#[cfg(test)]
mod tests;
