//! Creates shared access signatures, like `az storage container generate-sas`, for tests and tools
//! that have the account's key (REST reference: *Create an account SAS*, *Create a service SAS*).
//!
//! The tokens work with this store, with emulators and with the service. The store also accepts
//! tokens from other tools that use a key of its accounts. It refuses invalid tokens as the service
//! does. It refuses unsupported features by name: stored access policies (`si`), user delegation
//! keys (`skoid` and similar), snapshots, versions and directories (`sr`), address ranges (`sip`),
//! encryption scopes (`ses`), versions (`sv`) before 2020-12-06, and response headers (`rscc` and
//! similar).
//!
//! ```
//! use tenure_store::sas::{SasParameters, Scope};
//! use tenure_store::{Account, KeyName};
//!
//! let expires = chrono::Utc::now() + chrono::TimeDelta::hours(1);
//! let parameters = SasParameters::new(Scope::Container("leases".to_owned()), "rcw", expires);
//! let token = Account::emulator().sas(KeyName::Key1, &parameters).expect("it has a first key");
//! let text = token.connection_string("http://127.0.0.1:10000/devstoreaccount1");
//! assert!(text.starts_with("BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;"));
//! assert!(text.contains(";SharedAccessSignature="));
//! ```

use std::fmt;

use chrono::{DateTime, SecondsFormat, Utc};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tenure_azure::shared_key::Key;

/// The default version of a token. A request with a token is handled by the token's version if it
/// names no version itself.
pub const SAS_VERSION: &str = "2021-12-02";

/// Characters that are escaped in a query: all but those that RFC 3986 calls *unreserved*.
const QUERY_ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The resources to which a token gives access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// An account SAS: everything in some services.
    Account {
        /// The services, letters of `bfqt` (blob, file, queue, table).
        services: String,
        /// The kinds of resources, letters of `sco` (service, container, object).
        types: String,
    },
    /// A service SAS for the blobs of one container. It gives no access to the container itself.
    Container(String),
    /// A service SAS for one blob, which need not exist yet.
    Blob {
        /// Its container.
        container: String,
        /// Its name, not percent-encoded.
        blob: String,
    },
}

/// The parameters of a token before it is signed. They are not checked, so tests can create invalid
/// tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SasParameters {
    /// The resources to which the token gives access.
    pub scope: Scope,
    /// The permissions, `sp`. Those of a service SAS must be in the order `racwdxyltfmeopi`. An
    /// election needs `rcw`.
    pub permissions: String,
    /// The start, `st`, in whole seconds. With `None`, the token is valid at once.
    pub starts_at: Option<DateTime<Utc>>,
    /// The expiry, `se`, in whole seconds.
    pub expires_at: DateTime<Utc>,
    /// The protocols, `spr`: `https` or `https,http`; `None` for both.
    pub protocol: Option<String>,
    /// The version, `sv`. The token is signed in the form of 2020-12-06 and later, whatever the
    /// version.
    pub version: String,
}

impl SasParameters {
    /// Creates parameters that are valid at once, by either protocol, in version [`SAS_VERSION`].
    pub fn new(scope: Scope, permissions: &str, expires_at: DateTime<Utc>) -> SasParameters {
        SasParameters {
            scope,
            permissions: permissions.to_owned(),
            starts_at: None,
            expires_at,
            protocol: None,
            version: SAS_VERSION.to_owned(),
        }
    }

    /// Returns the token for `account`, signed with `key`.
    pub fn sign(&self, account: &str, key: &Key) -> Token {
        let format_time = |time: DateTime<Utc>| time.to_rfc3339_opts(SecondsFormat::Secs, true);
        let mut pairs = vec![("sv", self.version.clone())];
        match &self.scope {
            Scope::Account { services, types } => {
                pairs.extend([("ss", services.clone()), ("srt", types.clone())]);
            }
            Scope::Container(_) => pairs.push(("sr", "c".to_owned())),
            Scope::Blob { .. } => pairs.push(("sr", "b".to_owned())),
        }
        pairs.push(("sp", self.permissions.clone()));
        pairs.extend(self.starts_at.map(|time| ("st", format_time(time))));
        pairs.push(("se", format_time(self.expires_at)));
        pairs.extend(self.protocol.clone().map(|protocol| ("spr", protocol)));
        let value = |name: &str| {
            let pair = pairs.iter().find(|(known, _)| *known == name);
            pair.map_or("", |(_, value)| value.as_str())
        };
        let text = match &self.scope {
            Scope::Account { .. } => account_string_to_sign(account, value),
            Scope::Container(container) => service_string_to_sign(account, &[container], value),
            Scope::Blob { container, blob } => {
                service_string_to_sign(account, &[container, blob], value)
            }
        };
        let signature = key.sign(&text);
        pairs.push(("sig", signature));
        let encoded = |(name, value): &(&str, String)| {
            format!("{name}={}", utf8_percent_encode(value, QUERY_ESCAPED))
        };
        Token(pairs.iter().map(encoded).collect::<Vec<_>>().join("&"))
    }
}

/// A signed token. It is a secret: `Debug` prints nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Returns the query parameters of a request, without the question mark.
    pub fn query(&self) -> &str {
        &self.0
    }

    /// Returns a connection string with the endpoint (`http://HOST:PORT/ACCOUNT`) and this token.
    /// It is as secret as the token.
    pub fn connection_string(&self, endpoint: &str) -> String {
        format!("BlobEndpoint={endpoint};SharedAccessSignature={}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The lines below the resource in the string to sign of a service SAS. Each is a decoded
/// parameter, or empty if the token lacks it. This is the form of version 2020-12-06 and later.
/// Earlier versions have no line for the encryption scope (`ses`).
const SERVICE_FIELDS: [&str; 12] =
    ["si", "sip", "spr", "sv", "sr", "snapshot", "ses", "rscc", "rscd", "rsce", "rscl", "rsct"];

/// The lines below the account in the string to sign of an account SAS.
const ACCOUNT_FIELDS: [&str; 9] = ["sp", "ss", "srt", "st", "se", "sip", "spr", "sv", "ses"];

/// Returns the string to sign of a service SAS for `resource`: a container, or a container and a
/// blob. `value` returns a decoded parameter, or an empty text.
pub(super) fn service_string_to_sign<'a>(
    account: &str,
    resource: &[&String],
    value: impl Fn(&str) -> &'a str,
) -> String {
    let mut path = format!("/blob/{account}");
    for part in resource {
        path.push('/');
        path.push_str(part);
    }
    // Only tokens for snapshots, which are not supported, fill the line `snapshot`. With any other
    // token, this parameter belongs to the request and is not signed.
    let value = |name: &str| if name == "snapshot" { "" } else { value(name) };
    let signed_prefix = [value("sp"), value("st"), value("se"), &path];
    signed_prefix.into_iter().chain(SERVICE_FIELDS.map(value)).collect::<Vec<_>>().join("\n")
}

/// Returns the string to sign of an account SAS. Its last line ends with a line break.
pub(super) fn account_string_to_sign<'a>(account: &str, value: impl Fn(&str) -> &'a str) -> String {
    let mut text = format!("{account}\n");
    for name in ACCOUNT_FIELDS {
        text.push_str(value(name));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
