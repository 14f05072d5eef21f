//! A storage account: name, endpoint and credential, read from a connection string, or from the
//! variables of the Azure CLI.
//!
//! Forms and rules: *Configure Azure Storage connection strings*. No complaint quotes a value: any
//! of them can be a secret in the wrong place.

use core::fmt;

use super::credential::Credential;
use super::endpoint::{self, Endpoint};
use super::sas::Sas;
use super::shared_key::Key;
use crate::prelude::*;

const EMULATOR_NAME: &str = "devstoreaccount1";
/// Public: every emulator and its documentation has it.
const EMULATOR_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// An account that requests can be sent to and signed for. `Debug` prints name and endpoint only.
#[derive(Clone)]
pub struct Account {
    name: String,
    endpoint: Endpoint,
    credential: Credential,
}

/// One thing that is wrong with a setting, for people. Never holds a part of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong: one sentence.
    pub problem: String,
    /// What to do about it: one sentence.
    pub advice: String,
}

impl Account {
    /// Reads a connection string: pieces between semicolons, each `key=value`, keys in any case.
    ///
    /// # Errors
    /// Everything that is wrong with it, at once.
    pub fn from_connection_string(text: &str) -> Result<Account, Vec<Problem>> {
        let mut problems = Vec::new();
        let pieces = Pieces::split(text, &mut problems);
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

    /// The account's name, as it is signed.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Scheme, host and port that requests go to, like `http://127.0.0.1:10000`.
    pub fn origin(&self) -> &str {
        &self.endpoint.origin
    }

    /// What comes before the container in every path: empty, or like `/devstoreaccount1`.
    pub fn prefix(&self) -> &str {
        &self.endpoint.prefix
    }

    /// With what requests are authorised.
    pub fn credential(&self) -> &Credential {
        &self.credential
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

const COPY_IT: &str =
    "copy the connection string again from the storage account's page \"Access keys\"";

fn complain(problems: &mut Vec<Problem>, problem: &str, advice: &str) {
    problems.push(Problem { problem: problem.into(), advice: advice.into() });
}

/// Every key that means something here.
const KEYS: [&str; 8] = [
    "UseDevelopmentStorage",
    "DevelopmentStorageProxyUri",
    "DefaultEndpointsProtocol",
    "AccountName",
    "AccountKey",
    "EndpointSuffix",
    "BlobEndpoint",
    "SharedAccessSignature",
];

/// The pieces by key. Keys of other services (`QueueEndpoint=…`) are passed over.
struct Pieces<'a>(Vec<(&'static str, &'a str)>);

impl<'a> Pieces<'a> {
    fn split(text: &'a str, problems: &mut Vec<Problem>) -> Pieces<'a> {
        let mut pieces = Pieces(Vec::new());
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
            let Some(key) = KEYS.into_iter().find(|known| known.eq_ignore_ascii_case(key.trim()))
            else {
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

/// `UseDevelopmentStorage=true`, by itself or with a `DevelopmentStorageProxyUri`.
fn emulator(pieces: &Pieces<'_>, problems: &mut Vec<Problem>) -> Option<Account> {
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
            complain(
                problems,
                &problem,
                "leave out UseDevelopmentStorage, which stands for a whole account, or everything else",
            );
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

/// Name and credential, with an endpoint given or built. A SAS needs no name: it is told apart by
/// the endpoint alone.
fn service(pieces: &Pieces<'_>, problems: &mut Vec<Problem>) -> Option<Account> {
    let credential = read_credential(pieces, problems);
    let name = read_name(pieces, problems);
    let endpoint = match pieces.get("BlobEndpoint") {
        Some(url) => read_endpoint("BlobEndpoint", url, problems),
        None => built_endpoint(pieces, name.unwrap_or("account"), problems),
    };
    let (credential, endpoint) = (credential?, endpoint?);
    let name = match name {
        Some(name) => name.into(),
        None if matches!(credential, Credential::Sas(_)) => endpoint.account(),
        None => return None,
    };
    judge_transport(&credential, &endpoint, problems);
    Some(Account { name, endpoint, credential })
}

/// A signature in a query can be read by everybody on the way.
fn judge_transport(credential: &Credential, endpoint: &Endpoint, problems: &mut Vec<Problem>) {
    let Credential::Sas(sas) = credential else { return };
    if endpoint.origin.starts_with("https://") {
        return;
    }
    if sas.is_https_only() {
        let advice = "use an https:// endpoint, or make a SAS for both protocols";
        complain(problems, "the SAS is for https alone (spr), and the endpoint is http", advice);
    } else if !endpoint.is_loopback() {
        let problem = "a SAS over plain http could be read by everybody on the way";
        complain(problems, problem, "use an https:// endpoint");
    }
}

fn read_credential(pieces: &Pieces<'_>, problems: &mut Vec<Problem>) -> Option<Credential> {
    let (problem, advice) = match (pieces.get("AccountKey"), pieces.get("SharedAccessSignature")) {
        (Some(""), _) => ("AccountKey is empty", COPY_IT),
        (Some(text), _) => match Key::from_base64(text) {
            Some(key) => return Some(Credential::SharedKey(key)),
            None => ("AccountKey is no base64, so a part of it is missing or changed", COPY_IT),
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

fn read_name<'a>(pieces: &Pieces<'a>, problems: &mut Vec<Problem>) -> Option<&'a str> {
    let Some(name) = pieces.get("AccountName") else {
        let by_endpoint =
            pieces.get("AccountKey").is_none() && pieces.get("BlobEndpoint").is_some();
        if !by_endpoint || pieces.get("SharedAccessSignature").is_none() {
            complain(problems, "the connection string has no AccountName", COPY_IT);
        }
        return None;
    };
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    // Emulators take names that the service does not; they are always named by a BlobEndpoint.
    let good = if pieces.get("BlobEndpoint").is_some() {
        (1..=63).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    } else {
        (3..=24).contains(&name.len()) && name.bytes().all(plain)
    };
    if !good {
        complain(problems, "AccountName is not 3 to 24 lower-case letters and digits", COPY_IT);
        return None;
    }
    Some(name)
}

fn built_endpoint(
    pieces: &Pieces<'_>,
    name: &str,
    problems: &mut Vec<Problem>,
) -> Option<Endpoint> {
    let protocol = pieces.get("DefaultEndpointsProtocol").unwrap_or("https").to_ascii_lowercase();
    let suffix = pieces.get("EndpointSuffix").unwrap_or("core.windows.net");
    let good_protocol = protocol == "http" || protocol == "https";
    if !good_protocol {
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
            "EndpointSuffix is no host name"
        };
        complain(
            problems,
            problem,
            "write EndpointSuffix=core.windows.net, or leave it out, or give a BlobEndpoint",
        );
        return None;
    }
    if !good_protocol {
        return None;
    }
    read_endpoint(
        "the endpoint made with EndpointSuffix",
        &format!("{protocol}://{name}.blob.{suffix}"),
        problems,
    )
}

fn read_endpoint(what: &str, url: &str, problems: &mut Vec<Problem>) -> Option<Endpoint> {
    match Endpoint::parse(url) {
        Ok(endpoint) => Some(endpoint),
        Err(reason) => {
            let advice =
                "write it like https://NAME.blob.core.windows.net or http://127.0.0.1:10000/NAME";
            complain(problems, &format!("{what} {reason}"), advice);
            None
        }
    }
}

#[cfg(test)]
mod tests;
