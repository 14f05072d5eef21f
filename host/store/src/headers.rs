//! Request headers and parameters as values. Invalid ones are refused before any lookup.

use std::time::Duration;

use tenure_azure::LeaseId;

use super::address::Address;
use super::code::{Code, Failure};
use super::wire::{MAX_BODY, Request, Response};

/// The oldest supported `x-ms-version`; all later ones are accepted. The service supports older
/// ones with other signatures.
pub const OLDEST_VERSION: &str = "2016-05-31";

pub(super) const LEASE_ID: &str = "x-ms-lease-id";
pub(super) const PROPOSED_LEASE_ID: &str = "x-ms-proposed-lease-id";
const DURATION: &str = "x-ms-lease-duration";
const BREAK_PERIOD: &str = "x-ms-lease-break-period";
const VERSION: &str = "x-ms-version";
const METADATA: &str = "x-ms-meta-";

/// Maximum length of a blob's metadata, names and values (REST reference: *Setting and retrieving
/// properties and metadata*).
const MAX_METADATA: usize = 8 * 1024;

pub(super) type Metadata = Vec<(String, String)>;

impl Response {
    /// Adds the metadata of a container or a blob.
    pub(super) fn with_metadata(mut self, metadata: &Metadata) -> Response {
        let headers =
            metadata.iter().map(|(name, value)| (format!("{METADATA}{name}"), value.clone()));
        self.headers.extend(headers);
        self
    }
}

/// Checks the common parts of a request: `timeout`, and the length of a body.
pub(super) fn check_common(request: &Request, address: &Address) -> Result<(), Failure> {
    // The service reduces larger values to 30 s. Requests are handled at once here, so any number
    // is accepted.
    if let Some(timeout) = address.parameter("timeout")
        && timeout.parse::<u32>().is_err()
    {
        return Err(Failure::query("timeout", timeout));
    }
    content_length(request)
}

/// Returns the version of the response: the request's own, or else that of its shared access
/// signature (REST reference: *Versioning for Azure Storage*).
pub(super) fn version<'a>(
    request: &'a Request,
    sas_version: Option<&'a str>,
) -> Result<&'a str, Failure> {
    // The reference requires it of every other authorized request. The service has a default
    // version, in which leases work as before 2012; this store does not offer it.
    let Some(version) = request.header(VERSION) else {
        return sas_version.ok_or_else(|| Failure::missing(VERSION));
    };
    let is_date =
        chrono::NaiveDate::parse_from_str(version, "%Y-%m-%d").is_ok() && version.len() == 10;
    // Later versions are accepted. Their unsupported features are refused by name.
    if !is_date || version < OLDEST_VERSION {
        return Err(Failure::header(VERSION, version));
    }
    Ok(version)
}

/// Checks the length of a PUT. Chunks need no length, except for Put Blob.
fn content_length(request: &Request) -> Result<(), Failure> {
    const NAME: &str = "content-length";
    if request.body.len() > MAX_BODY {
        return Err(Code::RequestBodyTooLarge.into());
    }
    match request.header(NAME) {
        Some(text) => {
            let length: u64 = text.parse().map_err(|_| Failure::header(NAME, text))?;
            if length > MAX_BODY as u64 { Err(Code::RequestBodyTooLarge.into()) } else { Ok(()) }
        }
        None if request.method == "PUT" && request.header("transfer-encoding").is_none() => {
            Err(Code::MissingContentLengthHeader.into())
        }
        None => Ok(()),
    }
}

/// Parses an optional lease id.
pub(super) fn lease_id(request: &Request, name: &str) -> Result<Option<LeaseId>, Failure> {
    let Some(text) = request.header(name) else { return Ok(None) };
    guid(text).map(Some).ok_or_else(|| Failure::header(name, text))
}

/// Parses a required lease id.
pub(super) fn required_lease_id(request: &Request, name: &str) -> Result<LeaseId, Failure> {
    lease_id(request, name)?.ok_or_else(|| Failure::missing(name))
}

/// Parses a GUID in any of .NET's five formats: the four of [`LeaseId::parse`], and
/// `{0x…,0x…,0x…,{0x…,…}}`. A GUID of zeros is accepted too; the service's behaviour is not
/// documented.
fn guid(text: &str) -> Option<LeaseId> {
    LeaseId::parse(text).or_else(|| {
        let (head, tail) = text.strip_prefix('{')?.strip_suffix("}}")?.split_once(",{")?;
        let numbers: Vec<&str> = head.split(',').chain(tail.split(',')).collect();
        const DIGITS: [usize; 11] = [8, 4, 4, 2, 2, 2, 2, 2, 2, 2, 2];
        if numbers.len() != DIGITS.len() || head.split(',').count() != 3 {
            return None;
        }
        let mut padded = String::new();
        for (number, digits) in numbers.into_iter().zip(DIGITS) {
            let number = number.strip_prefix("0x").or_else(|| number.strip_prefix("0X"))?;
            if number.is_empty() || number.len() > digits {
                return None;
            }
            padded.push_str(&format!("{number:0>digits$}"));
        }
        LeaseId::parse(&padded)
    })
}

/// Parses `x-ms-lease-duration`: 15 to 60 seconds, or -1 for an infinite lease (`None`).
pub(super) fn lease_length(request: &Request) -> Result<Option<Duration>, Failure> {
    let text = request.header(DURATION).ok_or_else(|| Failure::missing(DURATION))?;
    match text.parse::<i32>() {
        Ok(-1) => Ok(None),
        Ok(seconds @ 15..=60) => Ok(Some(Duration::from_secs(u64::from(seconds.unsigned_abs())))),
        _ => Err(Failure::header(DURATION, text)),
    }
}

