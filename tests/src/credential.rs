//! What candidates prove themselves by, and what they are started with for it.

use std::fmt;
use std::path::{Path, PathBuf};

use chrono::{SecondsFormat, TimeDelta, Utc};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tenure_guest::azure::Account;
use tenure_guest::azure::credential::Credential as Key;
use tokio::process::Command;

/// The version that signatures are made for.
const VERSION: &str = "2021-12-02";

/// A key that fits nowhere.
const WRONG_KEY: &str = "d3Jvbmcga2V5IG9mIG5vYm9keQ==";

/// The ways in which a candidate can prove that it may use the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The account's key.
    SharedKey,
    /// A shared access signature for the account's blobs and containers.
    AccountSas,
    /// One for a single container, which must be there: such a one cannot make it.
    ServiceSas,
}

impl Credential {
    /// For an election in this container. `connection_string` holds the key.
    ///
    /// # Panics
    /// That is no connection string with a key.
    #[must_use]
    pub fn access(self, connection_string: &str, container: &str) -> Access {
        let account = || Account::from_connection_string(connection_string).expect("a good one");
        let sas = |account: &Account, sas: String| {
            let endpoint = format!("{}{}", account.origin(), account.prefix());
            format!("BlobEndpoint={endpoint};SharedAccessSignature={sas}")
        };
        Access::with(match self {
            Self::SharedKey => connection_string.to_owned(),
            Self::AccountSas => sas(&account(), account_sas(&account(), "rwc")),
            Self::ServiceSas => sas(&account(), container_sas(&account(), container, "rcw")),
        })
    }

    /// The same, of somebody who does not know the key.
    ///
    /// # Panics
    /// As [`access`](Self::access).
    #[must_use]
    pub fn wrong_access(self, connection_string: &str, container: &str) -> Access {
        let key = connection_string.split(';').find_map(|part| part.strip_prefix("AccountKey="));
        let wrong = connection_string.replace(key.expect("a key"), WRONG_KEY);
        self.access(&wrong, container)
    }

    /// Whether candidates can make the container.
    #[must_use]
    pub fn makes_containers(self) -> bool {
        self != Self::ServiceSas
    }

    /// How a candidate calls it when it is refused.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SharedKey => "AccountKey",
            Self::AccountSas | Self::ServiceSas => "SAS",
        }
    }
}

/// What a candidate is started with so that it reaches its store. `Debug` shows names only.
#[derive(Clone, Default)]
pub struct Access {
    variables: Vec<(&'static str, String)>,
    secrets: Vec<String>,
    ca: Option<PathBuf>,
}

impl Access {
    /// A connection string with a key or with a shared access signature.
    #[must_use]
    pub fn with(connection_string: impl Into<String>) -> Self {
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

    /// These variables. What they hold is looked for as a whole by [`is_told_by`](Self::is_told_by).
    #[must_use]
    pub fn of(variables: Vec<(&'static str, String)>) -> Self {
        let secrets = variables.iter().map(|(_, value)| value.clone()).collect();
        Self { variables, secrets, ca: None }
    }

    /// Trusting this authority, if any, beside those of the platform.
    #[must_use]
    pub fn trusting(self, ca: Option<PathBuf>) -> Self {
        Self { ca, ..self }
    }

    /// The authority to trust beside those of the platform.
    #[must_use]
    pub fn ca(&self) -> Option<&Path> {
        self.ca.as_deref()
    }

    /// Gives a command all of it.
    pub fn give(&self, command: &mut Command) {
        command.env_remove("AZURE_STORAGE_CONNECTION_STRING");
        command.envs(self.variables.iter().cloned());
        if let Some(ca) = &self.ca {
            command.arg("--ca-file").arg(ca);
        }
    }

    /// Whether a text holds anything that must never be shown.
    #[must_use]
    pub fn is_told_by(&self, text: &str) -> bool {
        self.secrets.iter().any(|secret| text.contains(secret))
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.variables.iter().map(|(name, _)| name);
        f.debug_set().entries(names).entries(&self.ca).finish()
    }
}

/// A service SAS for a container, as the service's reference has it signed. For an hour.
#[must_use]
pub fn container_sas(account: &Account, container: &str, permissions: &str) -> String {
    let expiry = in_an_hour();
    let resource = format!("/blob/{}/{container}", account.name());
    // sp, st, se, resource, si, sip, spr, sv, sr, snapshot, ses, rscc, rscd, rsce, rscl, rsct
    let lines =
        [permissions, "", &expiry, &resource, "", "", "", VERSION, "c", "", "", "", "", "", "", ""];
    let parameters = [("sp", permissions), ("se", expiry.as_str()), ("sv", VERSION), ("sr", "c")];
    sas(account, &lines.join("\n"), &parameters)
}

/// An account SAS for blobs and containers, as the service's reference has it signed. For an hour;
/// over TLS only, when that is how the account is reached.
#[must_use]
pub fn account_sas(account: &Account, permissions: &str) -> String {
    let expiry = in_an_hour();
    let protocol = if account.origin().starts_with("https:") { "https" } else { "https,http" };
    // name, sp, ss, srt, st, se, sip, spr, sv, ses
    let lines =
        [account.name(), permissions, "b", "co", "", &expiry, "", protocol, VERSION, "", ""];
    let parameters = [
        ("sp", permissions),
        ("ss", "b"),
        ("srt", "co"),
        ("se", expiry.as_str()),
        ("spr", protocol),
        ("sv", VERSION),
    ];
    sas(account, &lines.join("\n"), &parameters)
}

fn in_an_hour() -> String {
    (Utc::now() + TimeDelta::hours(1)).to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn sas(account: &Account, to_sign: &str, parameters: &[(&str, &str)]) -> String {
    let Key::SharedKey(key, _) = account.credential() else { panic!("{account:?} has no key") };
    let signature = key.sign(to_sign);
    let all = parameters.iter().copied().chain([("sig", signature.as_str())]);
    let encoded =
        all.map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)));
    encoded.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "c2VjcmV0";

    fn access(credential: Credential) -> (Access, String) {
        let known = format!("AccountName=acc;AccountKey={KEY};BlobEndpoint=http://127.0.0.1:1/acc");
        let access = credential.access(&known, "jobs");
        let [(name, value)] = access.variables.as_slice() else { panic!("{access:?}") };
        assert_eq!(*name, "AZURE_STORAGE_CONNECTION_STRING");
        let value = value.clone();
        (access, value)
    }

    #[test]
    fn who_has_a_signature_has_no_key() {
        for credential in [Credential::AccountSas, Credential::ServiceSas] {
            let (_, value) = access(credential);
            assert!(value.contains(";SharedAccessSignature=sp="), "{value}");
            assert!(!value.contains("AccountKey") && !value.contains(KEY), "{value}");
            assert_eq!(value.contains("&srt=co&"), credential.makes_containers(), "{value}");
        }
    }

    #[test]
    fn what_is_secret_is_known_and_not_shown() {
        for credential in [Credential::SharedKey, Credential::AccountSas, Credential::ServiceSas] {
            let (access, value) = access(credential);
            assert!(access.is_told_by(&value), "{credential:?}");
            assert!(!access.is_told_by("BlobEndpoint=http://127.0.0.1:1/acc;sp=rcw"));
            let shown = format!("{:?}", access.trusting(Some("/ca.pem".into())));
            assert_eq!(shown, r#"{"AZURE_STORAGE_CONNECTION_STRING", "/ca.pem"}"#);
        }
    }
}
