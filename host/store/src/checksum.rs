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

/// Refuses a body that does not have the checksum in the header, if the request has that header.
pub(super) fn check(request: &Request, header: &str) -> Result<(), Failure> {
    let Some(text) = request.header(header) else { return Ok(()) };
    match STANDARD.decode(text) {
        Ok(bytes) if bytes.len() != 16 => Err(invalid(header)),
        Ok(_) if text != of(&request.body) => Err(Code::Md5Mismatch.into()),
        Ok(_) => Ok(()),
        Err(_) => Err(invalid(header)),
    }
}

fn invalid(header: &str) -> Failure {
    Failure::from(Code::InvalidMd5).because("HeaderName", header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_checked_and_must_be_one() {
        // RFC 1321, *Test suite*: MD5 of "abc".
        assert_eq!(of(b"abc"), "kAFQmDzST7DWlj99KOF/cg==");
        let judged = |text| {
            let mut request = Request::new("PUT", "/").with("Content-MD5", text);
            request.body = "abc".into();
            check(&request, "content-md5").map_err(|failure| failure.code)
        };
        assert_eq!(judged("kAFQmDzST7DWlj99KOF/cg=="), Ok(()));
        assert_eq!(judged("1B2M2Y8AsgTpgAmY7PhCfg=="), Err(Code::Md5Mismatch));
        assert_eq!(judged("abc"), Err(Code::InvalidMd5));
        assert_eq!(judged("YWJj"), Err(Code::InvalidMd5));
    }
}
