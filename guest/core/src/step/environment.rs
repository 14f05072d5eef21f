//! The source of settings: variables, and the files that some of them name.

use super::complaint::SettingId;
use super::options::Options;
use serde::{Deserialize, Serialize};
use tenure_azure::secret::Secret;
use tenure_base::prelude::*;
use tenure_base::text::redact;

/// The environment that a host provides.
pub trait Environment {
    /// Returns a variable. None if it is not set. A host with [`options`](Self::options) returns
    /// the equivalent variable.
    fn variable(&self, name: &str) -> Option<String>;

    /// Returns the current content of a file.
    ///
    /// # Errors
    /// The reason why the file cannot be read.
    fn file(&self, path: &str) -> Result<Secret, FileError>;

    /// Returns the options of the candidate, if the host has them as values. Otherwise they are
    /// read from the variables.
    fn options(&self) -> Option<&Options> {
        None
    }

    /// Returns the name of a setting for a text about the setting `about`. The default is the
    /// variable.
    fn setting_name(&self, setting: SettingId, _about: SettingId) -> String {
        setting.variable().into()
    }
}

/// The reason why a file cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileError {
    /// The host opened no directory for the component that could contain the file.
    NotGranted,
    /// The directory has no such file, or the file may not be read.
    Missing,
    /// The path leads to a directory.
    Directory,
    /// The file is larger than any secret, or is not text.
    NotText,
}

/// Reads a secret from a file, without surrounding white space or a byte order mark.
///
/// # Errors
/// The problem with the file, and the advice.
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

/// An environment of variables without files.
impl<F: Fn(&str) -> Option<String>> Environment for F {
    fn variable(&self, name: &str) -> Option<String> {
        self(name)
    }

    fn file(&self, _path: &str) -> Result<Secret, FileError> {
        Err(FileError::NotGranted)
    }
}

/// A secret file, as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretFile {
    pub(crate) path: String,
    #[serde(with = "tenure_azure::secret::revealed")]
    pub(crate) text: Secret,
}

/// An environment in which the file has its former content.
pub(crate) struct FormerFileEnvironment<'e> {
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
