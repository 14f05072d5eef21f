//! Shared access signatures: the claims of a query and the check of its signature (REST reference:
//! *Create an account SAS*, *Create a service SAS*, *Shared access signature error codes*).

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use tenure_azure::encoding;

use super::super::account::Account;
use super::super::address::{Address, Resource};
use super::super::code::{Code, Failure};
use super::super::sas::{account_string_to_sign, service_string_to_sign};
use super::super::wire::Now;
use super::access::{Access, SasGrant};
use super::{authentication_failed, is_signed};

/// Since this version all signatures are made in the same way. The signatures of a later version
/// with another way would not match here.
const OLDEST_VERSION: &str = "2020-12-06";

/// All parameters of a token. A repeated one is refused, because only one of them can be signed.
const PARAMETERS: [&str; 9] = ["sv", "ss", "srt", "sr", "sp", "st", "se", "spr", "sig"];

/// Parameters of unsupported tokens, with their meanings.
const UNSUPPORTED: [(&str, &str); 11] = [
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

pub(super) fn check(now: Now, address: &Address, accounts: &[Account]) -> Result<Access, Failure> {
    // 1. Each field by itself.
    for (name, meaning) in UNSUPPORTED {
        if address.parameter(name).is_some() {
            let reason =
                format!("{name} is not supported here: the signature is by or for {meaning}.");
            return Err(authentication_failed(&reason));
        }
    }
    if PARAMETERS.into_iter().any(|name| is_repeated(address, name)) {
        return Err(malformed());
    }
    let permit = parse_grant(address)?;
    let protocol = address.parameter("spr");
    if !matches!(protocol, None | Some("https" | "https,http")) {
        return Err(malformed());
    }
    // 2. The time.
    check_validity(now, address)?;
    // 3. The signature.
    let known = accounts.iter().find(|account| account.name() == address.account);
    let account = known.ok_or_else(|| authentication_failed("The account is not known."))?;
    let text = string_to_sign(address, &permit)?;
    if !is_signed(account, &text, required_parameter(address, "sig")?) {
        let reason = format!("Signature did not match. String to sign used was {text}");
        return Err(authentication_failed(&reason));
    }
    // 4. The protocol: this store has no TLS.
    if protocol == Some("https") {
        return Err(Code::AuthorizationProtocolMismatch.into());
    }
    Ok(Access::Sas(permit))
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

/// Parses the claimed grant.
fn parse_grant(address: &Address) -> Result<SasGrant, Failure> {
    let version = required_parameter(address, "sv")?;
    let is_date = version.len() == 10 && NaiveDate::parse_from_str(version, "%Y-%m-%d").is_ok();
    if !is_date || version < OLDEST_VERSION {
        let reason = format!("sv is not supported here, only {OLDEST_VERSION} and later.");
        return Err(authentication_failed(&reason));
    }
    let is_account_sas = ["ss", "srt"].into_iter().any(|name| address.parameter(name).is_some());
    let permissions = required_parameter(address, "sp")?;
    let account = if is_account_sas {
        if address.parameter("sr").is_some() {
            return Err(malformed());
        }
        Some((
            required_parameter(address, "ss")?.to_owned(),
            required_parameter(address, "srt")?.to_owned(),
        ))
    } else {
        if !matches!(required_parameter(address, "sr")?, "b" | "c") {
            return Err(authentication_failed("sr is not supported here, only b and c."));
        }
        let positions: Option<Vec<usize>> =
            permissions.chars().map(|letter| PERMISSION_ORDER.find(letter)).collect();
        if !positions.is_some_and(|places| places.is_sorted_by(|one, next| one < next)) {
            return Err(malformed());
        }
        None
    };
    Ok(SasGrant { permissions: permissions.to_owned(), account, version: version.to_owned() })
}

/// Returns the text that must be signed for this address.
fn string_to_sign(address: &Address, permit: &SasGrant) -> Result<String, Failure> {
    let name = address.account.as_str();
    let value = |name: &str| address.parameter(name).unwrap_or_default();
    if permit.account.is_some() {
        return Ok(account_string_to_sign(name, value));
    }
    Ok(match address.resource.as_ref().map_err(|code| *code)? {
        Resource::Account => service_string_to_sign(name, &[], value),
        Resource::Container(container) => service_string_to_sign(name, &[container], value),
        Resource::Blob(container, _) if value("sr") == "c" => {
            service_string_to_sign(name, &[container], value)
        }
        Resource::Blob(container, blob) => service_string_to_sign(name, &[container, blob], value),
    })
}

/// Checks that the token is valid: from `st`, or without it from now as the service documents,
/// until just before `se`.
fn check_validity(now: Now, address: &Address) -> Result<(), Failure> {
    let starts = address.parameter("st").filter(|text| !text.is_empty());
    let starts = starts.map(|text| parse_time(text).ok_or_else(malformed)).transpose()?;
    let starts = starts.unwrap_or(now.wall);
    let expires = parse_time(required_parameter(address, "se")?).ok_or_else(malformed)?;
    let [start, expiry, current] = [starts, expires, now.wall].map(encoding::format_http_date);
    if expires <= starts {
        return Err(authentication_failed(&format!(
            "Signed expiry time [{expiry}] must be after signed start time [{start}]"
        )));
    }
    if !(starts..expires).contains(&now.wall) {
        return Err(authentication_failed(&format!(
            "Signature not valid in the specified time frame: \
             Start [{start}] - Expiry [{expiry}] - Current [{current}]"
        )));
    }
    Ok(())
}

/// Parses `2026-01-02`, `2026-01-02T03:04Z` or `2026-01-02T03:04:05Z`, the last one also with a
/// fraction.
fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    if let Ok(day) = NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        return Some(day.and_time(NaiveTime::MIN).and_utc());
    }
    if let Ok(minute) = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%MZ") {
        return Some(minute.and_utc());
    }
    DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_spellings_of_a_time() {
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
}
