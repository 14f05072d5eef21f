//! MD5 as the service uses it: against transmission errors, not against attackers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};

use super::code::{Code, Failure};
use super::wire::Request;

/// Returns the checksum of these bytes, in base64 as in headers.
pub(super) fn md5_base64(bytes: &[u8]) -> String {
    STANDARD.encode(Md5::digest(bytes))
}

/// Refuses a body whose checksum differs from the header, if the request has that header.
pub(super) fn check(request: &Request, header: &str) -> Result<(), Failure> {
    let Some(text) = request.header(header) else { return Ok(()) };
    match STANDARD.decode(text) {
        Ok(bytes) if bytes.len() != 16 => Err(invalid_md5(header)),
        Ok(_) if text != md5_base64(&request.body) => Err(Code::Md5Mismatch.into()),
        Ok(_) => Ok(()),
        Err(_) => Err(invalid_md5(header)),
    }
}

fn invalid_md5(header: &str) -> Failure {
    Failure::from(Code::InvalidMd5).with_detail("HeaderName", header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_checked_and_must_be_one() {
        // RFC 1321, *Test suite*: MD5 of "abc".
        assert_eq!(md5_base64(b"abc"), "kAFQmDzST7DWlj99KOF/cg==");
        let check_header = |text| {
            let mut request = Request::new("PUT", "/").with("Content-MD5", text);
            request.body = "abc".into();
            check(&request, "content-md5").map_err(|failure| failure.code)
        };
        assert_eq!(check_header("kAFQmDzST7DWlj99KOF/cg=="), Ok(()));
        assert_eq!(check_header("1B2M2Y8AsgTpgAmY7PhCfg=="), Err(Code::Md5Mismatch));
        assert_eq!(check_header("abc"), Err(Code::InvalidMd5));
        assert_eq!(check_header("YWJj"), Err(Code::InvalidMd5));
    }
}
