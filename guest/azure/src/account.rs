//! A storage account: name, endpoint and credential.
//!
//! No complaint quotes a value: any of them can be a secret in the wrong place.

mod connection_string;

use core::fmt;

use super::credential::{AuthSource, Authorization, Credential};
use super::endpoint::Endpoint;
use super::problem::Problem;
use tenure_base::prelude::*;

/// An account that requests can be sent to and authorised for. `Debug` prints name and endpoint
/// only.
#[derive(Clone)]
pub struct Account {
    name: String,
    endpoint: Endpoint,
    credential: Credential,
}

/// The default means of authorisation: the credential itself.
static CREDENTIAL_ITSELF: AuthSource = AuthSource::Credential;

impl Account {
    /// Parses a connection string: pieces between semicolons, each `key=value`, keys in any case.
    ///
    /// # Errors
    /// All problems of the text at once.
    pub fn from_connection_string(text: &str) -> Result<Account, Vec<Problem>> {
        connection_string::parse(text)
    }

    /// Creates the account at an endpoint. Its name is that of the endpoint, unless the endpoint
    /// has a custom domain.
    ///
    /// # Errors
    /// The credential may not be sent there.
    pub fn new(
        name: Option<&str>,
        endpoint: Endpoint,
        credential: Credential,
    ) -> Result<Account, Vec<Problem>> {
        let mut problems = Vec::new();
        check_transport(&credential, &endpoint, &mut problems);
        let name = name.map_or_else(|| endpoint.account(), Into::into);
        let account = Account { name, endpoint, credential };
        if problems.is_empty() { Ok(account) } else { Err(problems) }
    }

    /// Returns the account's name, as it is signed.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the endpoint of its blobs.
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

    /// Returns the authorisation of a request without another [`AuthSource`].
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

#[cfg(test)]
mod tests;
