//! Authorization. An account key gives full access to its account; a shared access signature gives
//! the access that it grants.
//!
//! Not supported, and refused:
//!
//! - Entra tokens and Shared Key Lite
//! - SAS by a stored access policy (`si`) or a user delegation key (`skoid`)
//! - SAS for snapshots, versions or directories
//! - SAS with an address range (`sip`) or an encryption scope (`ses`)
//! - SAS versions before 2020-12-06

use std::hint::black_box;

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Utc};
use tenure_azure::encoding;
use tenure_azure::shared_key::string_to_sign;

use super::account::Account;
use super::address::{Address, Resource};
use super::code::{Code, Failure};
use super::sas::{account_string_to_sign, service_string_to_sign};
use super::wire::{Now, OperationKind, Request};

/// Maximum age of a request. The reference sets no limit for dates in the future, so they pass.
const MAX_AGE: TimeDelta = TimeDelta::minutes(15);

/// The oldest supported version of a shared access signature. All versions since then sign the same
/// fields. The signatures of a future version with other fields would not match.
const OLDEST_SAS_VERSION: &str = "2020-12-06";

/// The parameters of a supported token. A repeated parameter is refused, because only one of its
/// values can be signed.
const SAS_PARAMETERS: [&str; 9] = ["sv", "ss", "srt", "sr", "sp", "st", "se", "spr", "sig"];

/// The parameters of unsupported tokens, each with the feature that it uses.
const UNSUPPORTED_PARAMETERS: [(&str, &str); 11] = [
    ("si", "a stored access policy"),
    ("sip", "a range of addresses"),
    ("ses", "an encryption scope"),
    ("sdd", "a directory"),
    ("skoid", DELEGATION),
    ("sktid", DELEGATION),
    ("skt", DELEGATION),
    ("ske", DELEGATION),
    ("sks", DELEGATION),
    ("skv", DELEGATION),
    ("saoid", DELEGATION),
];

const DELEGATION: &str = "a user delegation key";

/// The required order of permissions in a service SAS (REST reference: *Create a service SAS*,
/// *Specify permissions*). Those of an account SAS may have any order.
const PERMISSION_ORDER: &str = "racwdxyltfmeopi";

/// The rights of a request, checked once its operation is known.
#[derive(Clone, Debug)]
pub(super) enum Access {
    /// Signed with the account's key.
    Full,
    /// Signed with a shared access signature.
    Sas(SasGrant),
}

/// The grant of a shared access signature.
#[derive(Clone, Debug)]
pub(super) struct SasGrant {
    /// `sp`.
    pub permissions: String,
    /// `None` for a service SAS, which covers blobs only.
    pub account_scope: Option<AccountScope>,
    /// `sv`, also the version of a request that names none.
    pub version: String,
}

/// The scope of an account SAS.
#[derive(Clone, Debug)]
pub(super) struct AccountScope {
    /// `ss`.
    services: String,
    /// `srt`.
    resource_types: String,
}

impl Access {
    /// Returns the version for a request that names none.
    pub(super) fn version(&self) -> Option<&str> {
        match self {
            Access::Full => None,
            Access::Sas(grant) => Some(&grant.version),
        }
    }

    /// Authorizes an operation that requires a resource type (`srt`) and one of these permissions
    /// (REST reference: *Shared access signature error codes*).
    pub(super) fn authorize(
        &self,
        operation: OperationKind,
        (resource_type, permissions): (char, &str),
    ) -> Result<(), Failure> {
        let Access::Sas(grant) = self else { return Ok(()) };
        match &grant.account_scope {
            Some(scope) if !scope.services.contains('b') => {
                return Err(Code::AuthorizationServiceMismatch.into());
            }
            // Any valid signature for the account allows Get Account Information.
            _ if operation == OperationKind::GetAccount => return Ok(()),
            Some(scope) if !scope.resource_types.contains(resource_type) => {
                return Err(Code::AuthorizationResourceTypeMismatch.into());
            }
            // Observed in the service (Azurite #637, azure-sdk-for-net #17142): no service SAS
            // covers a container itself, whatever its permissions. Its blobs may be listed (REST
            // reference: *Create a service SAS*).
            None if resource_type != 'o' && operation != OperationKind::ListBlobs => {
                return Err(Code::AuthorizationFailure.into());
            }
            Some(_) | None => {}
        }
        if grant.permissions.chars().any(|letter| permissions.contains(letter)) {
            Ok(())
        } else {
            Err(Code::AuthorizationPermissionMismatch.into())
        }
    }

