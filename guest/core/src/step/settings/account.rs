//! The storage account and its credential from the environment.
//!
//! The variables have the same names as for the Azure CLI and the Azure SDKs. Of several
//! credentials, the first in [`DETECTION_ORDER`] is used. A credential that names the account comes
//! before those that do not. Given secrets come before tokens that must be requested.

mod identity;
#[cfg(test)]
mod tests;

use super::{SettingsReader, non_blank, variable};
use crate::step::options::{Complaint, SecretFile, SettingId, read_secret};
use tenure_azure::account::{Account, is_account_name};
use tenure_azure::credential::{Credential, Problem, Sas};
use tenure_azure::encoding;
use tenure_azure::endpoint::Endpoint;
use tenure_azure::identity::is_token;
use tenure_azure::secret::Secret;
use tenure_azure::shared_key::Key;
use tenure_base::prelude::*;
use tenure_base::text::{QUOTED_ADVICE, cut, is_quoted};

/// The kind of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialKind {
    ConnectionString,
    SharedKey,
    Sas,
    Token,
    ClientSecret,
    WorkloadIdentity,
    IdentityEndpoint,
    Imds,
}

/// The order of detection, with the variable that each kind needs.
static DETECTION_ORDER: [(CredentialKind, &str); 8] = [
    (CredentialKind::ConnectionString, variable::CONNECTION_STRING),
    (CredentialKind::SharedKey, variable::KEY),
    (CredentialKind::Sas, variable::SAS_TOKEN),
    (CredentialKind::Token, variable::AUTH_TOKEN),
    (CredentialKind::ClientSecret, variable::CLIENT_SECRET),
    (CredentialKind::WorkloadIdentity, variable::FEDERATED_TOKEN_FILE),
    (CredentialKind::IdentityEndpoint, variable::IDENTITY_ENDPOINT),
    (CredentialKind::Imds, variable::ACCOUNT),
];

const NO_ACCOUNT: &str = "set AZURE_STORAGE_CONNECTION_STRING (Azure portal: Access keys; UseDevelopmentStorage=true for \
     Azurite on its usual port), or AZURE_STORAGE_ACCOUNT to the account's name, with \
     AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or an identity of Microsoft Entra ID";

/// The account with its credential, and the reason for that credential.
pub(super) struct ChosenAccount {
    pub account: Account,
    pub explanation: String,
}