/// Parses `x-ms-lease-break-period`: 0 to 60 seconds.
pub(super) fn break_period(request: &Request) -> Result<Option<Duration>, Failure> {
    let Some(text) = request.header(BREAK_PERIOD) else { return Ok(None) };
    match text.parse::<u64>() {
        Ok(seconds @ 0..=60) => Ok(Some(Duration::from_secs(seconds))),
        _ => Err(Failure::header(BREAK_PERIOD, text)),
    }
}

/// Returns the metadata of the request with names as sent. Names are C# identifiers, values are
/// printable ASCII.
pub(super) fn metadata(request: &Request) -> Result<Metadata, Failure> {
    let mut metadata = Metadata::new();
    for (name, value) in &request.headers {
        let Some(prefix) = name.get(..METADATA.len()) else { continue };
        if !prefix.eq_ignore_ascii_case(METADATA) {
            continue;
        }
        let name = &name[METADATA.len()..];
        let mut letters = name.chars();
        match letters.next() {
            None => return Err(Code::EmptyMetadataKey.into()),
            Some(first) if first.is_ascii_digit() => return Err(Code::InvalidMetadata.into()),
            Some(_) => {}
        }
        let identifier = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        let printable = value.chars().all(|letter| letter == '\t' || (' '..='~').contains(&letter));
        if !identifier || !printable {
            return Err(Code::InvalidMetadata.into());
        }
        metadata.push((name.to_owned(), value.trim().to_owned()));
    }
    let size: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size > MAX_METADATA { Err(Code::MetadataTooLarge.into()) } else { Ok(metadata) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of<T: std::fmt::Debug>(result: Result<T, Failure>) -> Code {
        result.unwrap_err().code
    }

    #[test]
    fn five_spellings_of_a_guid() {
        let spellings = [
            "cafebabe00004000800000000000000a",
            "CAFEBABE-0000-4000-8000-00000000000A",
            "{cafebabe-0000-4000-8000-00000000000a}",
            "(cafebabe-0000-4000-8000-00000000000a)",
            "{0xcafebabe,0x0000,0x4000,{0x80,0x00,0x00,0x00,0x00,0x00,0x00,0x0a}}",
            "{0xCAFEBABE,0x0,0x4000,{0x80,0x0,0x0,0x0,0x0,0x0,0x0,0xA}}",
        ];
        for text in spellings {
            let read = guid(text).map(|id| id.to_string());
            assert_eq!(read.as_deref(), Some("cafebabe-0000-4000-8000-00000000000a"), "{text}");
        }
        let none = [
            "",
            "{}",
            "{0x1}}",
            "{0xcafebabe,0x0,0x4000,{0x80,0x0,0x0,0x0,0x0,0x0,0x0}}",
            "{0xcafebabe,0x0,0x4000,{0x80,0x0,0x0,0x0,0x0,0x0,0x0,0x100}}",
            "{0xcafebabe,0x0,0x4000,0x80,{0x0,0x0,0x0,0x0,0x0,0x0,0x0}}",
            "{0xcafebabe,0x0,0x4000,{0x80,0x0,0x0,0x0,0x0,0x0,0x0,0xéé}}",
        ];
        for text in none {
            assert!(guid(text).is_none(), "{text}");
        }
    }

    #[test]
    fn metadata_is_validated() {
        let parse_metadata =
            |name: &str, value: &str| metadata(&Request::new("PUT", "/").with(name, value));
        assert_eq!(
            parse_metadata("X-Ms-Meta-Term", " 7 ").unwrap(),
            [("Term".to_owned(), "7".to_owned())]
        );
        assert_eq!(code_of(parse_metadata("x-ms-meta-", "7")), Code::EmptyMetadataKey);
        assert_eq!(code_of(parse_metadata("x-ms-meta-7", "7")), Code::InvalidMetadata);
        assert_eq!(code_of(parse_metadata("x-ms-meta-a-b", "7")), Code::InvalidMetadata);
        assert_eq!(code_of(parse_metadata("x-ms-meta-a", "ö")), Code::InvalidMetadata);
        assert_eq!(
            code_of(parse_metadata("x-ms-meta-a", &"7".repeat(MAX_METADATA))),
            Code::MetadataTooLarge
        );
        assert!(parse_metadata("é", "no ASCII, no metadata").unwrap().is_empty());
    }

    #[test]
    fn a_put_needs_a_length_within_limits() {
        let put = Request::new("PUT", "/");
        assert_eq!(code_of(content_length(&put)), Code::MissingContentLengthHeader);
        assert_eq!(
            code_of(content_length(&put.clone().with("Content-Length", "x"))),
            Code::InvalidHeaderValue
        );
        let too_long = (MAX_BODY + 1).to_string();
        assert_eq!(
            code_of(content_length(&put.clone().with("Content-Length", &too_long))),
            Code::RequestBodyTooLarge
        );
        assert!(content_length(&put.with("Transfer-Encoding", "chunked")).is_ok());
        assert!(content_length(&Request::new("HEAD", "/")).is_ok());
    }

    #[test]
    fn a_timeout_is_a_number() {
        let check_target = |target: &str| {
            let request = Request::new("HEAD", target);
            check_common(&request, &Address::from_request(&request, &[]))
                .map_err(|failure| failure.code)
        };
        assert_eq!(check_target("/a?timeout=3"), Ok(()));
        assert_eq!(check_target("/a?timeout=9999"), Ok(()));
        assert_eq!(check_target("/a?timeout=3s"), Err(Code::InvalidQueryParameterValue));
        assert_eq!(check_target("/a?timeout=-1"), Err(Code::InvalidQueryParameterValue));
    }
}