    /// Authorizes overwriting an existing blob. The permission to create (`c`) does not include it.
    pub(super) fn authorize_overwrite(&self) -> Result<(), Failure> {
        match self {
            Access::Sas(grant) if !grant.permissions.contains('w') => {
                Err(Code::UnauthorizedBlobOverwrite.into())
            }
            Access::Full | Access::Sas(_) => Ok(()),
        }
    }
}

/// Returns the rights of the request, or the reason why it is refused.
pub(super) fn check(
    now: Now,
    request: &Request,
    address: &Address,
    accounts: &[Account],
) -> Result<Access, Failure> {
    // A repeated header has no defined place in the signed text.
    if let Some((name, value)) = first_repeated(&request.headers) {
        // The response repeats the value, and clients may log it.
        let is_secret = name.eq_ignore_ascii_case("authorization");
        return Err(Failure::header(name, if is_secret { "" } else { value }));
    }
    match request.header("authorization") {
        // If a request has a header and a token, only the header counts. The reference does not
        // specify this. Azurite also checks the header first, but then accepts a valid token.
        Some(header) => check_shared_key(now, request, header, address, accounts),
        None if address.parameter("sig").is_some() => check_sas(now, address, accounts),
        // An anonymous request. No container here is public. Before version 2019-12-12, the service
        // returned 404.
        None => Err(Code::NoAuthenticationInformation.into()),
    }
}

/// Returns the first repeated header that must be unique.
fn first_repeated(headers: &[(String, String)]) -> Option<(&str, &str)> {
    let must_be_unique = |name: &str| {
        let name = name.to_ascii_lowercase();
        name.starts_with("x-ms-")
            || matches!(name.as_str(), "authorization" | "date" | "if-match" | "if-none-match")
    };
    headers.iter().enumerate().find_map(|(index, (name, value))| {
        let earlier_headers = &headers[..index];
        let repeats_earlier = must_be_unique(name)
            && earlier_headers.iter().any(|(earlier, _)| earlier.eq_ignore_ascii_case(name));
        repeats_earlier.then_some((name.as_str(), value.as_str()))
    })
}

/// Checks the Shared Key and the age of the request (REST reference: *Authorize with Shared Key*).
fn check_shared_key(
    now: Now,
    request: &Request,
    authorization: &str,
    address: &Address,
    accounts: &[Account],
) -> Result<Access, Failure> {
    let (scheme, rest) = authorization.split_once(' ').ok_or(Code::InvalidAuthenticationInfo)?;
    match scheme {
        "SharedKey" => {}
        // The service accepts Entra tokens over TLS only, and this store has no TLS. Lite signs
        // other text.
        "Bearer" | "SharedKeyLite" => {
            return Err(authentication_failed("The authentication scheme is not supported here."));
        }
        _ => return Err(Code::InvalidAuthenticationInfo.into()),
    }
    let (name, signature) = rest.trim().split_once(':').ok_or(Code::InvalidAuthenticationInfo)?;
    if name.is_empty() || signature.is_empty() {
        return Err(Code::InvalidAuthenticationInfo.into());
    }
    check_age(now, request)?;
    // The account in the address must be the one that signed. The response for an unknown account
    // is the store's own: in the service, such an account has no address.
    let account = accounts
        .iter()
        .find(|account| account.name() == name && name == address.account)
        .ok_or_else(|| authentication_failed("The account is not known."))?;
    let text =
        string_to_sign(&request.method, &address.path, &address.query, &request.headers, name);
    if is_signed(account, &text, signature) {
        return Ok(Access::Full);
    }
    // The text contains the query. A shared access signature in it is a secret, and this response
    // may be logged.
    let shown = if address.parameter("sig").is_some() {
        "not shown, because it contains a SAS"
    } else {
        &text
    };
    Err(authentication_failed(&format!(
        "The MAC signature found in the HTTP request is not the same as any computed signature. \
         Server used following string to sign: '{shown}'."
    )))
}

