//! The settings of a candidate, as the election component reads them: environment variables.

use std::fmt;
use std::time::Duration;
use zeroize::Zeroize;

/// The names of the settings. The component judges the values, and knows the defaults.
pub mod names {
    #[doc(inline)]
    pub use tenure_core::variable::*;

    /// Set to `true`, reports hold the leader's last will. For programs, not for people.
    pub const LAST_WILL: &str = tenure_core::LastWill::VARIABLE;

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
        let mut settings = settings;
        settings.remove(names::LEASE);
        assert_eq!(settings, Settings::new());
    }
}
