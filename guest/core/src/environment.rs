//! Where settings come from: variables, and the files that some of them name.

use super::complaint::SettingId;
use super::options::Options;
use serde::{Deserialize, Serialize};
use tenure_azure::secret::Secret;
use tenure_base::prelude::*;
use tenure_base::secret::redact;

/// What a host gives.
pub trait Environment {
    /// A variable; none when it is not set. A host that has [`options`](Self::options) gives what it would be.
    fn variable(&self, name: &str) -> Option<String>;

    /// What a file says now.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn file(&self, path: &str) -> Result<Secret, FileError>;

    /// Returns the options of the candidate, if the host has them as values. Otherwise they are read from the variables.
    fn options(&self) -> Option<&Options> {
        None
    }

    /// Returns the name of a setting for a text about the setting `about`. It is the variable, unless the user knows it by
    /// another name.
    fn setting_name(&self, setting: SettingId, _about: SettingId) -> String {
        setting.variable().into()
    }
}

/// Why a file cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileError {
    /// The host opened no directory for the component that it could be in.
    NotGranted,
    /// The directory has no such file, or it may not be read.
    Missing,
    /// The path leads to a directory.
    Directory,
    /// It is larger than any secret, or no text.
    NotText,
}

/// What a file with a secret says now, without what editors put around it.
///
/// # Errors
/// What is wrong with the file, and what to do.
pub fn read_secret(
    environment: &dyn Environment,
    path: &str,
) -> Result<Secret, (String, &'static str)> {
    let (problem, advice) = match environment.file(path) {
        Ok(text) if text.reveal().trim().is_empty() => ("is empty", "write the secret into it"),
        // Some editors begin a file with a byte order mark.
        Ok(text) => return Ok(text.reveal().trim_start_matches('\u{feff}').trim().into()),
        Err(FileError::NotGranted) => (
            "cannot be read: the host has not opened its directory to this component",
            "let the host open it (wasmtime: --dir), or set the secret in a variable",
        ),
        Err(FileError::Missing) => (
            "is not there or may not be read",
            "check the path, the permissions, and that links do not lead out of its directory",
        ),
        Err(FileError::Directory) => ("is a directory", "name the file in it"),
        Err(FileError::NotText) => {
            ("is not text, or is larger than 64 KiB", "let it hold the secret alone")
        }
    };
    Err((format!("the file {} {problem}", redact(path)), advice))
}

/// Variables alone.
impl<F: Fn(&str) -> Option<String>> Environment for F {
    fn variable(&self, name: &str) -> Option<String> {
        self(name)
    }

    fn file(&self, _path: &str) -> Result<Secret, FileError> {
        Err(FileError::NotGranted)
    }
}

/// A file with a secret, as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretFile {
    pub(super) path: String,
    #[serde(with = "tenure_azure::secret::revealed")]
    pub(super) text: Secret,
}

/// An environment in which the file has its former content.
pub(super) struct FormerFileEnvironment<'e> {
    pub environment: &'e dyn Environment,
    pub file: &'e SecretFile,
}

impl Environment for FormerFileEnvironment<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        self.environment.variable(name)
    }

    fn file(&self, path: &str) -> Result<Secret, FileError> {
        if self.file.path == path { Ok(self.file.text.clone()) } else { Err(FileError::Missing) }
    }

    fn options(&self) -> Option<&Options> {
        self.environment.options()
    }

    fn setting_name(&self, setting: SettingId, about: SettingId) -> String {
        self.environment.setting_name(setting, about)
    }
}