/// Checks that the request is dated, and at most [`MAX_AGE`] old.
fn check_age(now: Now, request: &Request) -> Result<(), Failure> {
    let text = request.header("x-ms-date").or_else(|| request.header("date"));
    // A missing and an invalid date are refused alike, because the age is unknown.
    let Some(date) = text.and_then(encoding::parse_http_date) else {
        return Err(authentication_failed("The Date header in the request is incorrect."));
    };
    if now.wall - date > MAX_AGE {
        return Err(authentication_failed(&format!(
            "Request date header too old: '{}'",
            text.unwrap_or_default()
        )));
    }
    Ok(())
}

/// Checks the shared access signature in the query (REST reference: *Create an account SAS*,
/// *Create a service SAS*, *Shared access signature error codes*).
fn check_sas(now: Now, address: &Address, accounts: &[Account]) -> Result<Access, Failure> {
    // 1. Each field by itself.
    for (name, meaning) in UNSUPPORTED_PARAMETERS {
        if address.parameter(name).is_some() {
            let reason =
                format!("{name} is not supported here: the signature is by or for {meaning}.");
            return Err(authentication_failed(&reason));
        }
    }
    if SAS_PARAMETERS.into_iter().any(|name| is_repeated(address, name)) {
        return Err(malformed());
    }
    let grant = parse_grant(address)?;
    let protocol = address.parameter("spr");
    if !matches!(protocol, None | Some("https" | "https,http")) {
        return Err(malformed());
    }
    // 2. The time.
    check_validity(now, address)?;
    // 3. The signature.
    let account = accounts
        .iter()
        .find(|account| account.name() == address.account)
        .ok_or_else(|| authentication_failed("The account is not known."))?;
    let text = sas_string_to_sign(address, &grant)?;
    if !is_signed(account, &text, required_parameter(address, "sig")?) {
        let reason = format!("Signature did not match. String to sign used was {text}");
        return Err(authentication_failed(&reason));
    }
    // 4. The protocol: this store has no TLS.
    if protocol == Some("https") {
        return Err(Code::AuthorizationProtocolMismatch.into());
    }
    Ok(Access::Sas(grant))
}

fn malformed() -> Failure {
    authentication_failed("Signature fields not well formed.")
}

fn is_repeated(address: &Address, name: &str) -> bool {
    address.query.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).count() > 1
}

fn required_parameter<'a>(address: &'a Address, name: &str) -> Result<&'a str, Failure> {
    let value = address.parameter(name).filter(|value| !value.is_empty());
    value.ok_or_else(|| authentication_failed(&format!("{name} is mandatory. Cannot be empty")))
}

/// Parses the grant in the query. Its signature and time are not checked yet.
fn parse_grant(address: &Address) -> Result<SasGrant, Failure> {
    let version = required_parameter(address, "sv")?;
    let is_date = version.len() == 10 && NaiveDate::parse_from_str(version, "%Y-%m-%d").is_ok();
    if !is_date || version < OLDEST_SAS_VERSION {
        let reason = format!("sv is not supported here, only {OLDEST_SAS_VERSION} and later.");
        return Err(authentication_failed(&reason));
    }
    let is_account_sas = ["ss", "srt"].into_iter().any(|name| address.parameter(name).is_some());
    let permissions = required_parameter(address, "sp")?;
    let account_scope = if is_account_sas {
        if address.parameter("sr").is_some() {
            return Err(malformed());
        }
        Some(AccountScope {
            services: required_parameter(address, "ss")?.to_owned(),
            resource_types: required_parameter(address, "srt")?.to_owned(),
        })
    } else {
        if !matches!(required_parameter(address, "sr")?, "b" | "c") {
            return Err(authentication_failed("sr is not supported here, only b and c."));
        }
        let positions: Option<Vec<usize>> =
            permissions.chars().map(|letter| PERMISSION_ORDER.find(letter)).collect();
        if !positions.is_some_and(|positions| positions.is_sorted_by(|one, next| one < next)) {
            return Err(malformed());
        }
        None
    };
    Ok(SasGrant { permissions: permissions.to_owned(), account_scope, version: version.to_owned() })
}

