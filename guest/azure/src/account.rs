//! A storage account: name, endpoint and credential, also from a connection string.
//!
//! No complaint quotes a value, because any value can be a misplaced secret.

use core::fmt;

use super::credential::{AuthSource, Authorization, Credential, Problem, Sas};
use super::endpoint::{self, Endpoint};
use super::shared_key::Key;
use tenure_base::prelude::*;
use tenure_base::text::{QUOTED, QUOTED_ADVICE, begins_quoted, is_quoted};

/// A storage account: the endpoint of requests, and the credential that authorises them. `Debug`
/// prints name and endpoint only.
#[derive(Clone)]
pub struct Account {
    name: String,
    endpoint: Endpoint,
    credential: Credential,
}

/// The default source of authorisation: the credential itself. Static, since an [`Authorization`]
/// borrows from its source.
static CREDENTIAL_ITSELF: AuthSource = AuthSource::Credential;

impl Account {
    /// Parses a connection string: pieces between semicolons, each `key=value`, keys in any case.
    /// Its forms and rules are those of *Configure Azure Storage connection strings*.
    ///
    /// # Errors
    /// Returns all problems of the text at once.
    pub fn from_connection_string(text: &str) -> Result<Account, Vec<Problem>> {
        parse_connection_string(text)
    }

    /// Creates an account.
    ///
    /// # Errors
    /// Fails if the credential may not be sent to the endpoint: it would be readable in transit.
    pub fn new(
        name: String,
        endpoint: Endpoint,
        credential: Credential,
    ) -> Result<Account, Vec<Problem>> {
        let mut problems = Vec::new();
        check_transport(&credential, &endpoint, &mut problems);
        let account = Account { name, endpoint, credential };
        if problems.is_empty() { Ok(account) } else { Err(problems) }
    }

    /// Returns the account's name, as in signatures.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the endpoint of the account's blobs.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns scheme, host and port of the requests, such as `http://127.0.0.1:10000`.
    pub fn origin(&self) -> &str {
        &self.endpoint.origin
    }

    /// Returns the part before the container in every path: empty, or such as `/devstoreaccount1`.
    pub fn prefix(&self) -> &str {
        &self.endpoint.prefix
    }

    /// Returns the credential of the requests.
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Returns the authorisation of a request by the credential itself, without a requested token.
    pub fn authorization(&self) -> Authorization<'_> {
        self.credential.authorization(&CREDENTIAL_ITSELF)
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("name", &self.name)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

/// Returns true if the service accepts the text as the name of an account.
pub fn is_account_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (3..=24).contains(&name.len()) && name.bytes().all(is_allowed)
}

fn complain(problems: &mut Vec<Problem>, problem: &str, advice: &str) {
    problems.push(Problem { problem: problem.into(), advice: advice.into() });
}

/// Complains if a signature or a token would be readable in transit.
fn check_transport(credential: &Credential, endpoint: &Endpoint, problems: &mut Vec<Problem>) {
    if endpoint.origin.starts_with("https://") || !credential.needs_tls() {
        return;
    }
    let (kind, https_only) = match credential {
        Credential::Sas(sas) => ("a SAS", sas.is_https_only()),
        _ => ("a token", false),
    };
    if https_only {
        let advice = "use an https:// endpoint, or make a SAS for both protocols";
        complain(problems, "the SAS is for https only (spr), but the endpoint is http", advice);
    } else if !endpoint.is_loopback() {
        let problem = format!("{kind} over plain http could be read by anyone on the way");
        complain(problems, &problem, "use an https:// endpoint");
    }
}

const EMULATOR_NAME: &str = "devstoreaccount1";
/// The account key of every emulator. It is public: the emulators' documentation states it.
const EMULATOR_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

fn parse_connection_string(text: &str) -> Result<Account, Vec<Problem>> {
    let mut problems = Vec::new();
    // No key of a connection string begins with a quotation mark.
    if begins_quoted(text) {
        let is_quoted = is_quoted(text);
        let problem =
            if is_quoted { QUOTED } else { "the connection string begins with a quotation mark" };
        complain(&mut problems, problem, QUOTED_ADVICE);
        return Err(problems);
    }
    let pieces = ConnectionParts::split(text, &mut problems);
    let parts = if text.trim().is_empty() {
        complain(&mut problems, "the connection string is empty", COPY_IT);
        None
    } else if pieces.get("UseDevelopmentStorage").is_some() {
        emulator_account(&pieces, &mut problems)
    } else {
        service_account(&pieces, &mut problems)
    };
    match parts {
        Some(account) if problems.is_empty() => Ok(account),
        _ => Err(problems),
    }
}

const COPY_IT: &str = "copy it again from the account's page \"Access keys\"";

