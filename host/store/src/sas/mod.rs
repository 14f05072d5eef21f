//! Shared access signatures made here: what a person does with `az storage container generate-sas`, for tests and
//! tools that have the account's key (REST reference: *Create an account SAS*, *Create a service SAS*).
//!
//! A token made with these works with this store, with emulators and with the service. The store takes others as well,
//! whoever made them with a key of its accounts, and answers as the service does to those that do not fit. It refuses by
//! name what it does not play: stored access policies (`si`), user delegation keys (`skoid` and its like), snapshots,
//! versions and directories (`sr`), address ranges (`sip`), encryption scopes (`ses`), versions (`sv`) before 2020-12-06,
//! and headers of answers (`rscc` and its like).
//!
//! ```
//! use tenure_store::sas::{Scope, Terms};
//! use tenure_store::{Account, KeyName};
//!
//! let expires = chrono::Utc::now() + chrono::TimeDelta::hours(1);
//! let terms = Terms::new(Scope::Container("leases".to_owned()), "rcw", expires);
//! let token = Account::emulator().sas(KeyName::Key1, &terms).expect("every account has a first key");
//! let text = token.connection_string("http://127.0.0.1:10000/devstoreaccount1");
//! assert!(text.starts_with("BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;SharedAccessSignature="));
//! ```

use std::fmt;

use chrono::{DateTime, SecondsFormat, Utc};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tenure_azure::shared_key::Key;

/// The version by which tokens are signed unless [`Terms::version`] says otherwise; requests that name none of their
/// own are answered by it.
pub const SAS_VERSION: &str = "2021-12-02";

/// What stays as it is in a query: RFC 3986, *unreserved*.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What a token opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// An account SAS: all of some services.
    Account {
        /// The services, letters of `bfqt` (blob, file, queue, table).
        services: String,
        /// The kinds of resources, letters of `sco` (service, container, object).
        types: String,
    },
    /// A service SAS for the blobs of one container. Nothing can be done to the container itself with it.
    Container(String),
    /// A service SAS for one blob, which need not exist yet.
    Blob {
        /// Its container.
        container: String,
        /// Its name, not percent-encoded.
        blob: String,
    },
}

/// What a token says, before it is signed. Nothing is checked here: a token that must be refused can be made as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SasParameters {
    /// What it opens.
    pub scope: Scope,
    /// Letters, `sp`; of a service SAS in the order `racwdxyltfmeopi`. An election needs `rcw`.
    pub permissions: String,
    /// From when on, `st`, in whole seconds; none: at once.
    pub starts_at: Option<DateTime<Utc>>,
    /// Until when, `se`, in whole seconds.
    pub expires_at: DateTime<Utc>,
    /// By which protocols, `spr`: `https` or `https,http`; none: both.
    pub protocol: Option<String>,
    /// The version, `sv`. The two forms of signing here are those of 2020-12-06 and later.
    pub version: String,
}

impl SasParameters {
    /// At once, by either protocol, in version [`SAS_VERSION`].
    pub fn new(scope: Scope, permissions: &str, expires: DateTime<Utc>) -> SasParameters {
        SasParameters {
            scope,
            permissions: permissions.to_owned(),
            starts_at: None,
            expires_at: expires,
            protocol: None,
            version: SAS_VERSION.to_owned(),
        }
    }

    /// The token, signed with a key of the account of that name.
    pub fn sign(&self, account: &str, key: &Key) -> Token {
        let time = |time: DateTime<Utc>| time.to_rfc3339_opts(SecondsFormat::Secs, true);
        let mut pairs = vec![("sv", self.version.clone())];
        match &self.scope {
            Scope::Account { services, types } => {
                pairs.extend([("ss", services.clone()), ("srt", types.clone())]);
            }
            Scope::Container(_) => pairs.push(("sr", "c".to_owned())),
            Scope::Blob { .. } => pairs.push(("sr", "b".to_owned())),
        }
        pairs.push(("sp", self.permissions.clone()));
        pairs.extend(self.starts_at.map(|starts| ("st", time(starts))));
        pairs.push(("se", time(self.expires_at)));
        pairs.extend(self.protocol.clone().map(|protocol| ("spr", protocol)));
        let value = |name: &str| {
            let pair = pairs.iter().find(|(known, _)| *known == name);
            pair.map_or("", |(_, value)| value.as_str())
        };
        let text = match &self.scope {
            Scope::Account { .. } => account_string_to_sign(account, value),
            Scope::Container(container) => service_string_to_sign(account, &[container], value),
            Scope::Blob { container, blob } => service_string_to_sign(account, &[container, blob], value),
        };
        let signature = key.sign(&text);
        pairs.push(("sig", signature));
        let encoded = |(name, value): &(&str, String)| {
            format!("{name}={}", utf8_percent_encode(value, ENCODED))
        };
        Token(pairs.iter().map(encoded).collect::<Vec<_>>().join("&"))
    }
}

/// A signed token. A secret: `Debug` prints nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// As it goes into the query of a request, without the question mark.
    pub fn query(&self) -> &str {
        &self.0
    }

    /// For clients: the endpoint (`http://HOST:PORT/ACCOUNT`) and this token. As secret as the token.
    pub fn connection_string(&self, endpoint: &str) -> String {
        format!("BlobEndpoint={endpoint};SharedAccessSignature={}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The lines of a service SAS behind the resource: its parameters, decoded, and an empty line for each that is absent. These are
/// the forms of version 2020-12-06 and later; before, there was no line for the encryption scope (`ses`).
const SERVICE_FIELDS: [&str; 12] =
    ["si", "sip", "spr", "sv", "sr", "snapshot", "ses", "rscc", "rscd", "rsce", "rscl", "rsct"];

/// The lines of an account SAS behind the account.
const ACCOUNT_FIELDS: [&str; 9] = ["sp", "ss", "srt", "st", "se", "sip", "spr", "sv", "ses"];

/// What is signed of a service SAS for what `resource` names: a container, or a container and a blob.
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
    // The line `snapshot` is for tokens of snapshots alone, so a request for one does not change the text.
    let value = |name: &str| if name == "snapshot" { "" } else { value(name) };
    let signed_prefix = [value("sp"), value("st"), value("se"), &path];
    signed_prefix.into_iter().chain(SERVICE_FIELDS.map(value)).collect::<Vec<_>>().join("\n")
}

/// What is signed of an account SAS. Here the last line ends as well.
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