/// Returns the text that the signature of this grant must cover.
fn sas_string_to_sign(address: &Address, grant: &SasGrant) -> Result<String, Failure> {
    let name = address.account.as_str();
    let value = |name: &str| address.parameter(name).unwrap_or_default();
    if grant.account_scope.is_some() {
        return Ok(account_string_to_sign(name, value));
    }
    Ok(match address.resource.as_ref().map_err(|code| *code)? {
        Resource::Account => service_string_to_sign(name, &[], value),
        Resource::Container(container) => service_string_to_sign(name, &[container], value),
        // A signature for a container gives access to its blobs.
        Resource::Blob(container, _) if value("sr") == "c" => {
            service_string_to_sign(name, &[container], value)
        }
        Resource::Blob(container, blob) => service_string_to_sign(name, &[container, blob], value),
    })
}

/// Checks the time: a token is valid from `st` until just before `se`. Without `st` it is valid at
/// once, as the reference says.
fn check_validity(now: Now, address: &Address) -> Result<(), Failure> {
    let starts_at = match address.parameter("st") {
        None | Some("") => now.wall,
        Some(text) => parse_time(text).ok_or_else(malformed)?,
    };
    let expires_at = parse_time(required_parameter(address, "se")?).ok_or_else(malformed)?;
    let [start, expiry, current] =
        [starts_at, expires_at, now.wall].map(encoding::format_http_date);
    if expires_at <= starts_at {
        return Err(authentication_failed(&format!(
            "Signed expiry time [{expiry}] must be after signed start time [{start}]"
        )));
    }
    if !(starts_at..expires_at).contains(&now.wall) {
        return Err(authentication_failed(&format!(
            "Signature not valid in the specified time frame: \
             Start [{start}] - Expiry [{expiry}] - Current [{current}]"
        )));
    }
    Ok(())
}

/// Parses a time like `2026-01-02`, `2026-01-02T03:04Z`, `2026-01-02T03:04:05Z` or
/// `2026-01-02T03:04:05.678Z`.
fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    if let Ok(day) = NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        return Some(day.and_time(NaiveTime::MIN).and_utc());
    }
    if let Ok(minute) = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%MZ") {
        return Some(minute.and_utc());
    }
    DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc())
}

/// Returns true if a key of the account made this signature of `text`.
fn is_signed(account: &Account, text: &str, signature: &str) -> bool {
    account.keys().any(|key| constant_time_eq(key.sign(text).as_bytes(), signature.as_bytes()))
}

/// Compares two signatures in constant time.
fn constant_time_eq(one: &[u8], other: &[u8]) -> bool {
    let difference = one
        .iter()
        .zip(other)
        .fold(0, |difference, (one, other)| black_box(difference | (one ^ other)));
    one.len() == other.len() && black_box(difference) == 0
}

