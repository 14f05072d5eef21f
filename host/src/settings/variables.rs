//! Settings as environment variables, as the election component reads them.

use crate::token::Tokens;
use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use tenure_core::{Environment, FileError, Secret, variable};
use zeroize::Zeroize;

/// Environment of the election component, including the storage credential.
///
/// `Debug` shows only names. The values are overwritten on drop.
///
/// This is for programs that are configured by their deployment; other programs use
/// [`Settings`](super::Settings).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables {
    values: Vec<(String, String)>,
    /// Tokens of a provider, if they are the credential. The core reads the last one as the file
    /// [`TOKENS_PATH`].
    tokens: Option<Tokens>,
}

/// Path that stands for the token of a provider. No file of that name is read.
const TOKENS_PATH: &str = "token provider";

impl Variables {
    /// Creates an empty environment.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the settings among the variables of this process, without those that are blank or
    /// not Unicode.
    ///
    /// Set [`NAME`](variable::NAME) to
    /// [`Settings::default_name()`](super::Settings::default_name), or the candidate is called
    /// `unnamed`.
    pub fn from_env() -> Self {
        let mut variables = Self::new();
        for (name, value) in std::env::vars_os() {
            let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) else { continue };
            let is_relevant = variable::PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            if is_relevant && !value.trim().is_empty() {
                variables.set(&name, value);
            }
        }
        variables
    }

    /// Removes Tenure's own settings (`TENURE_*`). The account, endpoint and credential remain.
    #[must_use]
    pub fn credentials_only(mut self) -> Self {
        let is_own_setting = |name: &&String| name.starts_with("TENURE_");
        let own_settings: Vec<_> =
            self.values.iter().map(|(name, _)| name).filter(is_own_setting).cloned().collect();
        own_settings.iter().for_each(|name| self.remove(name));
        self
    }

    /// Sets `name` (see [`variable`]) to `value`.
    pub fn set(&mut self, name: &str, value: impl Into<String>) -> &mut Self {
        self.remove(name);
        self.values.push((name.to_owned(), value.into()));
        self
    }

    /// Removes `name`.
    pub fn remove(&mut self, name: &str) {
        for (_, value) in self.values.iter_mut().filter(|(known, _)| known == name) {
            value.zeroize();
        }
        self.values.retain(|(known, _)| known != name);
    }

    /// Sets `name` to `value`, like [`set`](Variables::set), and returns the variables.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.set(name, value);
        self
    }

    /// Returns the variables with a token provider as the credential.
    pub(super) fn with_tokens(mut self, tokens: Tokens) -> Self {
        self.tokens = Some(tokens);
        self.with(variable::AUTH_TOKEN_FILE, TOKENS_PATH)
    }

    /// Returns the tokens of a provider, if they are the credential.
    pub(crate) fn tokens(&self) -> Option<&Tokens> {
        self.tokens.as_ref()
    }

    /// Returns the value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns all variables including secrets, for the environment of a component.
    pub fn entries(&self) -> &[(String, String)] {
        &self.values
    }
}

/// Reads the variables, and files of this machine.
impl Environment for Variables {
    fn variable(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    fn file(&self, path: &str) -> Result<Secret, FileError> {
        if let Some(tokens) = self.tokens.as_ref().filter(|_| path == TOKENS_PATH) {
            return Ok(tokens.last());
        }
        /// Maximum size of a file in bytes. No secret is larger.
        const MAX_SIZE: u64 = 64 * 1024;
        let file = File::open(path).map_err(|_| FileError::Missing)?;
        let mut text = String::new();
        match file.take(MAX_SIZE + 1).read_to_string(&mut text) {
            Ok(size) if size as u64 <= MAX_SIZE => Ok(text.into()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(FileError::Missing),
            Err(error) if error.kind() == ErrorKind::IsADirectory => Err(FileError::Directory),
            _ => Err(FileError::NotText),
        }
    }
}

impl Drop for Variables {
    fn drop(&mut self) {
        for (_, value) in &mut self.values {
            value.zeroize();
        }
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_are_printed() {
        let variables = Variables::new().with(variable::CONNECTION_STRING, "AccountKey=c2VjcmV0");
        assert_eq!(format!("{variables:?}"), r#"{"AZURE_STORAGE_CONNECTION_STRING"}"#);
    }

    #[test]
    fn the_newest_value_applies() {
        let variables = Variables::new().with(variable::LEASE, "15s").with(variable::LEASE, "30s");
        assert_eq!(variables.get(variable::LEASE), Some("30s"));
        assert_eq!(variables.entries().len(), 1);
        let mut variables = variables;
        variables.remove(variable::LEASE);
        assert_eq!(variables, Variables::new());
    }
}
