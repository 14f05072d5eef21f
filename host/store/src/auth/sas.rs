//! Shared access signatures: what a query claims, and whether the account signed it (REST reference: *Create an account
//! SAS*, *Create a service SAS*, *Shared access signature error codes*).

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use tenure_azure::http_date;

use super::super::account::Account;
use super::super::address::{Address, Resource};
use super::super::code::{Code, Failure};
use super::super::sas::{account_string_to_sign, service_string_to_sign};
use super::super::wire::Now;
use super::access::{Access, SasGrant};
use super::{is_signed, authentication_failed};

/// Since this version every one is signed in the same way. If a later one is not, its signatures do not match here.
const OLDEST_VERSION: &str = "2020-12-06";

/// Every parameter of a token; two of one name cannot both be what was signed.
const PARAMETERS: [&str; 9] = ["sv", "ss", "srt", "sr", "sp", "st", "se", "spr", "sig"];

/// Parameters of tokens that are not played, and what they stand for.
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

/// The order in which the letters of a service SAS must be (REST reference: *Create a service SAS*, *Specify
/// permissions*). Those of an account SAS may be in any.
const PERMISSION_ORDER: &str = "racwdxyltfmeopi";

pub(super) fn check(now: Now, address: &Address, accounts: &[Account]) -> Result<Access, Failure> {
    // 1. The fields, each by itself.
    for (name, meaning) in UNSUPPORTED {
        if address.parameter(name).is_some() {
            let reason = format!("{name} is not supported here: the signature is by or for {meaning}.");
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
    // 4. The way it came: there is no TLS here.
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

/// What it claims to permit.
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
        Some((required_parameter(address, "ss")?.to_owned(), required_parameter(address, "srt")?.to_owned()))
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

/// What must have been signed for this address.
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

/// Valid from `st` on, and until just before `se`; without `st` from now on, which is how the service puts it, too.
fn check_validity(now: Now, address: &Address) -> Result<(), Failure> {
    let starts = address.parameter("st").filter(|text| !text.is_empty());
    let starts = starts.map(|text| parse_time(text).ok_or_else(malformed)).transpose()?;
    let starts = starts.unwrap_or(now.wall);
    let expires = parse_time(required_parameter(address, "se")?).ok_or_else(malformed)?;
    let [start, expiry, current] = [starts, expires, now.wall].map(http_date::format);
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

/// `2026-01-02`, `2026-01-02T03:04Z` or `2026-01-02T03:04:05Z`, the last also with a fraction.
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
        let format_parsed = |text| parse_time(text).map(http_date::format);
        let expected = |text: &str| Some(text.to_owned());
        assert_eq!(format_parsed("2026-01-02"), expected("Fri, 02 Jan 2026 00:00:00 GMT"));
        assert_eq!(format_parsed("2026-01-02T03:04Z"), expected("Fri, 02 Jan 2026 03:04:00 GMT"));
        assert_eq!(format_parsed("2026-01-02T03:04:05Z"), expected("Fri, 02 Jan 2026 03:04:05 GMT"));
        assert_eq!(format_parsed("2026-01-02T03:04:05.1234567Z"), expected("Fri, 02 Jan 2026 03:04:05 GMT"));
        for none in ["", "tomorrow", "2026-02-30", "2026-01-02T03Z", "1767323045"] {
            assert_eq!(format_parsed(none), None, "{none}");
        }
    }
}
