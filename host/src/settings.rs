//! The settings of a candidate, as the election component reads them: environment variables.

use std::fmt;
use std::time::Duration;
use zeroize::Zeroize;

/// The names of the settings. The component judges the values, and knows the defaults.
pub mod names {
    /// The election: `container/blob`.
    pub const ELECTION: &str = "TENURE_ELECTION";
    /// How candidates name this one.
    pub const NAME: &str = "TENURE_NAME";
    /// How long a lease lasts without a renewal.
    pub const LEASE: &str = "TENURE_LEASE";
    /// How long before the end of the lease the leader stops.
    pub const MARGIN: &str = "TENURE_MARGIN";
    /// How often the leader renews.
    pub const RENEW: &str = "TENURE_RENEW";
    /// How often a follower looks, at least.
    pub const POLL: &str = "TENURE_POLL";
    /// How long one request may take.
    pub const REQUEST_TIMEOUT: &str = "TENURE_REQUEST_TIMEOUT";
    /// The interval between turns.
    pub const EVERY: &str = "TENURE_EVERY";
    /// The times of the turns, as a cron expression.
    pub const CRON: &str = "TENURE_CRON";
    /// The time zone of the cron expression.
    pub const TIME_ZONE: &str = "TENURE_TIME_ZONE";
    /// Over how long the slots of all elections are spread.
    pub const JITTER: &str = "TENURE_JITTER";
    /// How often a slot is run.
    pub const DELIVERY: &str = "TENURE_DELIVERY";
    /// After so many turns a slot is abandoned.
    pub const MAX_ATTEMPTS: &str = "TENURE_MAX_ATTEMPTS";
    /// What becomes of missed slots.
    pub const MISSED: &str = "TENURE_MISSED";
    /// A value that has one turn for ever.
    pub const ON_START: &str = "TENURE_ON_START";
    /// One turn for each leadership, as long as it lasts, instead of a timer.
    pub const WHILE_LEADING: &str = "TENURE_WHILE_LEADING";
    /// A leader makes way for a candidate of higher priority.
    pub const PRIORITY: &str = "TENURE_PRIORITY";
    /// A leader resigns after so long.
    pub const MAX_TENURE: &str = "TENURE_MAX_TENURE";
    /// How long after its start a candidate stays out of the race.
    pub const WARM_UP: &str = "TENURE_WARM_UP";
    /// Where the leader can be reached: recorded for others.
    pub const ADDRESS: &str = "TENURE_ADDRESS";
    /// The longest that a turn may take.
    pub const TURN_TIMEOUT: &str = "TENURE_TURN_TIMEOUT";
    /// So many failed turns in a row end the leadership.
    pub const MAX_FAILURES: &str = "TENURE_MAX_FAILURES";
    /// How long a candidate stays out of the race after its work ended its leadership.
    pub const COOL_DOWN: &str = "TENURE_COOL_DOWN";
    /// The storage account and its credential.
    pub const CONNECTION_STRING: &str = "AZURE_STORAGE_CONNECTION_STRING";
    /// A file that holds it, read again in each step.
    pub const CONNECTION_STRING_FILE: &str = "AZURE_STORAGE_CONNECTION_STRING_FILE";

    /// The token by which operators steer a candidate. The host reads it, and not the component.
    pub const CONTROL_TOKEN: &str = "TENURE_CONTROL_TOKEN";

    /// How the names of all settings begin, those of the credentials too, which are the component's
    /// business alone.
    pub const PREFIXES: [&str; 3] = ["TENURE_", "AZURE_", "IDENTITY_"];
}

/// The environment of the election component, and nothing but that: it holds the storage
/// credential. `Debug` shows names only; the values are overwritten when it is dropped.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings(Vec<(String, String)>);

impl Settings {
    /// No settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// The settings among the variables of this process. Blank ones count as not set.
    pub fn from_env() -> Self {
        let mut settings = Self::new();
        for (name, value) in std::env::vars_os() {
            let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) else { continue };
            let ours = names::PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            if ours && !value.trim().is_empty() {
                settings.set(&name, value);
            }
        }
        settings
    }

    /// Sets `name` (see [`names`]) to `value`.
    pub fn set(&mut self, name: &str, value: impl Into<String>) -> &mut Self {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_owned(), value.into()));
        self
    }

    /// As [`set`](Settings::set), for building settings in one expression.
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
        let read = self.read(&[
            names::LEASE,
            names::MARGIN,
            names::RENEW,
            names::POLL,
            names::REQUEST_TIMEOUT,
            names::TURN_TIMEOUT,
        ])?;
        Some(Periods {
            validity: read.timings.lease.saturating_sub(read.timings.margin),
            renew: read.timings.renew,
            turn_timeout: read.failure_policy.turn_timeout,
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

    pub(crate) fn environment(&self) -> &[(String, String)] {
        &self.0
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        for (_, value) in &mut self.0 {
            value.zeroize();
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// How long a leader may act, and its work may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    /// How long a leadership lasts without a renewal: the lease less the margin.
    pub validity: Duration,
    /// From one renewal to the next.
    pub renew: Duration,
    /// The longest that a turn may take.
    pub turn_timeout: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_printed_but_names() {
        let settings = Settings::new().with(names::CONNECTION_STRING, "AccountKey=c2VjcmV0");
        assert_eq!(format!("{settings:?}"), r#"{"AZURE_STORAGE_CONNECTION_STRING"}"#);
    }

    #[test]
    fn the_newest_value_counts() {
        let settings = Settings::new().with(names::LEASE, "15s").with(names::LEASE, "30s");
        assert_eq!(settings.get(names::LEASE), Some("30s"));
        assert_eq!(settings.environment().len(), 1);
    }
}
