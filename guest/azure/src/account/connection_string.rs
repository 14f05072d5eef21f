//! Connection strings.
//!
//! Forms and rules: *Configure Azure Storage connection strings*.

use super::super::endpoint::{self, Endpoint};
use super::super::problem::Problem;
use super::super::sas::Sas;
use super::super::shared_key::Key;
use super::{Account, Credential, check_transport, complain, is_account_name};
use tenure_base::prelude::*;
use tenure_base::text::{QUOTED, QUOTED_ADVICE, begins_quoted, is_quoted};

const EMULATOR_NAME: &str = "devstoreaccount1";
/// Public: every emulator and its documentation has it.
const EMULATOR_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

pub(super) fn parse(text: &str) -> Result<Account, Vec<Problem>> {
    let mut problems = Vec::new();
    // No key begins with a quotation mark.
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
        emulator(&pieces, &mut problems)
    } else {
        service(&pieces, &mut problems)
    };
    match parts {
        Some(account) if problems.is_empty() => Ok(account),
        _ => Err(problems),
    }
}

const COPY_IT: &str = "copy it again from the account's page \"Access keys\"";

/// Defines the list of keys, and the advice that names them.
macro_rules! keys {
    ($first:literal $(, $key:literal)*) => {
        /// Every key that has a meaning here.
        pub(super) const KEYS: &[&str] = &[$first $(, $key)*];

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

/// The services whose `…Endpoint` and `…SecondaryEndpoint` a connection string can have.
/// `BlobEndpoint` is in [`KEYS`].
const SERVICES: [&str; 6] = ["Blob", "Queue", "Table", "File", "Dfs", "Web"];

/// Returns true for keys that other clients read and that do not affect the location of blobs.
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

/// Maximum length of a quoted key. A longer one can be a secret.
const LONGEST_KEY: usize = 32;

/// The pieces by key. Keys of other services (`QueueEndpoint=…`) are skipped.
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
                    let is_name = (1..=LONGEST_KEY).contains(&key.len())
                        && key.bytes().all(|byte| byte.is_ascii_alphabetic());
                    let problem = match is_name {
                        true => format!("a connection string has no key {key}"),
                        false => format!(
                            "piece {} of the connection string has a key that is none",
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
fn emulator(pieces: &ConnectionParts<'_>, problems: &mut Vec<Problem>) -> Option<Account> {
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

/// Parses name and credential, with an endpoint given or built. A SAS needs no name: the endpoint
/// alone identifies the account.
fn service(pieces: &ConnectionParts<'_>, problems: &mut Vec<Problem>) -> Option<Account> {
    let credential = read_credential(pieces, problems);
    let name = read_name(pieces, problems);
    let endpoint = match pieces.get("BlobEndpoint") {
        Some(url) => read_endpoint("BlobEndpoint", url, problems),
        None => default_endpoint(pieces, name.unwrap_or("account"), problems),
    };
    let (credential, endpoint) = (credential?, endpoint?);
    let name = match name {
        Some(name) => name.into(),
        None if matches!(credential, Credential::Sas(_)) => endpoint.account(),
        None => return None,
    };
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
        let named_by_endpoint =
            pieces.get("AccountKey").is_none() && pieces.get("BlobEndpoint").is_some();
        if !named_by_endpoint || pieces.get("SharedAccessSignature").is_none() {
            complain(problems, "the connection string has no AccountName", COPY_IT);
        }
        return None;
    };
    // Emulators accept names that the service does not; a BlobEndpoint always names them.
    let is_valid = if pieces.get("BlobEndpoint").is_some() {
        (1..=63).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    } else {
        is_account_name(name)
    };
    if !is_valid {
        complain(problems, "AccountName is not 3 to 24 lower-case letters and digits", COPY_IT);
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
