//! Secrets from variables, and from files that variables name.

use super::super::{SettingsReader, variable};
use crate::step::environment::{SecretFile, read_secret};
use tenure_azure::secret::Secret;
use tenure_base::prelude::*;
use tenure_base::text::{QUOTED_ADVICE, is_quoted};

/// Secrets that may stand in a file, which `NAME_FILE` names and each step reads again.
static SECRET_FILES: [(&str, &str); 5] = [
    (variable::CONNECTION_STRING, variable::CONNECTION_STRING_FILE),
    (variable::KEY, variable::KEY_FILE),
    (variable::SAS_TOKEN, variable::SAS_TOKEN_FILE),
    (variable::AUTH_TOKEN, variable::AUTH_TOKEN_FILE),
    (variable::CLIENT_SECRET, variable::CLIENT_SECRET_FILE),
];

/// Returns the variable that names the file with that secret.
pub(super) fn file_variable(secret: &str) -> Option<&'static str> {
    SECRET_FILES.iter().find(|(known, _)| *known == secret).map(|(_, file)| *file)
}

/// Returns the files that the variables name.
pub(in crate::step::settings) fn files(get: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let names = SECRET_FILES.iter().map(|(_, file)| *file);
    names.chain([variable::FEDERATED_TOKEN_FILE]).filter_map(get).collect()
}

impl SettingsReader<'_> {
    /// Returns a secret, from its variable or from the file that the other variable names.
    pub(super) fn secret(&mut self, name: &'static str) -> Option<Secret> {
        let value = self.trimmed_variable(name);
        let Some((file_name, path)) =
            file_variable(name).and_then(|name| Some((name, self.trimmed_variable(name)?)))
        else {
            return value.and_then(|text| self.reject_quotes(name, text.trim().into()));
        };
        if value.is_some() {
            let problem = format!("excludes {}", self.setting_name(name, file_name));
            self.complain(file_name, problem, "keep one of the two");
        }
        let text = self.file(file_name, path)?;
        self.reject_quotes(file_name, text)
    }

    /// Rejects a secret in quotation marks.
    fn reject_quotes(&mut self, name: &'static str, secret: Secret) -> Option<Secret> {
        if is_quoted(secret.reveal()) {
            self.complain_of_quotes(name, QUOTED_ADVICE.into());
            return None;
        }
        Some(secret)
    }

    pub(super) fn file(&mut self, name: &'static str, path: String) -> Option<Secret> {
        match read_secret(self.environment, &path) {
            Ok(text) => {
                self.file = Some(SecretFile { path, text: text.clone() });
                Some(text)
            }
            Err((problem, advice)) => {
                self.complain(name, problem, advice);
                None
            }
        }
    }
}
