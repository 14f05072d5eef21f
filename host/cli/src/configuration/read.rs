//! The settings as the election component reads them, for what this program says of them itself.

use super::Configuration;
use chrono::{DateTime, Utc};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use tenure::contract::Complaint;
use tenure::settings::Variables;
use tenure_azure::credential::Credential;
use tenure_azure::secret::Secret;
use tenure_core::{Environment, Settings, Unreadable};

/// No secret is larger.
const SECRET: u64 = 64 * 1024;

impl Configuration {
    /// What the component would read; none where something is wrong, which is added to the complaints.
    pub(crate) fn read(&mut self) -> Option<Settings> {
        match Settings::read(&Here(&self.settings)) {
            Ok(settings) => Some(settings),
            Err(complaints) => {
                self.add_of_core(complaints);
                None
            }
        }
    }

    /// Adds what the core complains about.
    pub(crate) fn add_of_core(&mut self, complaints: Vec<tenure_core::Complaint>) {
        let complaint = |tenure_core::Complaint { setting, problem, advice }| Complaint {
            setting: setting.to_owned(),
            problem,
            advice,
        };
        self.add(complaints.into_iter().map(complaint).collect());
    }
}

/// When the shared access signature of these settings expires, as they and their files are at this moment; none
/// for any other credential.
pub(crate) fn expiry(settings: &Variables) -> Option<DateTime<Utc>> {
    match Settings::read(&Here(settings)).ok()?.account.credential() {
        Credential::Sas(sas) => sas.bounds().1,
        _ => None,
    }
}

/// Settings and the files that they name, as this process finds them.
struct Here<'s>(&'s Variables);

impl Environment for &Here<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        self.0.get(name).map(str::to_owned)
    }

    fn file(&self, path: &str) -> Result<Secret, Unreadable> {
        let mut text = String::new();
        let read =
            File::open(path).and_then(|file| file.take(SECRET + 1).read_to_string(&mut text));
        match read.map_err(|error| error.kind()) {
            Ok(_) if text.len() as u64 <= SECRET => Ok(text.into()),
            Ok(_) | Err(ErrorKind::InvalidData | ErrorKind::IsADirectory) => {
                Err(Unreadable::NoText)
            }
            Err(_) => Err(Unreadable::Missing),
        }
    }
}
