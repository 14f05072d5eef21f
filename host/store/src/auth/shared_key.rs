//! Shared Key and the age of the request (REST reference: *Authorize with Shared Key*).

use chrono::TimeDelta;
use tenure_azure::encoding;
use tenure_azure::shared_key::string_to_sign;

use super::super::account::Account;
use super::super::address::Address;
use super::super::code::{Code, Failure};
use super::super::wire::{Now, Request};
use super::access::Access;
use super::{authentication_failed, is_signed};

/// Maximum age of a request. The reference sets no limit for dates in the future, so they pass.
const MAX_AGE: TimeDelta = TimeDelta::minutes(15);

pub(super) fn check(
    now: Now,
    request: &Request,
    authorization: &str,
    address: &Address,
    accounts: &[Account],
) -> Result<Access, Failure> {
    let (scheme, rest) = authorization.split_once(' ').ok_or(Code::InvalidAuthenticationInfo)?;
    match scheme {
        "SharedKey" => {}
        // The service accepts tokens over TLS only, and this store has no TLS. Lite uses another
        // signature.
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
    // The account in the address must be the signing one. On the service, an account that does not
    // exist has no address.
    let known = accounts.iter().find(|account| account.name() == name && name == address.account);
    let account = known.ok_or_else(|| authentication_failed("The account is not known."))?;
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

#[cfg(test)]
mod tests {
    use super::super::super::account::EMULATOR_KEY;
    use super::*;
    use chrono::{DateTime, Utc};
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
        super::super::check(now, request, &Address::from_request(request, accounts), accounts)
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
    fn an_account_speaks_for_itself_only() {
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
}
