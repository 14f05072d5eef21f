//! What the environment says of the storage account, and with what requests are authorised.
//!
//! The variables have the names that the Azure CLI and the SDKs of Azure give them. Of several
//! credentials the first in [`ORDER`] is taken: what names an account by itself before what needs
//! one named, and what is given before what is asked for.

mod files;
mod identity;
#[cfg(test)]
mod tests;

pub(super) use files::files;

use super::{Complaint, Reader, SettingId, said, variable};
use files::file_of;
use tenure_azure::account::{Account, is_account_name};
use tenure_azure::credential::Credential;
use tenure_azure::endpoint::Endpoint;
use tenure_azure::percent;
use tenure_azure::problem::Problem;
use tenure_azure::sas::Sas;
use tenure_azure::secret::Secret;
use tenure_azure::shared_key::Key;
use tenure_azure::token::is_token;
use tenure_base::prelude::*;
use tenure_base::text::cut;

/// A way to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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
static ORDER: [(Kind, &str); 8] = [
    (Kind::ConnectionString, variable::CONNECTION_STRING),
    (Kind::SharedKey, variable::KEY),
    (Kind::Sas, variable::SAS_TOKEN),
    (Kind::Token, variable::AUTH_TOKEN),
    (Kind::ClientSecret, variable::CLIENT_SECRET),
    (Kind::WorkloadIdentity, variable::FEDERATED_TOKEN_FILE),
    (Kind::IdentityEndpoint, variable::IDENTITY_ENDPOINT),
    (Kind::Imds, variable::ACCOUNT),
];

const NO_ACCOUNT: &str = "set AZURE_STORAGE_CONNECTION_STRING (Azure portal: Access keys; UseDevelopmentStorage=true for \
     Azurite on its usual port), or AZURE_STORAGE_ACCOUNT to the account's name, with \
     AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or an identity of Microsoft Entra ID";

/// The account with its credential, and why that one is used.
pub(super) struct Chosen {
    pub account: Account,
    pub why: String,
}