impl SettingsReader<'_> {
    /// Returns a variable without surrounding blanks, which no valid value here has.
    fn trimmed_variable(&self, name: &str) -> Option<String> {
        self.get(name).map(|value| value.trim().into())
    }

    pub(super) fn account(&mut self) -> Option<ChosenAccount> {
        let candidates = DETECTION_ORDER
            .into_iter()
            .filter_map(|(kind, name)| Some((kind, self.variable_of(kind, name)?)));
        let candidates: Vec<_> = candidates.collect();
        let Some((kind, _)) = candidates.first().copied() else {
            let problem = "no storage account is given";
            self.complain(variable::CONNECTION_STRING, problem, NO_ACCOUNT);
            return None;
        };
        let account = match kind {
            CredentialKind::ConnectionString => self.by_connection_string(),
            _ => self.named_account(kind),
        }?;
        if kind != CredentialKind::Sas {
            self.check_sas_account(&account);
        }
        if let Credential::Sas(sas) = account.credential()
            && !sas.permits(b'w')
            && self.options.observe != Some(true)
        {
            let setting = match kind {
                CredentialKind::ConnectionString => variable::CONNECTION_STRING,
                _ => variable::SAS_TOKEN,
            };
            let advice =
                "an election leases its blob and writes its record: make a SAS with sp=rcw";
            self.complain(setting, "the SAS does not permit writing (w)", advice);
        }
        let explanation = explanation(&candidates, &account);
        Some(ChosenAccount { account, explanation })
    }

    /// Returns the variable of this kind of credential that is set: the one in the detection order,
    /// or the one that names its file. For IMDS, the endpoint of the account suffices too.
    fn variable_of(&self, kind: CredentialKind, name: &'static str) -> Option<&'static str> {
        let endpoint = (kind == CredentialKind::Imds).then_some(variable::SERVICE_ENDPOINT);
        let names = [Some(name), file_variable(name), endpoint].into_iter().flatten();
        names.into_iter().find(|name| self.trimmed_variable(name).is_some())
    }

    fn by_connection_string(&mut self) -> Option<Account> {
        let Some(text) = self.secret(variable::CONNECTION_STRING) else {
            return self.missing(variable::CONNECTION_STRING);
        };
        match Account::from_connection_string(text.reveal()) {
            Ok(account) => {
                let name = account.endpoint().account_in_url();
                let name = name.unwrap_or_else(|| account.name().into());
                self.check_account_matches(variable::CONNECTION_STRING, Some(name));
                self.check_endpoint_matches(variable::CONNECTION_STRING, account.origin());
                Some(account)
            }
            Err(problems) => self.complain_all(variable::CONNECTION_STRING, problems),
        }
    }

    /// Returns the account that its name or its endpoint identifies, with a credential of this
    /// kind.
    fn named_account(&mut self, kind: CredentialKind) -> Option<Account> {
        // A SAS can come with its address, as the portal shows it.
        let (sas, address) = match kind {
            CredentialKind::Sas => self.sas(),
            _ => (None, None),
        };
        let (setting, endpoint) = match address {
            Some(endpoint) => (variable::SAS_TOKEN, Some(endpoint)),
            None => (variable::SERVICE_ENDPOINT, self.endpoint()),
        };
        let credential = match kind {
            CredentialKind::Sas => sas.map(Credential::Sas),
            CredentialKind::SharedKey => self.key().map(Credential::SharedKey),
            CredentialKind::Token => self.token().map(Credential::Token),
            _ => self.identity(kind, endpoint.as_ref()).map(Credential::Identity),
        };
        let name = self.trimmed_variable(variable::ACCOUNT);
        let (endpoint, credential) = (endpoint?, credential?);
        self.check_account_matches(setting, endpoint.account_in_url());
        // Signatures and idempotency keys contain the account's name.
        let Some(name) = name.or_else(|| endpoint.account_in_url()) else {
            let problem = "is not set, and the endpoint does not contain the account's name";
            self.complain(variable::ACCOUNT, problem, "set it to the account's name");
            return None;
        };
        match Account::new(name, endpoint, credential) {
            Ok(account) => Some(account),
            Err(problems) => self.complain_all(setting, problems),
        }
    }

    fn endpoint(&mut self) -> Option<Endpoint> {
        let name = self.trimmed_variable(variable::ACCOUNT);
        let explicit_url = self.trimmed_variable(variable::SERVICE_ENDPOINT);
        if let Some(name) =
            name.as_deref().filter(|name| explicit_url.is_none() && !is_account_name(name))
        {
            let problem = " is not an account's name: 3 to 24 lower-case letters and digits";
            let advice = "the portal shows it as the page's title";
            self.complain_of(variable::ACCOUNT, name, problem, advice);
            return None;
        }
        let url = match (explicit_url, name) {
            (Some(url), _) => url,
            (None, Some(name)) => format!("https://{name}.blob.core.windows.net"),
            (None, None) => return self.missing(variable::ACCOUNT),
        };
        let endpoint = Endpoint::parse_account(&url).and_then(|endpoint| {
            match endpoint.prefix.is_empty() && endpoint.is_path_style() {
                true => Err("names no account"),
                false => Ok(endpoint),
            }
        });
        match endpoint {
            Ok(endpoint) => Some(endpoint),
            Err(reason) => {
                let advice = "write it like https://NAME.blob.core.windows.net or http://127.0.0.1:10000/NAME";
                self.complain(variable::SERVICE_ENDPOINT, format!("it {reason}"), advice);
                None
            }
        }
    }

    fn key(&mut self) -> Option<Key> {
        let Some(text) = self.secret(variable::KEY) else { return self.missing(variable::KEY) };
        let key = Key::from_base64(text.reveal());
        if key.is_none() {
            let problem = "is not base64, so a part of it is missing or changed";
            let advice = "copy it again from the account's page \"Access keys\"";
            self.complain(variable::KEY, problem, advice);
        }
        key
    }

    fn sas(&mut self) -> (Option<Sas>, Option<Endpoint>) {
        let Some(text) = self.secret(variable::SAS_TOKEN) else {
            return (self.missing(variable::SAS_TOKEN), None);
        };
        let (address, token) = match text.reveal().split_once('?') {
            Some((address, token)) if cut(address, "://").is_some() => (Some(address), token),
            _ => (None, text.reveal()),
        };
        let address = address.and_then(|address| self.sas_address(address));
        match Sas::parse(token) {
            Ok(sas) => (Some(sas), address),
            Err(problems) => (self.complain_all(variable::SAS_TOKEN, problems), address),
        }
    }

    /// Returns the endpoint in the address of a container or a blob, which must be the election's.
    fn sas_address(&mut self, address: &str) -> Option<Endpoint> {
        const ADVICE: &str =
            "take the SAS token alone, or the address of the election's container or blob";
        let full_endpoint = match Endpoint::parse(address) {
            Ok(endpoint) => endpoint,
            Err(reason) => {
                self.complain(variable::SAS_TOKEN, format!("its address {reason}"), ADVICE);
                return None;
            }
        };
        let segments = full_endpoint.segments();
        let election = non_blank(&self.options.election).unwrap_or_default();
        let election = election.trim();
        let is_election_path = |rest: &[&str]| {
            let path = encoding::percent_decode_text(&rest.join("/"));
            election == path || election.strip_prefix(&path).is_some_and(|e| e.starts_with('/'))
        };
        // If the host does not name the account, the first segment of the path does. But a
        // container may have the account's name.
        let account_name = self.trimmed_variable(variable::ACCOUNT);
        let has_account_segment = match full_endpoint.account_in_url() {
            Some(_) => full_endpoint.is_path_style(),
            None => {
                segments.first().copied() == account_name.as_deref() && !is_election_path(&segments)
            }
        };
        let (prefix, rest) =
            segments.split_at(usize::from(has_account_segment).min(segments.len()));
        if !rest.is_empty() && !is_election_path(rest) {
            let problem = "the SAS is not for the election's container or blob";
            self.complain(variable::SAS_TOKEN, problem, ADVICE);
        }
        let prefix = prefix.iter().map(|segment| format!("/{segment}")).collect();
        self.check_endpoint_matches(variable::SAS_TOKEN, &full_endpoint.origin);
        Some(Endpoint { origin: full_endpoint.origin.clone(), prefix })
    }

    fn token(&mut self) -> Option<Secret> {
        let Some(token) = self.secret(variable::AUTH_TOKEN) else {
            return self.missing(variable::AUTH_TOKEN);
        };
        if !is_token(token.reveal()) {
            let problem = "has characters that cannot be in a token";
            let advice = "take the accessToken of: az account get-access-token --resource \
                          https://storage.azure.com";
            self.complain(variable::AUTH_TOKEN, problem, advice);
            return None;
        }
        Some(token)
    }

    fn complain_all<T>(&mut self, setting: &'static str, problems: Vec<Problem>) -> Option<T> {
        let complaints = problems.into_iter().map(|Problem { problem, advice }| Complaint {
            setting: SettingId::new(setting),
            problem,
            advice,
        });
        self.complaints.extend(complaints);
        None
    }

    /// Complains about a missing variable that the chosen credential needs, unless there is a
    /// complaint about the variable already. Returns none.
    fn missing<T>(&mut self, name: &'static str) -> Option<T> {
        self.note_missing(name);
        None
    }

    fn note_missing(&mut self, name: &'static str) {
        let settings = [Some(name), file_variable(name)];
        let is_reported =
            self.complaints.iter().any(|c| settings.contains(&Some(c.setting.variable())));
        if !is_reported {
            let advice = "set it, or unset the other variables of this credential";
            self.complain(name, "is not set, and the credential needs it", advice);
        }
    }

    /// Complains if two variables name different endpoints. The service endpoint may be a private
    /// one that was set deliberately, so neither is ignored.
    fn check_endpoint_matches(&mut self, setting: &'static str, origin: &str) {
        let Some(url) = self.trimmed_variable(variable::SERVICE_ENDPOINT) else { return };
        if Endpoint::parse(&url).is_ok_and(|endpoint| endpoint.origin != origin) {
            let problem = format!("is not the address in {setting}");
            self.complain(variable::SERVICE_ENDPOINT, problem, "leave one of the two out");
        }
    }

    /// Complains if an unused SAS is for another account: one of the two is a mistake.
    fn check_sas_account(&mut self, account: &Account) {
        let file = || self.environment.file(&self.trimmed_variable(variable::SAS_TOKEN_FILE)?).ok();
        let sas_token = self.trimmed_variable(variable::SAS_TOKEN).map(Secret::from).or_else(file);
        let address = sas_token.as_ref().and_then(|sas| sas.reveal().split_once('?'));
        let endpoint = address.and_then(|(address, _)| Endpoint::parse(address.trim()).ok());
        let other = endpoint.and_then(|endpoint| endpoint.account_in_url());
        if other.is_some_and(|other| other != account.name()) {
            let problem = "is not for the account of the credential that is used";
            self.complain(variable::SAS_TOKEN, problem, "leave one of the two out");
        }
    }

    /// Complains if two variables name different accounts.
    fn check_account_matches(&mut self, setting: &'static str, account: Option<String>) {
        if let (Some(name), Some(account)) = (self.trimmed_variable(variable::ACCOUNT), account)
            && name.trim() != account
        {
            let problem =
                format!("is not the account in {}", self.setting_name(setting, variable::ACCOUNT));
            self.complain(variable::ACCOUNT, problem, "leave one of the two out");
        }
    }
}

