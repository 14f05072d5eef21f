//! The settings as the election reads them, for messages of this program.

use super::Configuration;
use crate::settings::ResolvedSettings;
use chrono::{DateTime, Utc};
use tenure::engine::CandidateSettings;
use tenure_azure::credential::Credential;
use tenure_azure::secret::Secret;
use tenure_core::{Environment, FileError, Options, SettingId, Settings};

impl Configuration {
    /// Reads and validates the settings of the election. Returns none after adding complaints.
    pub(crate) fn read(&mut self) -> Option<Settings> {
        let read = Settings::read_from(&LocalEnvironment {
            settings: &self.settings,
            resolved: &self.resolved,
        });
        read.map_err(|complaints| self.add_complaints(complaints)).ok()
    }
}

/// Returns the expiry of the shared access signature in the current settings and their files. None
/// for any other credential.
pub(crate) fn expiry(settings: &CandidateSettings) -> Option<DateTime<Utc>> {
    match Settings::read_from(settings).ok()?.account.credential() {
        Credential::Sas(sas) => sas.validity_bounds().1,
        _ => None,
    }
}

/// Settings and the files that they name, as this process reads them. Messages name a setting as it
/// was given.
struct LocalEnvironment<'s> {
    settings: &'s CandidateSettings,
    resolved: &'s ResolvedSettings,
}

impl Environment for LocalEnvironment<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        self.settings.variable(name)
    }

    fn file(&self, path: &str) -> Result<Secret, FileError> {
        self.settings.file(path)
    }

    fn options(&self) -> Option<&Options> {
        self.settings.options()
    }

    fn setting_name(&self, setting: SettingId, about: SettingId) -> String {
        let row = |id: SettingId| self.resolved.find_by_variable(id.variable());
        match row(setting) {
            Some(known) => {
                let about = row(about).and_then(|about| self.resolved.get(about));
                self.resolved.display_name(known, about)
            }
            None => setting.variable().to_owned(),
        }
    }
}
