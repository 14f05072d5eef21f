//! What the environment says: the only way in which a candidate is configured.

use core::ops::RangeInclusive;
use core::time::Duration;

use super::slots::{Agenda, Cron, CronError, Delivery, Missed, Schedule, ZONES_OF, Zone};
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
const MOST_ATTEMPTS: u32 = 100;
const MOST_MISSED: u32 = 1000;
const JITTER: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(24 * 3600);

/// A slot that nobody could claim for so long was missed; two leases where they are longer.
const TOLERANCE: Duration = Duration::from_secs(60);

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

    fn agenda(&mut self, election: Option<&BlobName>, timings: Option<&Timings>) -> Agenda {
        let schedule = self.schedule();
        let jitter = self.jitter(schedule.as_ref());
        let lease = timings.map_or(Duration::ZERO, |timings| timings.lease);
        Agenda {
            schedule,
            delivery: self.delivery(),
            missed: self.missed(),
            tolerance: TOLERANCE.max(2 * lease),
            delay: election.map_or(Duration::ZERO, |e| Agenda::delay(&e.to_string(), jitter)),
            on_start: self.text(variable::ON_START, LONGEST_NAME),
        }
    }

    fn schedule(&mut self) -> Option<Schedule> {
        let every = self.every();
        let cron = self.cron();
        let both = [variable::EVERY, variable::CRON].map(|name| self.get(name).is_some());
        if both == [true; 2] {
            let problem = format!("is set beside {}", variable::EVERY);
            self.complain(variable::CRON, problem, "choose one of the two for the timer");
        }
        cron.or(every)
    }

    fn every(&mut self) -> Option<Schedule> {
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

    fn cron(&mut self) -> Option<Schedule> {
        let zone = self.zone();
        let text = self.get(variable::CRON)?;
        match Cron::parse(&text) {
            Ok(cron) => Some(Schedule::Cron(Box::new(cron), zone?)),
            Err(errors) => {
                for CronError { position, problem, expected } in errors {
                    let problem =
                        format!("\"{}\", at character {position}: {problem}", shown(&text));
                    self.complain(variable::CRON, problem, &format!("expected: {expected}"));
                }
                None
            }
        }
    }

    fn zone(&mut self) -> Option<Zone> {
        let Some(name) = self.get(variable::TIME_ZONE) else { return Some(Zone::UTC) };
        let name = name.trim();
        if self.get(variable::CRON).is_none() {
            let problem = format!("is set without {}", variable::CRON);
            self.complain(variable::TIME_ZONE, problem, "leave it out; intervals have no zone");
        }
        let zone = Zone::named(name);
        if zone.is_none() {
            let problem = format!("\"{}\" is no time zone of IANA's {ZONES_OF}", shown(name));
            self.complain(variable::TIME_ZONE, problem, "write it like Europe/Berlin, or UTC");
        }
        zone
    }

    /// Less than what lies between two slots, so that they stay in order.
    fn jitter(&mut self, schedule: Option<&Schedule>) -> Duration {
        const ADVICE: &str = "choose less than the interval between two turns, like 30s or 5m";
        let jitter = self.duration_in(variable::JITTER, JITTER, ADVICE).unwrap_or_default();
        let shortest = schedule.and_then(Schedule::shortest);
        if let Some(shortest) = shortest.filter(|shortest| *shortest <= jitter && !jitter.is_zero())
        {
            let [jitter, shortest] = [jitter, shortest].map(format_duration);
            let problem =
                format!("{jitter} is not less than {shortest}, the interval of the turns");
            self.complain(variable::JITTER, problem, ADVICE);
        }
        jitter
    }

    fn delivery(&mut self) -> Delivery {
        let attempts = self.number(
            variable::MAX_ATTEMPTS,
            1..=MOST_ATTEMPTS,
            "choose how often a slot may be tried; 5 is usual",
        );
        let value = self.get(variable::DELIVERY);
        match value.as_deref().map(str::trim) {
            Some("at-least-once") => {
                return Delivery::AtLeastOnce { max_attempts: attempts.unwrap_or(5) };
            }
            Some("at-most-once") | None if attempts.is_some() => {
                let problem = "is set, but each slot is tried once".into();
                let advice = "leave it out, or set TENURE_DELIVERY=at-least-once";
                self.complain(variable::MAX_ATTEMPTS, problem, advice);
            }
            Some("at-most-once") | None => {}
            Some(other) => {
                let problem = format!("\"{}\" is no rule of delivery", shown(other));
                let advice = "choose at-most-once (a turn that went wrong is not repeated) or \
                              at-least-once (it is)";
                self.complain(variable::DELIVERY, problem, advice);
            }
        }
        Delivery::AtMostOnce
    }

    fn missed(&mut self) -> Missed {
        let Some(value) = self.get(variable::MISSED) else { return Missed::Once };
        let mut words = value.split_whitespace();
        let number = |word: &str| word.parse().ok().filter(|n| (1..=MOST_MISSED).contains(n));
        match (words.next(), words.next().map(number), words.next()) {
            (Some("skip"), None, None) => Missed::Skip,
            (Some("once"), None, None) => Missed::Once,
            (Some("all"), Some(Some(most)), None) => Missed::All(most),
            _ => {
                let problem = format!("\"{}\" is no rule for missed slots", shown(&value));
                let advice = "choose skip (they do not run), once (one turn for all of them), or \
                              all N (each, of more than N the newest; N from 1 to 1000)";
                self.complain(variable::MISSED, problem, advice);
                Missed::Once
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
        assert_eq!(settings.agenda.schedule, None);
        let cool_down = Duration::from_secs(30);
        let watchdog = Watchdog { turn_timeout: None, max_failures: 3, cool_down };
        assert_eq!(settings.watchdog, watchdog);
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
            (variable::TURN_TIMEOUT, "99ms"),
            (variable::MAX_FAILURES, "-1"),
            (variable::COOL_DOWN, "2h"),
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
            variable::TURN_TIMEOUT,
            variable::MAX_FAILURES,
            variable::COOL_DOWN,
            variable::CONNECTION_STRING,
        ] {
            assert!(complaints.iter().any(|c| c.setting == setting), "{setting}: {complaints:#?}");
        }
        assert!(complaints.iter().all(|c| !c.problem.is_empty() && !c.advice.is_empty()));
    }

    #[test]
    fn the_watchdog_is_judged_at_its_bounds() {
        let judged = |name, value| {
            read(&[(variable::ELECTION, "leases/leader"), AZURITE, (name, value)])
                .map(|settings| settings.watchdog)
                .map_err(|complaints| complaints.into_iter().map(|c| c.setting).collect::<Vec<_>>())
        };
        for (name, good, bad) in [
            (variable::TURN_TIMEOUT, ["100ms", "24h"], ["99.9ms", "24h 1ms", "0s"]),
            (variable::COOL_DOWN, ["1s", "1h"], ["999ms", "3601s", "often"]),
            (variable::MAX_FAILURES, ["0", "1000"], ["1001", "three", "1.5"]),
        ] {
            assert!(good.iter().all(|value| judged(name, value).is_ok()), "{name}");
            for value in bad {
                assert_eq!(judged(name, value), Err(vec![name]), "{value}");
            }
        }
        let strict = judged(variable::TURN_TIMEOUT, "90s").unwrap();
        assert_eq!(strict.turn_timeout, Some(Duration::from_secs(90)));
        assert_eq!(judged(variable::MAX_FAILURES, "0").unwrap().max_failures, 0);
        assert_eq!(judged(variable::COOL_DOWN, "5s").unwrap().cool_down, Duration::from_secs(5));
    }

    #[test]
    fn nothing_set_names_what_is_needed() {
        let complaints = read(&[]).unwrap_err();
        let settings: Vec<_> = complaints.iter().map(|c| c.setting).collect();
        assert_eq!(settings, [variable::ELECTION, variable::CONNECTION_STRING]);
    }
}
