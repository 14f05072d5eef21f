//! MD5 as the service uses it: against errors on the way, not against people.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};

use super::code::{Code, Failure};
use super::wire::Request;

/// The checksum of these bytes, in base64 as in headers.
pub(super) fn of(bytes: &[u8]) -> String {
    STANDARD.encode(Md5::digest(bytes))
}

/// Refuses a body that is not the one whose checksum the header gives, if it gives one.
pub(super) fn check(request: &Request, header: &str, body: &[u8]) -> Result<(), Failure> {
    match value(request, header)? {
        Some(given) if given != of(body) => Err(Code::Md5Mismatch.into()),
        _ => Ok(()),
    }
}

/// A header that must be a checksum, if it is there.
pub(super) fn value<'a>(request: &'a Request, header: &str) -> Result<Option<&'a str>, Failure> {
    let Some(text) = request.header(header) else { return Ok(None) };
    match STANDARD.decode(text) {
        Ok(bytes) if bytes.len() == 16 => Ok(Some(text)),
        _ => Err(Failure::from(Code::InvalidMd5).because("HeaderName", header)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_checked_and_must_be_one() {
        // RFC 1321, *Test suite*: MD5 of "abc".
        assert_eq!(of(b"abc"), "kAFQmDzST7DWlj99KOF/cg==");
        let judged = |text| {
            let request = Request::new("PUT", "/").with("Content-MD5", text);
            check(&request, "content-md5", b"abc").map_err(|failure| failure.code)
        };
        assert_eq!(judged("kAFQmDzST7DWlj99KOF/cg=="), Ok(()));
        assert_eq!(judged("1B2M2Y8AsgTpgAmY7PhCfg=="), Err(Code::Md5Mismatch));
        assert_eq!(judged("abc"), Err(Code::InvalidMd5));
        assert_eq!(judged("YWJj"), Err(Code::InvalidMd5));
    }
}