impl Reader<'_> {
    /// A variable without blanks around it, which nothing here has.
    fn given(&self, name: &str) -> Option<String> {
        self.get(name).map(|value| value.trim().into())
    }

    pub(super) fn account(&mut self) -> Option<Chosen> {
        let set: Vec<_> =
            ORDER.into_iter().filter(|(kind, name)| self.is_set(*kind, name)).collect();
        let Some((kind, _)) = set.first().copied() else {
            let problem = "no storage account is given";
            self.complain(variable::CONNECTION_STRING, problem, NO_ACCOUNT);
            return None;
        };
        let account = match kind {
            Kind::ConnectionString => self.by_connection_string(),
            _ => self.named_account(kind),
        }?;
        if kind != Kind::Sas {
            self.agree_with_sas(&account);
        }
        if let Credential::Sas(sas) = account.credential()
            && !sas.permits(b'w')
            && self.options.observe != Some(true)
        {
            let setting = match kind {
                Kind::ConnectionString => variable::CONNECTION_STRING,
                _ => variable::SAS_TOKEN,
            };
            let advice =
                "an election leases its blob and writes its record: make a SAS with sp=rcw";
            self.complain(setting, "the SAS does not permit writing (w)", advice);
        }
        let why = explanation(&set, &account);
        Some(Chosen { account, why })
    }

    /// Returns true if the environment has a credential of that kind, which `name` shows.
    fn is_set(&self, kind: Kind, name: &str) -> bool {
        self.given(name).is_some()
            || file_of(name).is_some_and(|file| self.given(file).is_some())
            || (kind == Kind::Imds && self.given(variable::SERVICE_ENDPOINT).is_some())
    }

    fn by_connection_string(&mut self) -> Option<Account> {
        let Some(text) = self.secret(variable::CONNECTION_STRING) else {
            return self.missing(variable::CONNECTION_STRING);
        };
        match Account::from_connection_string(text.reveal()) {
            Ok(account) => {
                let by_key = matches!(account.credential(), Credential::SharedKey(..));
                let name = account.endpoint().named_account();
                let name = name.or_else(|| by_key.then(|| account.name().into()));
                self.agree(variable::CONNECTION_STRING, name);
                self.agree_on_endpoint(variable::CONNECTION_STRING, account.origin());
                Some(account)
            }
            Err(problems) => self.complain_all(variable::CONNECTION_STRING, problems),
        }
    }

    /// An account by its name or its endpoint, with a credential of its own.
    fn named_account(&mut self, kind: Kind) -> Option<Account> {
        // A SAS can come with its address, as the portal shows it.
        let (sas, address) = match kind {
            Kind::Sas => self.sas(),
            _ => (None, None),
        };
        let (setting, endpoint) = match address {
            Some(endpoint) => (variable::SAS_TOKEN, Some(endpoint)),
            None => (variable::SERVICE_ENDPOINT, self.endpoint()),
        };
        let credential = match kind {
            Kind::Sas => sas.map(Credential::Sas),
            Kind::SharedKey => self.key().map(Credential::SharedKey),
            Kind::Token => self.token().map(Credential::Token),
            _ => self.identity(kind, endpoint.as_ref()).map(Credential::Identity),
        };
        let name = self.given(variable::ACCOUNT);
        let (endpoint, credential) = (endpoint?, credential?);
        let by_key = matches!(credential, Credential::SharedKey(..));
        if by_key && name.is_none() && endpoint.named_account().is_none() {
            // It is signed, and must not be guessed from a domain of one's own.
            return self.missing(variable::ACCOUNT);
        }
        self.agree(setting, endpoint.named_account());
        match Account::at(name.as_deref(), endpoint, credential) {
            Ok(account) => Some(account),
            Err(problems) => self.complain_all(setting, problems),
        }
    }

    fn endpoint(&mut self) -> Option<Endpoint> {
        let name = self.given(variable::ACCOUNT);
        let given = self.given(variable::SERVICE_ENDPOINT);
        if let Some(name) = name.as_deref().filter(|name| given.is_none() && !is_account_name(name))
        {
            let problem = " is not an account's name: 3 to 24 lower-case letters and digits";
            let advice = "the portal shows it as the page's title";
            self.complain_of(variable::ACCOUNT, name, problem, advice);
            return None;
        }
        let url = match (given, name) {
            (Some(url), _) => url,
            (None, Some(name)) => format!("https://{name}.blob.core.windows.net"),
            (None, None) => return self.missing(variable::ACCOUNT),
        };
        let endpoint = Endpoint::of_account(&url).and_then(|endpoint| {
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

    /// The endpoint in the address of a container or a blob, which must be the election's.
    fn sas_address(&mut self, address: &str) -> Option<Endpoint> {
        const ADVICE: &str =
            "take the SAS token alone, or the address of the election's container or blob";
        let whole = match Endpoint::parse(address) {
            Ok(endpoint) => endpoint,
            Err(reason) => {
                self.complain(variable::SAS_TOKEN, format!("its address {reason}"), ADVICE);
                return None;
            }
        };
        let segments = whole.segments();
        let election = said(&self.options.election).unwrap_or_default();
        let election = election.trim();
        let is_of_election = |rest: &[&str]| {
            let place = percent::decode_text(&rest.join("/"));
            election == place || election.strip_prefix(&place).is_some_and(|e| e.starts_with('/'))
        };
        // Path style, where the host does not name the account; a container may have the account's name.
        let named = self.given(variable::ACCOUNT);
        let own = match whole.named_account() {
            Some(_) => whole.is_path_style(),
            None => segments.first().copied() == named.as_deref() && !is_of_election(&segments),
        };
        let (prefix, rest) = segments.split_at(usize::from(own).min(segments.len()));
        if !rest.is_empty() && !is_of_election(rest) {
            let problem = "the SAS is not for the election's container or blob";
            self.complain(variable::SAS_TOKEN, problem, ADVICE);
        }
        let prefix = prefix.iter().map(|segment| format!("/{segment}")).collect();
        self.agree_on_endpoint(variable::SAS_TOKEN, &whole.origin);
        Some(Endpoint { origin: whole.origin.clone(), prefix })
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
            setting: SettingId::of(setting),
            problem,
            advice,
        });
        self.complaints.extend(complaints);
        None
    }

    /// Complains of a variable that the chosen credential needs, unless something was said of it.
    fn missing<T>(&mut self, name: &'static str) -> Option<T> {
        self.note_missing(name);
        None
    }

    fn note_missing(&mut self, name: &'static str) {
        let settings = [Some(name), file_of(name)];
        let said = self.complaints.iter().any(|c| settings.contains(&Some(c.setting.variable())));
        if !said {
            let advice = "set it, or unset the other variables of this credential";
            self.complain(name, "is not set, and the credential needs it", advice);
        }
    }

    /// Two variables must not mean two addresses: a private endpoint is set with intent.
    fn agree_on_endpoint(&mut self, setting: &'static str, origin: &str) {
        let Some(url) = self.given(variable::SERVICE_ENDPOINT) else { return };
        if Endpoint::parse(&url).is_ok_and(|endpoint| endpoint.origin != origin) {
            let problem = format!("is not the address in {setting}");
            self.complain(variable::SERVICE_ENDPOINT, problem, "leave one of the two out");
        }
    }

    /// A SAS that is not used must not be for another account: one of the two is a mistake.
    fn agree_with_sas(&mut self, account: &Account) {
        let file = || self.environment.file(&self.given(variable::SAS_TOKEN_FILE)?).ok();
        let given = self.given(variable::SAS_TOKEN).map(Secret::from).or_else(file);
        let address = given.as_ref().and_then(|sas| sas.reveal().split_once('?'));
        let endpoint = address.and_then(|(address, _)| Endpoint::parse(address.trim()).ok());
        let other = endpoint.and_then(|endpoint| endpoint.named_account());
        if other.is_some_and(|other| other != account.name()) {
            let problem = "is not for the account of the credential that is used";
            self.complain(variable::SAS_TOKEN, problem, "leave one of the two out");
        }
    }

    /// Two variables must not mean two accounts.
    fn agree(&mut self, setting: &'static str, account: Option<String>) {
        if let (Some(name), Some(account)) = (self.given(variable::ACCOUNT), account)
            && name.trim() != account
        {
            let problem =
                format!("is not the account in {}", self.called(setting, variable::ACCOUNT));
            self.complain(variable::ACCOUNT, problem, "leave one of the two out");
        }
    }
}

