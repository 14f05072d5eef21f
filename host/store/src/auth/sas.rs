//! Shared access signatures: what a query claims, and whether the account signed it (REST reference: *Create an account
//! SAS*, *Create a service SAS*, *Shared access signature error codes*).

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use tenure_azure::http_date;

use super::super::account::Account;
use super::super::address::{Address, Resource};
use super::super::code::{Code, Failure};
use super::super::sas::{account_text, service_text};
use super::super::wire::Now;
use super::access::{Access, Permit};
use super::{is_signed, refused};

/// Since this version every one is signed in the same way. If a later one is not, its signatures do not match here.
const OLDEST_VERSION: &str = "2020-12-06";

/// Every parameter of a token; two of one name cannot both be what was signed.
const KNOWN: [&str; 9] = ["sv", "ss", "srt", "sr", "sp", "st", "se", "spr", "sig"];

/// Parameters of tokens that are not played, and what they stand for.
const NOT_PLAYED: [(&str, &str); 11] = [
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
const ORDER: &str = "racwdxyltfmeopi";

pub(super) fn check(now: Now, address: &Address, accounts: &[Account]) -> Result<Access, Failure> {
    // 1. The fields, each by itself.
    for (name, what) in NOT_PLAYED {
        if address.parameter(name).is_some() {
            let why = format!("{name} is not supported here: the signature is by or for {what}.");
            return Err(refused(&why));
        }
    }
    if KNOWN.into_iter().any(|name| is_repeated(address, name)) {
        return Err(malformed());
    }
    let permit = permit(address)?;
    let protocol = address.parameter("spr");
    if !matches!(protocol, None | Some("https" | "https,http")) {
        return Err(malformed());
    }
    // 2. The time.
    in_time(now, address)?;
    // 3. The signature.
    let known = accounts.iter().find(|account| account.name() == address.account);
    let account = known.ok_or_else(|| refused("The account is not known."))?;
    let text = text(address, &permit)?;
    if !is_signed(account, &text, mandatory(address, "sig")?) {
        let why = format!("Signature did not match. String to sign used was {text}");
        return Err(refused(&why));
    }
    // 4. The way it came: there is no TLS here.
    if protocol == Some("https") {
        return Err(Code::AuthorizationProtocolMismatch.into());
    }
    Ok(Access::Sas(permit))
}

fn malformed() -> Failure {
    refused("Signature fields not well formed.")
}

fn is_repeated(address: &Address, name: &str) -> bool {
    address.query.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).count() > 1
}

fn mandatory<'a>(address: &'a Address, name: &str) -> Result<&'a str, Failure> {
    let value = address.parameter(name).filter(|value| !value.is_empty());
    value.ok_or_else(|| refused(&format!("{name} is mandatory. Cannot be empty")))
}

/// What it claims to permit.
fn permit(address: &Address) -> Result<Permit, Failure> {
    let version = mandatory(address, "sv")?;
    let is_date = version.len() == 10 && NaiveDate::parse_from_str(version, "%Y-%m-%d").is_ok();
    if !is_date || version < OLDEST_VERSION {
        let why = format!("sv is not supported here, only {OLDEST_VERSION} and later.");
        return Err(refused(&why));
    }
    let of_account = ["ss", "srt"].into_iter().any(|name| address.parameter(name).is_some());
    let permissions = mandatory(address, "sp")?;
    let account = if of_account {
        if address.parameter("sr").is_some() {
            return Err(malformed());
        }
        Some((mandatory(address, "ss")?.to_owned(), mandatory(address, "srt")?.to_owned()))
    } else {
        if !matches!(mandatory(address, "sr")?, "b" | "c") {
            return Err(refused("sr is not supported here, only b and c."));
        }
        let places: Option<Vec<usize>> =
            permissions.chars().map(|letter| ORDER.find(letter)).collect();
        if !places.is_some_and(|places| places.is_sorted_by(|one, next| one < next)) {
            return Err(malformed());
        }
        None
    };
    Ok(Permit { permissions: permissions.to_owned(), account, version: version.to_owned() })
}

/// What must have been signed for this address.
fn text(address: &Address, permit: &Permit) -> Result<String, Failure> {
    let name = address.account.as_str();
    let value = |name: &str| address.parameter(name).unwrap_or_default();
    if permit.account.is_some() {
        return Ok(account_text(name, value));
    }
    Ok(match address.resource.as_ref().map_err(|code| *code)? {
        Resource::Account => service_text(name, &[], value),
        Resource::Container(container) => service_text(name, &[container], value),
        Resource::Blob(container, _) if value("sr") == "c" => {
            service_text(name, &[container], value)
        }
        Resource::Blob(container, blob) => service_text(name, &[container, blob], value),
    })
}

/// Valid from `st` on, and until just before `se`; without `st` from now on, which is how the service puts it, too.
fn in_time(now: Now, address: &Address) -> Result<(), Failure> {
    let starts = address.parameter("st").filter(|text| !text.is_empty());
    let starts = starts.map(|text| time(text).ok_or_else(malformed)).transpose()?;
    let starts = starts.unwrap_or(now.wall);
    let expires = time(mandatory(address, "se")?).ok_or_else(malformed)?;
    let [start, expiry, current] = [starts, expires, now.wall].map(http_date::format);
    if expires <= starts {
        return Err(refused(&format!(
            "Signed expiry time [{expiry}] must be after signed start time [{start}]"
        )));
    }
    if !(starts..expires).contains(&now.wall) {
        return Err(refused(&format!(
            "Signature not valid in the specified time frame: \
             Start [{start}] - Expiry [{expiry}] - Current [{current}]"
        )));
    }
    Ok(())
}

/// `2026-01-02`, `2026-01-02T03:04Z` or `2026-01-02T03:04:05Z`, the last also with a fraction.
fn time(text: &str) -> Option<DateTime<Utc>> {
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
        let told = |text| time(text).map(http_date::format);
        let expected = |text: &str| Some(text.to_owned());
        assert_eq!(told("2026-01-02"), expected("Fri, 02 Jan 2026 00:00:00 GMT"));
        assert_eq!(told("2026-01-02T03:04Z"), expected("Fri, 02 Jan 2026 03:04:00 GMT"));
        assert_eq!(told("2026-01-02T03:04:05Z"), expected("Fri, 02 Jan 2026 03:04:05 GMT"));
        assert_eq!(told("2026-01-02T03:04:05.1234567Z"), expected("Fri, 02 Jan 2026 03:04:05 GMT"));
        for none in ["", "tomorrow", "2026-02-30", "2026-01-02T03Z", "1767323045"] {
            assert_eq!(told(none), None, "{none}");
        }
    }
}
