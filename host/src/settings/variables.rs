//! Settings as the election component reads them: environment variables.

use super::{Replacement, Schedule};
use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::time::Duration;
use tenure_core::{Environment, Failover, Secret, SettingId, Unreadable, format_duration};
use zeroize::Zeroize;

/// The names of the settings. The component judges the values, and knows the defaults.
pub mod names {
    #[doc(inline)]
    pub use tenure_core::variable::*;

    /// Set to `true`, reports hold the leader's last will. For programs, not for people.
    pub const LAST_WILL: &str = tenure_core::LastWill::VARIABLE;

    /// Set to `true`, the host sends the requests that reports hold. For programs, not for people.
    pub const BACKGROUND: &str = tenure_core::Beside::VARIABLE;

    /// Set to `true`, it looks and takes no part. For programs, not for people.
    pub const OBSERVE: &str = tenure_core::Settings::OBSERVE;

    /// Set to `true`, the election coordinates shares. For programs, not for people.
    pub const COORDINATES: &str = tenure_core::Settings::COORDINATES;

    /// Set to `true`, the work has no timer, and runs for triggers only. For programs, not for people.
    pub const ON_TRIGGER: &str = tenure_core::Settings::ON_TRIGGER;

    /// How often a leader reads orders: a duration, or `never`. For programs, not for people.
    pub const ORDERS: &str = tenure_core::Settings::ORDERS;

    /// How the names of all settings begin, those of the credentials too, which are the component's
    /// business alone.
    pub const PREFIXES: [&str; 3] = ["TENURE_", "AZURE_", "IDENTITY_"];

    /// Returns true if platforms or the SDKs of Azure set this variable: it says how requests are authorised.
    pub(in crate::settings) fn is_of_a_credential(name: &str) -> bool {
        !name.starts_with("TENURE_")
    }
}

/// What the periods of a candidate follow from.
const PERIODS: &[&str] = &[
    names::LEASE,
    names::MARGIN,
    names::RENEW,
    names::POLL,
    names::FAILOVER,
    names::REQUEST_TIMEOUT,
];

/// The environment of the election component, and nothing but that: it holds the storage
/// credential. `Debug` shows names only; the values are overwritten when it is dropped.
///
/// For programs that are configured from outside, by a deployment; others write
/// [`Settings`](super::Settings), which become these.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(Vec<(String, String)>);