/// Returns a text that names the credential in use, the first of `candidates`, and those that it
/// takes precedence over.
fn explanation(candidates: &[(CredentialKind, &'static str)], account: &Account) -> String {
    let Some(((kind, name), unused)) = candidates.split_first() else { return String::new() };
    let description = match (kind, account.credential()) {
        (CredentialKind::ConnectionString, Credential::Sas(_)) => {
            "the SAS in the connection string"
        }
        (CredentialKind::ConnectionString, _) => "the key in the connection string",
        (CredentialKind::SharedKey, _) => "the account's key",
        (CredentialKind::Sas, _) => "the SAS",
        (CredentialKind::Token, _) if *name == variable::AUTH_TOKEN => {
            "the token in AZURE_STORAGE_AUTH_TOKEN, which is not renewed"
        }
        (CredentialKind::Token, _) => "the token in the file of AZURE_STORAGE_AUTH_TOKEN_FILE",
        (CredentialKind::ClientSecret, _) => "the secret of an application",
        (CredentialKind::WorkloadIdentity, _) => "the workload identity",
        (CredentialKind::IdentityEndpoint, _) => {
            "the managed identity of this app (IDENTITY_ENDPOINT)"
        }
        (CredentialKind::Imds, _) => "the managed identity of this machine (IMDS)",
    };
    let unused = unused.iter().filter(|(other, _)| *other != CredentialKind::Imds);
    let unused_variables: Vec<_> = unused.map(|(_, variable)| *variable).collect();
    let precedence = match unused_variables.as_slice() {
        [] => String::new(),
        [other] => format!("; it takes precedence over {other}, which is not used"),
        others => format!("; it takes precedence over {}, which are not used", others.join(", ")),
    };
    format!("{description}{precedence}")
}

/// The variables with secrets, each with the variable that names a file with the secret instead.
/// Each step reads the file again.
static SECRET_FILES: [(&str, &str); 5] = [
    (variable::CONNECTION_STRING, variable::CONNECTION_STRING_FILE),
    (variable::KEY, variable::KEY_FILE),
    (variable::SAS_TOKEN, variable::SAS_TOKEN_FILE),
    (variable::AUTH_TOKEN, variable::AUTH_TOKEN_FILE),
    (variable::CLIENT_SECRET, variable::CLIENT_SECRET_FILE),
];

/// Returns the variable that names the file with that secret.
fn file_variable(secret: &str) -> Option<&'static str> {
    SECRET_FILES.iter().find(|(known, _)| *known == secret).map(|(_, file)| *file)
}

/// Returns the files that the variables name.
pub(super) fn files(get: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let names = SECRET_FILES.iter().map(|(_, file)| *file);
    names.chain([variable::FEDERATED_TOKEN_FILE]).filter_map(get).collect()
}

impl SettingsReader<'_> {
    /// Returns a secret from its variable, or from the file that the variable in [`SECRET_FILES`]
    /// names.
    fn secret(&mut self, name: &'static str) -> Option<Secret> {
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

    /// Reads a secret from a file, and notes the file as that of the settings.
    fn file(&mut self, name: &'static str, path: String) -> Option<Secret> {
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
