//! Settings as the election component reads them: environment variables.

use crate::token::Tokens;
use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use tenure_core::{Environment, Secret, FileError, variable};
use zeroize::Zeroize;

/// The environment of the election component, and nothing but that: it holds the storage
/// credential. `Debug` shows names only; the values are overwritten when it is dropped.
///
/// For programs that are configured from outside, by a deployment; others write [`Settings`](super::Settings).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables {
    values: Vec<(String, String)>,
    /// What is in the file [`TOKENS`].
    tokens: Option<Tokens>,
}

/// The file that holds the token of a provider: no file of that name is read.
const TOKENS_PATH: &str = "token provider";

impl Variables {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// The settings among the variables of this process. Blank ones count as not set. Without
    /// [`NAME`](variable::NAME) the candidate is called `unnamed`: add one with
    /// [`default_name`](super::Settings::default_name).
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

    /// Those that say with what requests are authorised.
    #[must_use]
    pub fn credentials_only(mut self) -> Self {
        let is_other = |name: &&String| name.starts_with("TENURE_");
        let others: Vec<_> =
            self.values.iter().map(|(name, _)| name).filter(is_other).cloned().collect();
        others.iter().for_each(|name| self.remove(name));
        self
    }

    /// Sets `name` (see [`variable`]) to `value`.
    pub fn set(&mut self, name: &str, value: impl Into<String>) -> &mut Self {
        self.remove(name);
        self.values.push((name.to_owned(), value.into()));
        self
    }

    /// Leaves `name` out.
    pub fn remove(&mut self, name: &str) {
        for (_, value) in self.values.iter_mut().filter(|(known, _)| known == name) {
            value.zeroize();
        }
        self.values.retain(|(known, _)| known != name);
    }

    /// As [`set`](Variables::set), for building them in one expression.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.set(name, value);
        self
    }

    /// Returns the same with tokens of a provider as the credential.
    pub(super) fn with_tokens(mut self, tokens: Tokens) -> Self {
        self.tokens = Some(tokens);
        self.with(variable::AUTH_TOKEN_FILE, TOKENS_PATH)
    }

    /// The tokens of a provider, if they are the credential.
    pub(crate) fn tokens(&self) -> Option<&Tokens> {
        self.tokens.as_ref()
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All of them, secrets too: for the environment of a component.
    pub fn entries(&self) -> &[(String, String)] {
        &self.values
    }
}

/// These, and the files of this machine.
impl Environment for Variables {
    fn variable(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    fn file(&self, path: &str) -> Result<Secret, FileError> {
        if let Some(tokens) = self.tokens.as_ref().filter(|_| path == TOKENS_PATH) {
            return Ok(tokens.last());
        }
        /// No secret is larger.
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
