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

mod access;
mod sas;
mod shared_key;

use std::hint::black_box;

pub(super) use access::Access;

use super::account::Account;
use super::address::Address;
use super::code::{Code, Failure};
use super::wire::{Now, Request};

/// Returns the rights of the request, or the reason why it is refused.
pub(super) fn check(
    now: Now,
    request: &Request,
    address: &Address,
    accounts: &[Account],
) -> Result<Access, Failure> {
    // The signed text of a repeated header is undefined: 400.
    if let Some((name, value)) = first_repeated(&request.headers) {
        // Clients log refused headers.
        let is_secret = name.eq_ignore_ascii_case("authorization");
        return Err(Failure::header(name, if is_secret { "" } else { value }));
    }
    match request.header("authorization") {
        // With both, only the header counts. The reference does not say. Azurite looks at the
        // header first, too, but then lets a token make up for a wrong one.
        Some(header) => shared_key::check(now, request, header, address, accounts),
        None if address.parameter("sig").is_some() => sas::check(now, address, accounts),
        // An anonymous request to a private container. Versions before 2019-12-12 returned 404.
        None => Err(Code::NoAuthenticationInformation.into()),
    }
}

fn authentication_failed(reason: &str) -> Failure {
    Failure::from(Code::AuthenticationFailed).with_detail("AuthenticationErrorDetail", reason)
}

/// Returns the first repeated header that must be unique.
fn first_repeated(headers: &[(String, String)]) -> Option<(&str, &str)> {
    let is_single = |name: &str| {
        let name = name.to_ascii_lowercase();
        name.starts_with("x-ms-")
            || matches!(name.as_str(), "authorization" | "date" | "if-match" | "if-none-match")
    };
    headers.iter().enumerate().find_map(|(index, (name, value))| {
        let earlier_headers = &headers[..index];
        let is_again = is_single(name)
            && earlier_headers.iter().any(|(earlier, _)| earlier.eq_ignore_ascii_case(name));
        is_again.then_some((name.as_str(), value.as_str()))
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_means_equal() {
        assert!(constant_time_eq(b"abc", b"abc"));
        assert!(!constant_time_eq(b"abc", b"abd"));
        assert!(!constant_time_eq(b"abc", b"ab"));
        assert!(!constant_time_eq(b"", b"a"));
    }
}
