//! The target of a request: account, container, blob.

use std::net::IpAddr;

use percent_encoding::percent_decode_str;
use tenure_azure::shared_key::decoded_query;

use super::account::Account;
use super::code::Code;
use super::wire::Request;

/// The root container. It has the blobs whose address names no container.
const ROOT: &str = "$root";

/// Maximum length of a blob's name, in characters.
const MAX_BLOB_NAME: usize = 1024;

/// The address of a request. It has no `Debug`, because a query may hold a shared access signature.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) account: String,
    /// True if the account is the first part of the path; false if it is in the host.
    pub(super) is_path_style: bool,
    /// The path as sent and signed by the client.
    pub(super) path: String,
    /// The decoded query.
    pub(super) query: Vec<(String, String)>,
    /// The resource in the path, or the error of an invalid path. A request with an invalid
    /// signature is refused for that first.
    pub(super) resource: Result<Resource, Code>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    Account,
    Container(String),
    /// The container and the name of the blob.
    Blob(String, String),
}

impl Address {
    /// Parses the address of a request.
    ///
    /// The account is the first label of the host (`account.blob.localhost`) if `accounts` has it.
    /// Otherwise it is the first part of the path (`/account/container/blob`). So path-style
    /// addresses work with any host: an IP address, `localhost`, or `store.default.svc`.
    pub(super) fn from_request(request: &Request, accounts: &[Account]) -> Address {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        // The service reads a `+` as a space.
        let query = decoded_query(&query.replace('+', "%20"));
        let host_account = account_in_host(request.header("host").unwrap_or_default(), accounts);
        let is_path_style = host_account.is_none();
        let (account, rest) = host_account.map(|account| (account, path)).unwrap_or_else(|| {
            let path = path.strip_prefix('/').unwrap_or(path);
            path.split_once('/').unwrap_or((path, ""))
        });
        // Account information can be requested with the path of the account or of a container.
        let is_container = query.iter().any(|(name, value)| {
            name == "restype" && matches!(value.as_str(), "container" | "account")
        });
        let resource = resource(rest.strip_prefix('/').unwrap_or(rest), is_container);
        Address {
            account: account.to_owned(),
            is_path_style,
            path: path.to_owned(),
            query,
            resource,
        }
    }

    /// Returns the decoded value of a query parameter. Its name is case-insensitive.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Returns the container and the blob in the path; empty if the path has none or is invalid.
    pub(super) fn names(&self) -> (&str, &str) {
        match &self.resource {
            Ok(Resource::Container(container)) => (container, ""),
            Ok(Resource::Blob(container, blob)) => (container, blob),
            Ok(Resource::Account) | Err(_) => ("", ""),
        }
    }
}

/// Returns the account that the first label of the host names, if there is one.
fn account_in_host<'a>(host: &str, accounts: &'a [Account]) -> Option<&'a str> {
    let name = host.rsplit_once(':').map_or(host, |(name, _port)| name);
    if name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
        return None;
    }
    let (label, _) = name.split_once('.')?;
    accounts.iter().map(Account::name).find(|account| *account == label)
}

/// Parses a path without the account. A path of one part is a container or a blob in the root
/// container.
fn resource(path: &str, is_container: bool) -> Result<Resource, Code> {
    let decode = |text: &str| match percent_decode_str(text).decode_utf8() {
        Ok(text) if !text.contains('\0') => Ok(text.into_owned()),
        _ => Err(Code::InvalidUri),
    };
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let resource = match (first, rest, is_container) {
        ("", "", _) => Resource::Account,
        (name, "", true) => Resource::Container(decode(name)?),
        (blob, "", false) => Resource::Blob(ROOT.to_owned(), decode(blob)?),
        (container, blob, _) => Resource::Blob(decode(container)?, decode(blob)?),
    };
    match &resource {
        Resource::Container(name) | Resource::Blob(name, _) if !is_container_name(name) => {
            Err(Code::InvalidResourceName)
        }
        Resource::Blob(_, blob) if blob.chars().count() > MAX_BLOB_NAME => {
            Err(Code::InvalidResourceName)
        }
        _ => Ok(resource),
    }
}

/// Returns true for a valid name of a container: 3 to 63 of `a-z 0-9 -`, each `-` between two other
/// characters, or `$root` (REST reference: *Naming and referencing containers*).
fn is_container_name(name: &str) -> bool {
    let has_valid_letters =
        name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let has_valid_dashes = !name.starts_with('-') && !name.ends_with('-') && !name.contains("--");
    name == ROOT || (has_valid_letters && has_valid_dashes && (3..=63).contains(&name.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, target: &str) -> Address {
        Address::from_request(
            &Request::new("PUT", target).with("Host", host),
            &[Account::emulator()],
        )
    }

    fn blob(container: &str, name: &str) -> Result<Resource, Code> {
        Ok(Resource::Blob(container.to_owned(), name.to_owned()))
    }

    #[test]
    fn the_account_is_in_the_path_or_in_the_host() {
        for host in ["127.0.0.1:10000", "[::1]:10000", "localhost:1", "store.default.svc:80", ""] {
            let address = address(host, "/devstoreaccount1/leases/a/b?comp=lease");
            assert_eq!(address.account, "devstoreaccount1", "{host}");
            assert_eq!(address.resource, blob("leases", "a/b"), "{host}");
        }
        let address = address("devstoreaccount1.blob.localhost:10000", "/leases/b?comp=lease");
        assert_eq!(address.account, "devstoreaccount1");
        assert_eq!(address.path, "/leases/b");
        assert_eq!(address.resource, blob("leases", "b"));
    }

    #[test]
    fn the_path_is_decoded_once() {
        let resource_of =
            |path: &str| address("localhost", &format!("/devstoreaccount1/{path}")).resource;
        assert_eq!(resource_of("leases/a%20b%2Fc%2525"), blob("leases", "a b/c%25"));
        assert_eq!(resource_of("alone"), blob("$root", "alone"));
        assert_eq!(
            resource_of("leases?restype=container"),
            Ok(Resource::Container("leases".to_owned()))
        );
        assert_eq!(resource_of("?comp=list"), Ok(Resource::Account));
    }

    #[test]
    fn invalid_names_are_refused() {
        let resource_of =
            |path: &str| address("localhost", &format!("/devstoreaccount1/{path}")).resource;
        for container in ["ab", "Leases", "-ab", "ab-", "a--b", "a_b", &"a".repeat(64)] {
            assert_eq!(
                resource_of(&format!("{container}/b")),
                Err(Code::InvalidResourceName),
                "{container}"
            );
        }
        assert_eq!(
            resource_of(&format!("leases/{}", "b".repeat(1025))),
            Err(Code::InvalidResourceName)
        );
        assert_eq!(resource_of("leases/%ff"), Err(Code::InvalidUri));
        assert_eq!(resource_of("leases/a%00b"), Err(Code::InvalidUri));
    }
}
