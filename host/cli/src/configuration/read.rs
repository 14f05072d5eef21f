//! The settings as the election reads them, for what this program says of them itself.

use super::Configuration;
use crate::settings::Given;
use chrono::{DateTime, Utc};
use tenure::engine::CandidateSettings;
use tenure_azure::credential::Credential;
use tenure_azure::secret::Secret;
use tenure_core::{Environment, Options, SettingId, Settings, Unreadable};

impl Configuration {
    /// Reads and judges the settings of the election; none where something is wrong, which is added to the complaints.
    pub(crate) fn read(&mut self) -> Option<Settings> {
        let read = Settings::read_from(&Here { settings: &self.settings, given: &self.given });
        read.map_err(|complaints| self.add(complaints)).ok()
    }
}

/// When the shared access signature of these settings expires, as they and their files are at this moment; none
/// for any other credential.
pub(crate) fn expiry(settings: &CandidateSettings) -> Option<DateTime<Utc>> {
    match Settings::read_from(settings).ok()?.account.credential() {
        Credential::Sas(sas) => sas.bounds().1,
        _ => None,
    }
}

/// Settings and the files that they name, as this process finds them. Texts call a setting as it was given.
struct Here<'s> {
    settings: &'s CandidateSettings,
    given: &'s Given,
}

impl Environment for Here<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        self.settings.variable(name)
    }

    fn file(&self, path: &str) -> Result<Secret, Unreadable> {
        self.settings.file(path)
    }

    fn options(&self) -> Option<&Options> {
        self.settings.options()
    }

    fn called(&self, setting: SettingId, about: SettingId) -> String {
        let row = |id: SettingId| self.given.of_variable(id.variable());
        match row(setting) {
            Some(row_of_it) => {
                let about = row(about).and_then(|about| self.given.get(about));
                self.given.called(row_of_it, about)
            }
            None => setting.variable().to_owned(),
        }
    }
}
