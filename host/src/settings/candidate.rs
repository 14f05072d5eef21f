//! Settings of one candidate in the form of the core.

use super::{Schedule, Settings, Variables};
use crate::status::TakeoverTime;
use tenure_core::{
    Delivery, Environment, Failover, FileError, Missed, Options, Retries, Secret, SettingId,
};

/// Settings of one candidate: typed options, and the variables of its credential.
///
/// They are made from [`Settings`], or from the [`Variables`] of a program that is configured by
/// its deployment. The election component takes them as variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CandidateSettings {
    /// The settings without the credential.
    pub options: Options,
    /// Variables of the credential.
    pub credential: Variables,
}

impl CandidateSettings {
    /// Returns the settings with this schedule. Without a schedule there are no turns.
    #[must_use]
    pub fn with_schedule(mut self, schedule: Schedule) -> Self {
        match schedule {
            Schedule::Every(interval) => self.options.every = Some(interval),
            Schedule::Cron { expression, time_zone } => {
                (self.options.cron, self.options.time_zone) = (Some(expression), time_zone);
            }
            Schedule::WhileLeading => self.options.while_leading = Some(true),
            Schedule::OnTrigger => self.options.on_trigger = Some(true),
        }
        self
    }

    /// Returns the time until a dead leader with these settings is replaced. Returns `None` if a
    /// duration is invalid.
    ///
    /// The leader counts as supervised if it must provide a last will.
    pub fn takeover_time(&self) -> Option<TakeoverTime> {
        let timings = self.options.timings()?;
        Some(TakeoverTime {
            promise: timings.failover.map(Failover::promise),
            lease: timings.lease,
            poll: timings.poll,
            is_supervised: self.options.last_will == Some(true),
            is_watched: self.options.address.as_deref().is_some_and(TakeoverTime::may_be_watched),
        })
    }
}

impl From<Settings> for CandidateSettings {
    fn from(settings: Settings) -> Self {
        // Listed one by one, so that no field is forgotten.
        let Settings {
            election,
            credential,
            name,
            address,
            jitter,
            delivery,
            missed,
            lease,
            margin,
            renew,
            poll,
            failover,
            request_timeout,
            turn_timeout,
            max_failures,
            cool_down,
            max_tenure,
        } = settings;
        let (retries, max_attempts) = match delivery {
            Delivery::AtMostOnce => (None, None),
            Delivery::AtLeastOnce { max_attempts } => {
                (Some(Retries::UntilSuccess), Some(max_attempts))
            }
        };
        let options = Options {
            election: Some(election),
            name: Some(name.unwrap_or_else(Settings::default_name)),
            address,
            jitter: Some(jitter).filter(|jitter| !jitter.is_zero()),
            retries,
            max_attempts,
            missed: Some(missed).filter(|missed| *missed != Missed::Once),
            lease,
            margin,
            renew,
            poll,
            failover,
            request_timeout,
            turn_timeout,
            max_failures,
            cool_down,
            max_tenure,
            ..Options::default()
        };
        Self { options, credential: credential.into_variables() }
    }
}

impl From<Variables> for CandidateSettings {
    fn from(variables: Variables) -> Self {
        let options = Options::read(&|name| variables.get(name).map(str::to_owned));
        Self { options, credential: variables.credentials_only() }
    }
}

impl From<CandidateSettings> for Variables {
    fn from(CandidateSettings { options, credential }: CandidateSettings) -> Self {
        options
            .variables()
            .into_iter()
            .fold(credential, |variables, (name, value)| variables.with(name, value))
    }
}

/// Reads the options, and files of this machine.
impl Environment for CandidateSettings {
    fn variable(&self, name: &str) -> Option<String> {
        // Variables of credentials have other names.
        match name.starts_with("TENURE_") {
            true => {
                let mut variables = self.options.variables().into_iter();
                variables.find(|(known, _)| *known == name).map(|(_, value)| value)
            }
            false => self.credential.variable(name),
        }
    }

    fn file(&self, path: &str) -> Result<Secret, FileError> {
        self.credential.file(path)
    }

    fn options(&self) -> Option<&Options> {
        Some(&self.options)
    }

    fn setting_name(&self, setting: SettingId, _about: SettingId) -> String {
        setting.field_name()
    }
}
