//! What the environment says: the only way in which a candidate is configured.

use core::time::Duration;

use super::duration::{format_duration, parse_duration};
use super::slots::Schedule;
use super::timings::{Setting, Timings, Wanted};
use crate::azure::account::Account;
use crate::azure::name::BlobName;
use crate::prelude::*;

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
    /// The period of the timer. Without it no turn is ever claimed.
    pub const EVERY: &str = "TENURE_EVERY";
    /// The storage account and its key.
    pub const CONNECTION_STRING: &str = "AZURE_STORAGE_CONNECTION_STRING";
}

const LONGEST_NAME: usize = 128;
const LONGEST_ADDRESS: usize = 256;

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
    /// Its timer, when it has one.
    pub schedule: Option<Schedule>,
}

impl Settings {
    /// Reads and judges all variables. A variable that is set but empty counts as not set.
    ///
    /// # Errors
    /// Every complaint at once; none of them holds a secret.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Vec<Complaint>> {
        let mut reader = Reader { variable, complaints: Vec::new() };
        let election = reader.election();
        let account = reader.account();
        let name = reader.text(variable::NAME, LONGEST_NAME).unwrap_or_else(|| "unnamed".into());
        let address = reader.text(variable::ADDRESS, LONGEST_ADDRESS);
        let timings = reader.timings();
        let schedule = reader.schedule();
        match (election, account, timings) {
            (Some(election), Some(account), Some(timings)) if reader.complaints.is_empty() => {
                Ok(Self { election, account, name, address, timings, schedule })
            }
            _ => Err(reader.complaints),
        }
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

struct Reader<V> {
    variable: V,
    complaints: Vec<Complaint>,
}

impl<V: Fn(&str) -> Option<String>> Reader<V> {
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
            lease: self.duration(variable::LEASE),
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

    fn schedule(&mut self) -> Option<Schedule> {
        let every = self.duration(variable::EVERY)?;
        match Schedule::every(every) {
            Ok(schedule) => Some(schedule),
            Err(rule) => {
                let problem = format!("{} {rule}", format_duration(every));
                self.complain(variable::EVERY, problem, "choose a period like 5s, 10m or 24h");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, Vec<Complaint>> {
        let found = |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
        Settings::read(found)
    }

    const AZURITE: (&str, &str) = (variable::CONNECTION_STRING, "UseDevelopmentStorage=true");

    #[test]
    fn an_election_and_an_account_are_enough() {
        let settings = read(&[(variable::ELECTION, "leases/leader"), AZURITE]).unwrap();
        assert_eq!(settings.schedule, None);
        assert_eq!(settings.needs().origins, ["http://127.0.0.1:10000"]);
        assert_eq!(settings.needs().files, Vec::<String>::new());
    }

    #[test]
    fn tells_every_complaint_at_once() {
        let complaints = read(&[
            (variable::ELECTION, "L/"),
            (variable::NAME, &"n".repeat(129)),
            (variable::ADDRESS, &"a".repeat(257)),
            (variable::LEASE, "14s"),
            (variable::MARGIN, "soon"),
            (variable::RENEW, "5"),
            (variable::POLL, "0s"),
            (variable::REQUEST_TIMEOUT, "1h"),
            (variable::EVERY, "10ms"),
            (variable::CONNECTION_STRING, "AccountName=a"),
        ])
        .unwrap_err();
        for setting in [
            variable::ELECTION,
            variable::NAME,
            variable::ADDRESS,
            variable::LEASE,
            variable::MARGIN,
            variable::RENEW,
            variable::POLL,
            variable::REQUEST_TIMEOUT,
            variable::EVERY,
            variable::CONNECTION_STRING,
        ] {
            assert!(complaints.iter().any(|c| c.setting == setting), "{setting}: {complaints:#?}");
        }
        assert!(complaints.iter().all(|c| !c.problem.is_empty() && !c.advice.is_empty()));
    }

    #[test]
    fn nothing_set_names_what_is_needed() {
        let complaints = read(&[]).unwrap_err();
        let settings: Vec<_> = complaints.iter().map(|c| c.setting).collect();
        assert_eq!(settings, [variable::ELECTION, variable::CONNECTION_STRING]);
    }
}