impl Variables {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// The settings among the variables of this process. Blank ones count as not set. Without
    /// [`NAME`](names::NAME) the candidate is called `unnamed`: add one with
    /// [`default_name`](super::default_name).
    pub fn from_env() -> Self {
        let mut variables = Self::new();
        for (name, value) in std::env::vars_os() {
            let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) else { continue };
            let ours = names::PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            if ours && !value.trim().is_empty() {
                variables.set(&name, value);
            }
        }
        variables
    }

    /// Returns the same with this schedule. Without one there are no turns.
    #[must_use]
    pub fn on(self, schedule: Schedule) -> Self {
        match schedule {
            Schedule::Every(interval) => self.with(names::EVERY, format_duration(interval)),
            Schedule::Cron { expression, time_zone: None } => self.with(names::CRON, expression),
            Schedule::Cron { expression, time_zone: Some(zone) } => {
                self.with(names::CRON, expression).with(names::TIME_ZONE, zone)
            }
            Schedule::WhileLeading => self.with(names::WHILE_LEADING, "true"),
            Schedule::OnTrigger => self.with(names::ON_TRIGGER, "true"),
        }
    }

    /// Those that say with what requests are authorised.
    pub(super) fn of_credentials(mut self) -> Self {
        let others = |name: &&String| !names::is_of_a_credential(name);
        let others: Vec<_> = self.0.iter().map(|(name, _)| name).filter(others).cloned().collect();
        others.iter().for_each(|name| self.remove(name));
        self
    }

    /// Sets `name` (see [`names`]) to `value`.
    pub fn set(&mut self, name: &str, value: impl Into<String>) -> &mut Self {
        self.remove(name);
        self.0.push((name.to_owned(), value.into()));
        self
    }

    /// Leaves `name` out.
    pub fn remove(&mut self, name: &str) {
        for (_, value) in self.0.iter_mut().filter(|(known, _)| known == name) {
            value.zeroize();
        }
        self.0.retain(|(known, _)| known != name);
    }

    /// As [`set`](Variables::set), for building them in one expression.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.set(name, value);
        self
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The periods that a candidate with these settings keeps; none where one of them is wrong.
    pub fn periods(&self) -> Option<Periods> {
        let read = self.read(PERIODS)?;
        let (timings, failover) = (read.timings, read.timings.failover);
        let by_lease = timings.lease.saturating_sub(timings.margin);
        Some(Periods {
            by_lease,
            validity: failover.map_or(by_lease, |failover| by_lease.min(failover.acts())),
            renew: failover.map_or(timings.renew, Failover::beat),
            failover: failover.is_some(),
        })
    }

    /// How soon a leader with these settings is replaced when it dies; none where one of them is wrong. It counts as
    /// supervised where it is asked for its [last will](names::LAST_WILL).
    pub fn replacement(&self) -> Option<Replacement> {
        let timings = self.read(PERIODS)?.timings;
        Some(Replacement {
            promise: timings.failover.map(Failover::promise),
            lease: timings.lease,
            poll: timings.poll,
            supervised: self.get(names::LAST_WILL) == Some("true"),
            watched: self.get(names::ADDRESS).is_some_and(Replacement::may_be_watched),
        })
    }

    /// The timer as the record of a leader with these settings has it; none without one, or where
    /// it is wrong.
    pub fn schedule(&self) -> Option<String> {
        self.read(&[names::EVERY, names::CRON, names::TIME_ZONE])?.agenda.description()
    }

    /// Some of the settings as the component reads them; none where one of these is wrong.
    fn read(&self, some: &[&str]) -> Option<tenure_core::Settings> {
        let variable = |name: &str| match name {
            names::ELECTION => Some("any/any".to_owned()),
            names::CONNECTION_STRING => Some("UseDevelopmentStorage=true".to_owned()),
            name if some.contains(&name) => self.get(name).map(str::to_owned),
            _ => None,
        };
        tenure_core::Settings::read(variable).ok()
    }

    /// All of them, secrets too: for the environment of a component.
    pub fn environment(&self) -> &[(String, String)] {
        &self.0
    }
}

/// These, and the files of this machine.
impl Environment for Variables {
    fn variable(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    fn file(&self, path: &str) -> Result<Secret, Unreadable> {
        /// No secret is larger.
        const MOST: u64 = 64 * 1024;
        let file = File::open(path).map_err(|_| Unreadable::Missing)?;
        let mut text = String::new();
        match file.take(MOST + 1).read_to_string(&mut text) {
            Ok(size) if size as u64 <= MOST => Ok(text.into()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(Unreadable::Missing),
            Err(error) if error.kind() == ErrorKind::IsADirectory => Err(Unreadable::Directory),
            _ => Err(Unreadable::NoText),
        }
    }

    fn called(&self, setting: SettingId, _about: SettingId) -> String {
        setting.field()
    }
}

impl Drop for Variables {
    fn drop(&mut self) {
        for (_, value) in &mut self.0 {
            value.zeroize();
        }
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// How long a leader may act, and its work may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    /// How long a leadership lasts without a renewal where there are no beats: the lease less the margin. With failover it
    /// lasts that long too on an account that keeps versions.
    pub by_lease: Duration,
    /// How long a leadership lasts without a renewal, the lease less the margin; or without a beat.
    pub validity: Duration,
    /// From one renewal, or one beat, to the next.
    pub renew: Duration,
    /// It beats.
    pub failover: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_printed_but_names() {
        let variables = Variables::new().with(names::CONNECTION_STRING, "AccountKey=c2VjcmV0");
        assert_eq!(format!("{variables:?}"), r#"{"AZURE_STORAGE_CONNECTION_STRING"}"#);
    }

    #[test]
    fn the_newest_value_counts() {
        let variables = Variables::new().with(names::LEASE, "15s").with(names::LEASE, "30s");
        assert_eq!(variables.get(names::LEASE), Some("30s"));
        assert_eq!(variables.environment().len(), 1);
        let mut variables = variables;
        variables.remove(names::LEASE);
        assert_eq!(variables, Variables::new());
    }
}