/// Defines `KEYS`, and `KNOWN_KEYS`, the advice that lists them.
macro_rules! keys {
    ($first:literal $(, $key:literal)*) => {
        /// Every key that is read.
        const KEYS: &[&str] = &[$first $(, $key)*];

        const KNOWN_KEYS: &str =
            concat!("correct it or leave it out; the keys are: ", $first $(, ", ", $key)*);
    };
}

keys!(
    "UseDevelopmentStorage",
    "DevelopmentStorageProxyUri",
    "DefaultEndpointsProtocol",
    "AccountName",
    "AccountKey",
    "EndpointSuffix",
    "BlobEndpoint",
    "SharedAccessSignature"
);

/// The services whose `…Endpoint` and `…SecondaryEndpoint` a connection string can have. Only
/// `BlobEndpoint` is read: see [`KEYS`].
const SERVICES: [&str; 6] = ["Blob", "Queue", "Table", "File", "Dfs", "Web"];

/// Returns true for a key that only other clients read: it does not affect requests for blobs.
fn is_foreign(key: &str) -> bool {
    let ends = ["Endpoint", "SecondaryEndpoint"];
    key.eq_ignore_ascii_case("AccountKeyName")
        || SERVICES.iter().any(|service| {
            ends.iter().any(|end| {
                key.len() == service.len() + end.len()
                    && key.get(..service.len()).is_some_and(|s| s.eq_ignore_ascii_case(service))
                    && key.get(service.len()..).is_some_and(|e| e.eq_ignore_ascii_case(end))
            })
        })
}

/// Maximum length of an unknown key that a complaint quotes. A longer one can be a secret.
const MAX_KEY: usize = 32;

/// The pieces of a connection string, by key. Keys of other services (`QueueEndpoint=…`) are
/// skipped.
struct ConnectionParts<'a>(Vec<(&'static str, &'a str)>);

