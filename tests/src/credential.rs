//! Credentials of candidates, and the variables that pass them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use tenure_azure::Account;
use tenure_azure::credential::Credential as Known;
use tenure_store::sas::{SasParameters, Scope};
use tokio::process::Command;

use crate::token::{bearer, token};

/// Prefixes of the variables that name a store or hold a credential.
const VARIABLE_PREFIXES: [&str; 2] = ["AZURE_", "IDENTITY_"];

/// Lifetime of tokens: longer than any scenario.
const HOUR: Duration = Duration::from_secs(60 * 60);

/// Key of no account.
const WRONG_KEY: &str = "d3Jvbmcga2V5IG9mIG5vYm9keQ==";

/// Commands that end once the store has answered.
const OPERATOR_COMMANDS: [&str; 8] =
    ["break", "check", "reset-slot", "reshare", "resign", "status", "transfer", "trigger"];

/// Timings for a machine that may stall for ten seconds without a request timing out or a lease
/// expiring. Leaders renew at the default interval.
pub const PATIENT_TIMINGS: [(&str, &str); 3] =
    [("TENURE_LEASE", "60s"), ("TENURE_RENEW", "4s"), ("TENURE_REQUEST_TIMEOUT", "15s")];

/// Credential that a candidate uses for the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The account's key.
    SharedKey,
    /// A shared access signature for the account's blobs and containers.
    AccountSas,
    /// A shared access signature for one existing container, which it cannot create.
    ServiceSas,
    /// A token that the operator supplies, valid for the whole test. TLS only.
    Bearer,
}

impl Credential {
    /// Returns the access for an election in this container. `connection_string` holds the key.
    ///
    /// # Panics
    /// The connection string is invalid or has no key.
    #[must_use]
    pub fn access(self, connection_string: &str, container: &str) -> Access {
        let account = || Account::from_connection_string(connection_string).expect("a good one");
        Access::from_connection_string(match self {
            Self::SharedKey => connection_string.to_owned(),
            Self::AccountSas => {
                let scope = Scope::Account { services: "b".into(), types: "co".into() };
                with_sas(connection_string, scope, "rwc")
            }
            Self::ServiceSas => {
                with_sas(connection_string, Scope::Container(container.into()), "rcw")
            }
            Self::Bearer => return Access::with_token(&account(), bearer(HOUR)),
        })
    }

    /// Returns the same access with a wrong key, or with a token for another audience.
    ///
    /// # Panics
    /// Panics like [`access`](Self::access).
    #[must_use]
    pub fn wrong_access(self, connection_string: &str, container: &str) -> Access {
        let key = connection_string.split(';').find_map(|part| part.strip_prefix("AccountKey="));
        let wrong_connection_string = connection_string.replace(key.expect("a key"), WRONG_KEY);
        if self == Self::Bearer {
            let account =
                Account::from_connection_string(&wrong_connection_string).expect("a good one");
            let now = Utc::now();
            let wrong_audience_token =
                token("https://vault.azure.net", now, now + TimeDelta::hours(1));
            return Access::with_token(&account, wrong_audience_token);
        }
        self.access(&wrong_connection_string, container)
    }

    /// Returns true if candidates can create the container.
    #[must_use]
    pub fn makes_containers(self) -> bool {
        self != Self::ServiceSas
    }

    /// Returns the candidate's name for the credential in a message about its rejection.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SharedKey => "account key",
            Self::AccountSas | Self::ServiceSas => "SAS",
            Self::Bearer => "token",
        }
    }
}

/// Returns a connection string with a shared access signature for an hour in place of the key. The
/// signature is TLS only if the account is reached over TLS.
///
/// # Panics
/// The connection string is invalid or has no key.
#[must_use]
pub fn with_sas(connection_string: &str, scope: Scope, permissions: &str) -> String {
    let account = Account::from_connection_string(connection_string).expect("a good one");
    let Known::SharedKey(key) = account.credential() else { panic!("{account:?} has no key") };
    let mut terms = SasParameters::new(scope, permissions, Utc::now() + TimeDelta::hours(1));
    terms.protocol = account.origin().starts_with("https:").then(|| "https".to_owned());
    let endpoint = format!("{}{}", account.origin(), account.prefix());
    terms.sign(account.name(), key).connection_string(&endpoint)
}

/// Variables with which a candidate reaches its store. `Debug` shows names only.
#[derive(Clone, Default)]
pub struct Access {
    variables: Vec<(&'static str, String)>,
    secrets: Vec<String>,
    ca: Option<PathBuf>,
}

impl Access {
    /// Creates an access from a connection string with a key or a shared access signature.
    #[must_use]
    pub fn from_connection_string(connection_string: impl Into<String>) -> Self {
        let connection_string = connection_string.into();
        let parts = connection_string.split([';', '&']);
        let secrets =
            parts.filter_map(|part| part.strip_prefix("AccountKey=").or(part.strip_prefix("sig=")));
        Self {
            secrets: secrets.map(str::to_owned).collect(),
            variables: vec![("AZURE_STORAGE_CONNECTION_STRING", connection_string)],
            ca: None,
        }
    }