/// Names the credential that is used, and those of `set` that it takes precedence over.
fn explanation(set: &[(Kind, &'static str)], account: &Account) -> String {
    let Some(((kind, _), others)) = set.split_first() else { return String::new() };
    let what = match (kind, account.credential()) {
        (Kind::ConnectionString, Credential::Sas(_)) => "the SAS in the connection string",
        (Kind::ConnectionString, _) => "the key in the connection string",
        (Kind::SharedKey, _) => "the account's key",
        (Kind::Sas, _) => "the SAS",
        (Kind::Token, _) => "the token in AZURE_STORAGE_AUTH_TOKEN, which is not renewed",
        (Kind::ClientSecret, _) => "the secret of an application",
        (Kind::WorkloadIdentity, _) => "the workload identity",
        (Kind::IdentityEndpoint, _) => "the managed identity of this app (IDENTITY_ENDPOINT)",
        (Kind::Imds, _) => "the managed identity of this machine (IMDS)",
    };
    let others = others.iter().filter(|(other, _)| *other != Kind::Imds);
    let others: Vec<_> = others.map(|(_, variable)| *variable).collect();
    let why = match others.as_slice() {
        [] => String::new(),
        others => {
            format!("; it takes precedence over {}, which is not used", others.join(", "))
        }
    };
    format!("{what}{why}")
}