impl<'a> ConnectionParts<'a> {
    fn split(text: &'a str, problems: &mut Vec<Problem>) -> ConnectionParts<'a> {
        let mut pieces = ConnectionParts(Vec::new());
        for (index, piece) in
            text.split(';').map(str::trim).enumerate().filter(|(_, piece)| !piece.is_empty())
        {
            let Some((key, value)) = piece.split_once('=') else {
                let problem = format!("piece {} of the connection string has no \"=\"", index + 1);
                complain(
                    problems,
                    &problem,
                    "write each piece as Key=Value, with semicolons between the pieces",
                );
                continue;
            };
            let key = key.trim();
            let Some(key) = KEYS.iter().copied().find(|known| known.eq_ignore_ascii_case(key))
            else {
                if !is_foreign(key) {
                    let is_name = (1..=MAX_KEY).contains(&key.len())
                        && key.bytes().all(|byte| byte.is_ascii_alphabetic());
                    let problem = match is_name {
                        true => format!("a connection string has no key {key}"),
                        false => format!(
                            "piece {} of the connection string does not begin with a key",
                            index + 1
                        ),
                    };
                    complain(problems, &problem, KNOWN_KEYS);
                }
                continue;
            };
            if pieces.get(key).is_some() {
                complain(
                    problems,
                    &format!("the connection string has {key} twice"),
                    "keep one of the two",
                );
                continue;
            }
            pieces.0.push((key, value.trim()));
        }
        pieces
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }
}

/// Parses `UseDevelopmentStorage=true`, alone or with a `DevelopmentStorageProxyUri`.
fn emulator_account(pieces: &ConnectionParts<'_>, problems: &mut Vec<Problem>) -> Option<Account> {
    if !pieces.get("UseDevelopmentStorage").is_some_and(|value| value.eq_ignore_ascii_case("true"))
    {
        complain(
            problems,
            "UseDevelopmentStorage is not \"true\"",
            "write UseDevelopmentStorage=true, or leave it out",
        );
    }
    for key in ["AccountName", "AccountKey", "BlobEndpoint", "SharedAccessSignature"] {
        if pieces.get(key).is_some() {
            let problem = format!("the connection string has both UseDevelopmentStorage and {key}");
            complain(problems, &problem, "leave out UseDevelopmentStorage, or everything else");
        }
    }
    let proxy = pieces.get("DevelopmentStorageProxyUri").unwrap_or("http://127.0.0.1");
    let mut endpoint = read_endpoint("DevelopmentStorageProxyUri", proxy, problems)?;
    if !endpoint.has_port() {
        endpoint.origin.push_str(":10000");
    }
    endpoint.prefix = format!("/{EMULATOR_NAME}");
    let credential = Credential::SharedKey(Key::from_base64(EMULATOR_KEY)?);
    Some(Account { name: EMULATOR_NAME.into(), endpoint, credential })
}

/// Parses name, credential and endpoint. Without a `BlobEndpoint`, the endpoint is built from the
/// name. A SAS needs no name if the endpoint contains it.
fn service_account(pieces: &ConnectionParts<'_>, problems: &mut Vec<Problem>) -> Option<Account> {
    let credential = read_credential(pieces, problems);
    let name = read_name(pieces, problems);
    let endpoint = match pieces.get("BlobEndpoint") {
        Some(url) => read_endpoint("BlobEndpoint", url, problems),
        None => default_endpoint(pieces, name.unwrap_or("account"), problems),
    };
    let (credential, endpoint) = (credential?, endpoint?);
    let name = name.map(Into::into).or_else(|| endpoint.account_in_url())?;
    check_transport(&credential, &endpoint, problems);
    Some(Account { name, endpoint, credential })
}

fn read_credential(
    pieces: &ConnectionParts<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Credential> {
    let (problem, advice) = match (pieces.get("AccountKey"), pieces.get("SharedAccessSignature")) {
        (Some(""), _) => ("AccountKey is empty", COPY_IT),
        (Some(text), _) => match Key::from_base64(text) {
            Some(key) => return Some(Credential::SharedKey(key)),
            None => ("AccountKey is not base64, so a part of it is missing or changed", COPY_IT),
        },
        (None, Some(sas)) => match Sas::parse(sas) {
            Ok(sas) => return Some(Credential::Sas(sas)),
            Err(found) => {
                problems.extend(found);
                return None;
            }
        },
        (None, None) => {
            ("the connection string has neither AccountKey nor SharedAccessSignature", COPY_IT)
        }
    };
    complain(problems, problem, advice);
    None
}

fn read_name<'a>(pieces: &ConnectionParts<'a>, problems: &mut Vec<Problem>) -> Option<&'a str> {
    let Some(name) = pieces.get("AccountName") else {
        let has_sas_alone =
            pieces.get("AccountKey").is_none() && pieces.get("SharedAccessSignature").is_some();
        match pieces.get("BlobEndpoint").filter(|_| has_sas_alone) {
            None => complain(problems, "the connection string has no AccountName", COPY_IT),
            Some(url) if Endpoint::parse(url).is_ok_and(|e| e.account_in_url().is_none()) => {
                let problem = "the connection string has no AccountName, and its BlobEndpoint does \
                               not contain the account's name";
                complain(problems, problem, "add AccountName=NAME");
            }
            Some(_) => {}
        }
        return None;
    };
    // Emulators accept names that the service does not. Their accounts always have a BlobEndpoint.
    let (is_valid, problem) = if pieces.get("BlobEndpoint").is_some() {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_valid = (1..=63).contains(&name.len()) && name.bytes().all(is_allowed);
        (is_valid, "AccountName is not 1 to 63 letters, digits and hyphens")
    } else {
        (is_account_name(name), "AccountName is not 3 to 24 lower-case letters and digits")
    };
    if !is_valid {
        complain(problems, problem, COPY_IT);
        return None;
    }
    Some(name)
}

fn default_endpoint(
    pieces: &ConnectionParts<'_>,
    name: &str,
    problems: &mut Vec<Problem>,
) -> Option<Endpoint> {
    let protocol = pieces.get("DefaultEndpointsProtocol").unwrap_or("https").to_ascii_lowercase();
    let suffix = pieces.get("EndpointSuffix").unwrap_or("core.windows.net");
    let is_known_protocol = protocol == "http" || protocol == "https";
    if !is_known_protocol {
        complain(
            problems,
            "DefaultEndpointsProtocol is neither http nor https",
            "write DefaultEndpointsProtocol=https",
        );
    }
    let host = suffix.split_once(':').map_or(suffix, |(host, _)| host);
    if !endpoint::is_host(host) {
        let problem = if suffix.is_empty() {
            "EndpointSuffix is empty"
        } else {
            "EndpointSuffix is not a host name"
        };
        complain(
            problems,
            problem,
            "write EndpointSuffix=core.windows.net, or leave it out, or give a BlobEndpoint",
        );
        return None;
    }
    if !is_known_protocol {
        return None;
    }
    read_endpoint(
        "the endpoint made with EndpointSuffix",
        &format!("{protocol}://{name}.blob.{suffix}"),
        problems,
    )
}

fn read_endpoint(setting: &str, url: &str, problems: &mut Vec<Problem>) -> Option<Endpoint> {
    match Endpoint::parse_account(url) {
        Ok(endpoint) => Some(endpoint),
        Err(reason) => {
            let advice =
                "write it like https://NAME.blob.core.windows.net or http://127.0.0.1:10000/NAME";
            complain(problems, &format!("{setting} {reason}"), advice);
            None
        }
    }
}

#[cfg(test)]
mod tests;