fn authentication_failed(reason: &str) -> Failure {
    Failure::from(Code::AuthenticationFailed).with_detail("AuthenticationErrorDetail", reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::EMULATOR_KEY;
    use std::time::Duration;
    use tenure_azure::shared_key::{Key, authorization, decoded_query};

    /// Signed independently, by Microsoft's SDK for Python.
    const SIGNED: (&str, &str) = (
        "/devstoreaccount1/leases?restype=container",
        "SharedKey devstoreaccount1:X2LxMl7QysI5O4usdGATlDcF1TzDBD1IVzY7HNxuUjs=",
    );

    fn create_container() -> Request {
        Request::new("PUT", SIGNED.0)
            .with("Content-Length", "0")
            .with("x-ms-version", "2021-12-02")
            .with("x-ms-date", "Fri, 02 Jan 2026 03:04:05 GMT")
            .with("x-ms-client-request-id", "11111111-2222-3333-4444-555555555555")
    }

    fn check_request(request: &Request, accounts: &[Account], seconds: i64) -> Result<(), Code> {
        let signed: DateTime<Utc> =
            encoding::parse_http_date("Fri, 02 Jan 2026 03:04:05 GMT").unwrap();
        let now = Now { elapsed: Duration::ZERO, wall: signed + TimeDelta::seconds(seconds) };
        check(now, request, &Address::from_request(request, accounts), accounts)
            .map(|access| assert!(matches!(access, Access::Full)))
            .map_err(|failure| failure.code)
    }

    #[test]
    fn a_request_signed_by_an_sdk_is_accepted() {
        let request = create_container().with("Authorization", SIGNED.1);
        assert_eq!(check_request(&request, &[Account::emulator()], 0), Ok(()));
    }

    #[test]
    fn any_other_signature_is_refused() {
        let request = create_container().with("Authorization", &SIGNED.1.replace("X2L", "X2M"));
        assert_eq!(
            check_request(&request, &[Account::emulator()], 0),
            Err(Code::AuthenticationFailed)
        );
        let other = create_container().with("x-ms-meta-a", "b").with("Authorization", SIGNED.1);
        assert_eq!(
            check_request(&other, &[Account::emulator()], 0),
            Err(Code::AuthenticationFailed)
        );
    }

    #[test]
    fn either_of_two_keys_will_do() {
        let request = create_container().with("Authorization", SIGNED.1);
        let second = Account::new("devstoreaccount1", &["AAEC", EMULATOR_KEY]).unwrap();
        assert_eq!(check_request(&request, &[second], 0), Ok(()));
        let neither = Account::new("devstoreaccount1", &["AAEC", "AwQF"]).unwrap();
        assert_eq!(check_request(&request, &[neither], 0), Err(Code::AuthenticationFailed));
    }

    #[test]
    fn a_signature_by_another_account_is_refused() {
        let alpha = Account::new("alpha", &["AAEC"]).unwrap();
        let request = create_container();
        let query = decoded_query("restype=container");
        let path = "/devstoreaccount1/leases";
        let text = string_to_sign("PUT", path, &query, &request.headers, "alpha");
        let key = Key::from_base64("AAEC").unwrap();
        let request = request.with("Authorization", &authorization("alpha", &key, &text));
        let accounts = [Account::emulator(), alpha];
        assert_eq!(check_request(&request, &accounts, 0), Err(Code::AuthenticationFailed));
    }

    #[test]
    fn fifteen_minutes_are_the_limit_backwards_and_there_is_none_forwards() {
        let request = create_container().with("Authorization", SIGNED.1);
        let accounts = [Account::emulator()];
        assert_eq!(check_request(&request, &accounts, 15 * 60), Ok(()));
        assert_eq!(
            check_request(&request, &accounts, 15 * 60 + 1),
            Err(Code::AuthenticationFailed)
        );
        assert_eq!(check_request(&request, &accounts, -86_400), Ok(()));
    }

    #[test]
    fn a_header_sent_twice_is_refused() {
        let request =
            create_container().with("X-MS-Version", "2021-12-02").with("Authorization", SIGNED.1);
        assert_eq!(
            check_request(&request, &[Account::emulator()], 0),
            Err(Code::InvalidHeaderValue)
        );
    }

    #[test]
    fn four_spellings_of_a_time() {
        let format_parsed = |text| parse_time(text).map(encoding::format_http_date);
        let expected = |text: &str| Some(text.to_owned());
        assert_eq!(format_parsed("2026-01-02"), expected("Fri, 02 Jan 2026 00:00:00 GMT"));
        assert_eq!(format_parsed("2026-01-02T03:04Z"), expected("Fri, 02 Jan 2026 03:04:00 GMT"));
        assert_eq!(
            format_parsed("2026-01-02T03:04:05Z"),
            expected("Fri, 02 Jan 2026 03:04:05 GMT")
        );
        assert_eq!(
            format_parsed("2026-01-02T03:04:05.1234567Z"),
            expected("Fri, 02 Jan 2026 03:04:05 GMT")
        );
        for none in ["", "tomorrow", "2026-02-30", "2026-01-02T03Z", "1767323045"] {
            assert_eq!(format_parsed(none), None, "{none}");
        }
    }

    #[test]
    fn equal_means_equal() {
        assert!(constant_time_eq(b"abc", b"abc"));
        assert!(!constant_time_eq(b"abc", b"abd"));
        assert!(!constant_time_eq(b"abc", b"ab"));
        assert!(!constant_time_eq(b"", b"a"));
    }
}