    /// Creates an access from these variables. Each whole value is a secret.
    #[must_use]
    pub fn from_variables(variables: Vec<(&'static str, String)>) -> Self {
        let secrets = variables.iter().map(|(_, value)| value.clone()).collect();
        Self { variables, secrets, ca: None }
    }

    /// Creates an access with a token for this account.
    #[must_use]
    pub fn with_token(account: &Account, token: String) -> Self {
        let endpoint = format!("{}{}", account.origin(), account.prefix());
        let variables = vec![
            ("AZURE_STORAGE_ACCOUNT", account.name().to_owned()),
            ("AZURE_STORAGE_SERVICE_ENDPOINT", endpoint),
            ("AZURE_STORAGE_AUTH_TOKEN", token.clone()),
        ];
        Self { variables, secrets: vec![token], ca: None }
    }

    /// Also trusts this authority, if any, in addition to those of the platform.
    #[must_use]
    pub fn trusting(self, ca: Option<PathBuf>) -> Self {
        Self { ca, ..self }
    }

    /// Returns the authority to trust in addition to those of the platform.
    #[must_use]
    pub fn ca(&self) -> Option<&Path> {
        self.ca.as_deref()
    }

    /// Sets the variables for a command, and removes inherited variables of the same kind.
    pub fn set_variables(&self, command: &mut Command) {
        for (name, _) in std::env::vars() {
            if VARIABLE_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        command.envs(self.variables.iter().cloned());
    }

    /// Applies the whole access to the program, with patient timings for operator commands.
    pub fn apply(&self, command: &mut Command) {
        self.set_variables(command);
        let first = command.as_std().get_args().next();
        if first
            .is_some_and(|name| OPERATOR_COMMANDS.iter().any(|command_name| name == *command_name))
        {
            command.envs(PATIENT_TIMINGS);
        }
        if let Some(ca) = &self.ca {
            command.arg("--ca-file").arg(ca);
        }
    }

    /// Returns true if a text contains a secret.
    #[must_use]
    pub fn leaks_in(&self, text: &str) -> bool {
        self.secrets.iter().any(|secret| text.contains(secret))
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.variables.iter().map(|(name, _)| name);
        f.debug_set().entries(names).entries(&self.ca).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "c2VjcmV0";

    fn access(credential: Credential) -> (Access, String) {
        let connection_string =
            format!("AccountName=acc;AccountKey={KEY};BlobEndpoint=http://127.0.0.1:1/acc");
        let access = credential.access(&connection_string, "jobs");
        let [(name, value)] = access.variables.as_slice() else { panic!("{access:?}") };
        assert_eq!(*name, "AZURE_STORAGE_CONNECTION_STRING");
        let value = value.clone();
        (access, value)
    }

    #[test]
    fn a_signature_comes_without_the_key() {
        for credential in [Credential::AccountSas, Credential::ServiceSas] {
            let (_, value) = access(credential);
            assert!(value.contains(";SharedAccessSignature=sv="), "{value}");
            assert!(!value.contains("AccountKey") && !value.contains(KEY), "{value}");
            assert_eq!(value.contains("&srt=co&"), credential.makes_containers(), "{value}");
        }
    }

    #[test]
    fn secrets_are_tracked_and_not_shown() {
        for credential in [Credential::SharedKey, Credential::AccountSas, Credential::ServiceSas] {
            let (access, value) = access(credential);
            assert!(access.leaks_in(&value), "{credential:?}");
            assert!(!access.leaks_in("BlobEndpoint=http://127.0.0.1:1/acc;sp=rcw"));
            let debug_text = format!("{:?}", access.trusting(Some("/ca.pem".into())));
            assert_eq!(debug_text, r#"{"AZURE_STORAGE_CONNECTION_STRING", "/ca.pem"}"#);
        }
    }

    #[test]
    fn a_token_comes_without_a_connection_string() {
        let connection_string =
            format!("AccountName=acc;AccountKey={KEY};BlobEndpoint=https://127.0.0.1:1/acc");
        let access = Credential::Bearer.access(&connection_string, "jobs");
        let names: Vec<_> = access.variables.iter().map(|(name, _)| *name).collect();
        let suffixes = ["ACCOUNT", "SERVICE_ENDPOINT", "AUTH_TOKEN"];
        assert_eq!(names, suffixes.map(|name| format!("AZURE_STORAGE_{name}")));
        assert_eq!(access.variables[1].1, "https://127.0.0.1:1/acc");
        assert!(access.leaks_in(&access.variables[2].1));
        assert!(access.variables.iter().all(|(_, value)| !value.contains(KEY)));
        assert!(!format!("{access:?}").contains("eyJ"), "{access:?}");
    }
}
