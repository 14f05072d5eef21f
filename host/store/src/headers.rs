//! Parses headers and parameters of requests. Invalid ones are refused before any lookup.

use std::time::Duration;

use chrono::{DateTime, SubsecRound, Utc};
use tenure_azure::{LeaseId, encoding};

use super::address::Address;
use super::code::{Code, Failure};
use super::wire::{MAX_BODY, Request, Response};

/// The oldest `x-ms-version` that the store accepts; it accepts all later ones. The service still
/// supports older ones, in which requests are signed differently.
pub const OLDEST_VERSION: &str = "2016-05-31";

pub(super) const LEASE_ID: &str = "x-ms-lease-id";
pub(super) const PROPOSED_LEASE_ID: &str = "x-ms-proposed-lease-id";
const DURATION: &str = "x-ms-lease-duration";
const BREAK_PERIOD: &str = "x-ms-lease-break-period";
const VERSION: &str = "x-ms-version";
const METADATA_PREFIX: &str = "x-ms-meta-";

/// Maximum size of the metadata of a blob or a container, in bytes: all names and values together
/// (REST reference: *Setting and retrieving properties and metadata*).
const MAX_METADATA: usize = 8 * 1024;

/// Names without the prefix `x-ms-meta-`, and their values.
pub(super) type Metadata = Vec<(String, String)>;

impl Response {
    /// Adds the metadata of a container or a blob.
    pub(super) fn with_metadata(mut self, metadata: &Metadata) -> Response {
        let headers = metadata
            .iter()
            .map(|(name, value)| (format!("{METADATA_PREFIX}{name}"), value.clone()));
        self.headers.extend(headers);
        self
    }
}

/// Checks the parts that all operations have in common: `timeout`, and the length of the body.
pub(super) fn check_common(request: &Request, address: &Address) -> Result<(), Failure> {
    // The service limits the value to 30 s. Requests are handled at once here, so any number is
    // accepted.
    if let Some(timeout) = address.parameter("timeout")
        && timeout.parse::<u32>().is_err()
    {
        return Err(Failure::query("timeout", timeout));
    }
    check_content_length(request)
}

/// Returns the version by which the request is handled: its `x-ms-version`, or else that of its
/// shared access signature (REST reference: *Versioning for Azure Storage*).
pub(super) fn version<'a>(
    request: &'a Request,
    sas_version: Option<&'a str>,
) -> Result<&'a str, Failure> {
    // The reference requires the header of every authorized request without a SAS. The service has
    // a default version, in which leases work as before 2012. The store does not support it.
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

/// Checks the size of the body. A PUT needs `Content-Length` unless its body is chunked. Put Blob
/// always needs it, and checks that itself.
fn check_content_length(request: &Request) -> Result<(), Failure> {
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

/// Parses the lease id in the header `name`. Returns `None` if the request lacks that header.
pub(super) fn lease_id(request: &Request, name: &str) -> Result<Option<LeaseId>, Failure> {
    let Some(text) = request.header(name) else { return Ok(None) };
    guid(text).map(Some).ok_or_else(|| Failure::header(name, text))
}

/// Parses the lease id in the header `name`, which is required.
pub(super) fn required_lease_id(request: &Request, name: &str) -> Result<LeaseId, Failure> {
    lease_id(request, name)?.ok_or_else(|| Failure::missing(name))
}

/// Parses a GUID in any of .NET's five formats: the four of [`LeaseId::parse`], and
/// `{0x…,0x…,0x…,{0x…,…}}`. A GUID of zeros is accepted too; the service's behaviour is not
/// documented.
fn guid(text: &str) -> Option<LeaseId> {
    LeaseId::parse(text).or_else(|| {
        let (head, tail) = text.strip_prefix('{')?.strip_suffix("}}")?.split_once(",{")?;
        let groups: Vec<&str> = head.split(',').chain(tail.split(',')).collect();
        /// Maximum number of hexadecimal digits of each group.
        const DIGITS: [usize; 11] = [8, 4, 4, 2, 2, 2, 2, 2, 2, 2, 2];
        if groups.len() != DIGITS.len() || head.split(',').count() != 3 {
            return None;
        }
        let mut padded = String::new();
        for (group, digits) in groups.into_iter().zip(DIGITS) {
            let group = group.strip_prefix("0x").or_else(|| group.strip_prefix("0X"))?;
            if group.is_empty() || group.len() > digits {
                return None;
            }
            padded.push_str(&format!("{group:0>digits$}"));
        }
        LeaseId::parse(&padded)
    })
}

/// Parses `x-ms-lease-duration`: 15 to 60 seconds, or -1 for an infinite lease (`None`).
pub(super) fn lease_duration(request: &Request) -> Result<Option<Duration>, Failure> {
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

/// Parses the metadata of the request; names keep their case. A name must be a C# identifier, and a
/// value printable ASCII.
pub(super) fn metadata(request: &Request) -> Result<Metadata, Failure> {
    let mut metadata = Metadata::new();
    for (name, value) in &request.headers {
        let Some(prefix) = name.get(..METADATA_PREFIX.len()) else { continue };
        if !prefix.eq_ignore_ascii_case(METADATA_PREFIX) {
            continue;
        }
        let name = &name[METADATA_PREFIX.len()..];
        let mut letters = name.chars();
        match letters.next() {
            None => return Err(Code::EmptyMetadataKey.into()),
            Some(first) if first.is_ascii_digit() => return Err(Code::InvalidMetadata.into()),
            Some(_) => {}
        }
        let is_identifier =
            name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        let is_printable =
            value.chars().all(|letter| letter == '\t' || (' '..='~').contains(&letter));
        if !is_identifier || !is_printable {
            return Err(Code::InvalidMetadata.into());
        }
        metadata.push((name.to_owned(), value.trim().to_owned()));
    }
    let size: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size > MAX_METADATA { Err(Code::MetadataTooLarge.into()) } else { Ok(metadata) }
}

/// The conditional headers of one request (REST reference: *Specifying conditional headers for Blob
/// service operations*).
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    if_match: Option<Etags>,
    if_none_match: Option<Etags>,
    if_modified_since: Option<DateTime<Utc>>,
    if_unmodified_since: Option<DateTime<Utc>>,
}

/// The value of `If-Match` or `If-None-Match`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Etags {
    /// `*`: the ETag of any existing blob or container.
    Any,
    /// ETags without their quotes.
    List(Vec<String>),
}

impl Etags {
    fn matches(&self, etag: &str) -> bool {
        match self {
            Etags::Any => true,
            Etags::List(etags) => etags.iter().any(|known| known == etag.trim_matches('"')),
        }
    }
}

impl Conditions {
    fn parse(request: &Request) -> Result<Conditions, Failure> {
        Ok(Conditions {
            if_match: parse_etags(request, "if-match")?,
            if_none_match: parse_etags(request, "if-none-match")?,
            if_modified_since: parse_date(request, "if-modified-since")?,
            if_unmodified_since: parse_date(request, "if-unmodified-since")?,
        })
    }

    /// Reads the conditions of Get Blob and Get Blob Properties: any combination, and lists of
    /// ETags.
    pub(super) fn for_read(request: &Request) -> Result<Conditions, Failure> {
        let conditions = Conditions::parse(request)?;
        // The reference does not mention this refusal; the tests of Azure's command line show it.
        if conditions.if_none_match == Some(Etags::Any) {
            return Err(Code::UnsatisfiableCondition.into());
        }
        Ok(conditions)
    }

    /// Reads the conditions of all other operations: one header with one ETag or date. `If-Match`
    /// overrides `If-Unmodified-Since`, and `If-None-Match` overrides `If-Modified-Since`.
    pub(super) fn for_write(request: &Request) -> Result<Conditions, Failure> {
        let mut conditions = Conditions::parse(request)?;
        let is_list =
            |etags: &Option<Etags>| matches!(etags, Some(Etags::List(etags)) if etags.len() > 1);
        for (name, etags) in
            [("if-match", &conditions.if_match), ("if-none-match", &conditions.if_none_match)]
        {
            if is_list(etags) {
                return Err(Failure::header(name, request.header(name).unwrap_or_default()));
            }
        }
        let has_match_condition =
            conditions.if_match.is_some() || conditions.if_unmodified_since.is_some();
        let has_change_condition =
            conditions.if_none_match.is_some() || conditions.if_modified_since.is_some();
        if has_match_condition && has_change_condition {
            return Err(Code::MultipleConditionHeadersNotSupported.into());
        }
        if conditions.if_match.is_some() {
            conditions.if_unmodified_since = None;
        }
        if conditions.if_none_match.is_some() {
            conditions.if_modified_since = None;
        }
        Ok(conditions)
    }

    /// Returns true for `If-None-Match: *`: the target must not exist.
    pub(super) fn is_create_only(&self) -> bool {
        self.if_none_match == Some(Etags::Any)
    }

    /// Checks the conditions of a write to a blob that does not exist. It has no ETag, so
    /// `If-Match` fails.
    pub(super) fn check_create(&self) -> Result<(), Failure> {
        if self.if_match.is_some() { Err(Code::ConditionNotMet.into()) } else { Ok(()) }
    }

    /// Checks the conditions of a write or a lease operation. `If-None-Match: *` on an existing
    /// blob fails like any unmet condition (the reference describes it for creation only).
    pub(super) fn check_write(&self, etag: &str, modified: DateTime<Utc>) -> Result<(), Failure> {
        let are_met = self.matches_expected(etag, modified) && self.has_changed(etag, modified);
        if are_met { Ok(()) } else { Err(Code::ConditionNotMet.into()) }
    }

    /// Checks the conditions of a read: 412 if a required condition fails, 304 if the client's
    /// version is current.
    pub(super) fn check_read(&self, etag: &str, modified: DateTime<Utc>) -> Result<(), Failure> {
        if !self.matches_expected(etag, modified) {
            return Err(Code::ConditionNotMet.into());
        }
        if self.has_changed(etag, modified) { Ok(()) } else { Err(Failure::not_modified()) }
    }

    /// Returns true if `If-Match` and `If-Unmodified-Since` are met. Absent headers are met.
    fn matches_expected(&self, etag: &str, modified: DateTime<Utc>) -> bool {
        self.if_match.as_ref().is_none_or(|etags| etags.matches(etag))
            // Clients take the date from `Last-Modified`, which has whole seconds.
            && self.if_unmodified_since.is_none_or(|date| modified.trunc_subsecs(0) <= date)
    }

    /// Returns true if `If-None-Match` or `If-Modified-Since` is met, or both are absent.
    fn has_changed(&self, etag: &str, modified: DateTime<Utc>) -> bool {
        let is_other_etag = self.if_none_match.as_ref().map(|etags| !etags.matches(etag));
        let is_later = self.if_modified_since.map(|date| modified.trunc_subsecs(0) > date);
        match (is_other_etag, is_later) {
            (Some(is_other_etag), Some(is_later)) => is_other_etag || is_later,
            (is_other_etag, is_later) => is_other_etag.or(is_later).unwrap_or(true),
        }
    }
}

/// Parses ETags, quoted or not, separated by commas; or a single `*`.
fn parse_etags(request: &Request, name: &str) -> Result<Option<Etags>, Failure> {
    let Some(value) = request.header(name) else { return Ok(None) };
    if value == "*" {
        return Ok(Some(Etags::Any));
    }
    let etags: Vec<String> =
        value.split(',').map(|tag| tag.trim().trim_matches('"').to_owned()).collect();
    if etags.iter().any(|tag| tag.is_empty() || tag == "*") {
        return Err(Failure::header(name, value));
    }
    Ok(Some(Etags::List(etags)))
}

fn parse_date(request: &Request, name: &str) -> Result<Option<DateTime<Utc>>, Failure> {
    let Some(value) = request.header(name) else { return Ok(None) };
    encoding::parse_http_date(value).map(Some).ok_or_else(|| Failure::header(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETAG: &str = "\"0x8D1\"";
    const OTHER: &str = "\"0x8D2\"";
    const EARLIER: &str = "Fri, 02 Jan 2026 03:04:04 GMT";
    const SAME: &str = "Fri, 02 Jan 2026 03:04:05 GMT";

    fn modified() -> DateTime<Utc> {
        // Half a second after the value of Last-Modified.
        DateTime::from_timestamp(1_767_323_045, 500_000_000).unwrap()
    }

    fn request(headers: &[(&str, &str)]) -> Request {
        let request = Request::new("PUT", "/");
        headers.iter().fold(request, |request, (name, value)| request.with(name, value))
    }

    fn write(headers: &[(&str, &str)]) -> bool {
        let conditions = Conditions::for_write(&request(headers)).unwrap();
        conditions.check_write(ETAG, modified()).is_ok()
    }

    /// Returns the status of a read.
    fn read(headers: &[(&str, &str)]) -> u16 {
        let conditions = Conditions::for_read(&request(headers));
        match conditions.and_then(|conditions| conditions.check_read(ETAG, modified())) {
            Ok(()) => 200,
            Err(failure) => failure.response(false, "", "").status,
        }
    }

    #[test]
    fn etags() {
        assert!(write(&[("If-Match", ETAG)]));
        assert!(write(&[("If-Match", "0x8D1")]));
        assert!(write(&[("If-Match", "*")]));
        assert!(!write(&[("If-Match", OTHER)]));
        assert!(!write(&[("If-None-Match", ETAG)]));
        assert!(!write(&[("If-None-Match", "*")]));
        assert!(write(&[("If-None-Match", OTHER)]));
    }

    #[test]
    fn dates_in_whole_seconds() {
        assert!(write(&[("If-Modified-Since", EARLIER)]));
        assert!(!write(&[("If-Modified-Since", SAME)]));
        assert!(!write(&[("If-Unmodified-Since", EARLIER)]));
        assert!(write(&[("If-Unmodified-Since", SAME)]));
    }

    #[test]
    fn for_writes_an_etag_overrides_the_date() {
        assert!(write(&[("If-Match", ETAG), ("If-Unmodified-Since", EARLIER)]));
        assert!(write(&[("If-None-Match", OTHER), ("If-Modified-Since", SAME)]));
    }

    #[test]
    fn for_reads_every_header_counts() {
        // If-Match && If-Unmodified-Since && (If-None-Match || If-Modified-Since)
        assert_eq!(read(&[("If-Match", ETAG), ("If-Unmodified-Since", EARLIER)]), 412);
        assert_eq!(read(&[("If-Match", ETAG), ("If-Unmodified-Since", SAME)]), 200);
        assert_eq!(read(&[("If-None-Match", ETAG), ("If-Modified-Since", EARLIER)]), 200);
        assert_eq!(read(&[("If-None-Match", OTHER), ("If-Modified-Since", SAME)]), 200);
        assert_eq!(read(&[("If-None-Match", ETAG), ("If-Modified-Since", SAME)]), 304);
        assert_eq!(read(&[("If-Match", OTHER), ("If-None-Match", ETAG)]), 412);
        assert_eq!(read(&[("If-Match", ETAG), ("If-None-Match", ETAG)]), 304);
    }

    #[test]
    fn a_read_takes_lists_of_etags() {
        assert_eq!(read(&[("If-Match", "\"0x8D2\", \"0x8D1\"")]), 200);
        assert_eq!(read(&[("If-Match", "\"0x8D2\",0x8D3")]), 412);
        assert_eq!(read(&[("If-None-Match", "\"0x8D2\", \"0x8D1\"")]), 304);
        assert_eq!(read(&[("If-None-Match", "\"0x8D2\", \"0x8D3\"")]), 200);
        assert_eq!(read(&[("If-None-Match", "*")]), 400);
    }

    #[test]
    fn nonsense_is_refused() {
        let headers =
            [("If-Match", ""), ("If-None-Match", "\"a\", \"b\""), ("If-Modified-Since", "today")];
        for (name, value) in headers {
            let failure = Conditions::for_write(&request(&[(name, value)])).unwrap_err();
            assert_eq!(failure.code, Code::InvalidHeaderValue, "{name}");
        }
        let both = request(&[("If-Match", ETAG), ("If-None-Match", OTHER)]);
        let failure = Conditions::for_write(&both).unwrap_err();
        assert_eq!(failure.code, Code::MultipleConditionHeadersNotSupported);
        assert_eq!(read(&[("If-None-Match", "\"a\", *")]), 400);
    }

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
        assert_eq!(code_of(check_content_length(&put)), Code::MissingContentLengthHeader);
        assert_eq!(
            code_of(check_content_length(&put.clone().with("Content-Length", "x"))),
            Code::InvalidHeaderValue
        );
        let too_long = (MAX_BODY + 1).to_string();
        assert_eq!(
            code_of(check_content_length(&put.clone().with("Content-Length", &too_long))),
            Code::RequestBodyTooLarge
        );
        assert!(check_content_length(&put.with("Transfer-Encoding", "chunked")).is_ok());
        assert!(check_content_length(&Request::new("HEAD", "/")).is_ok());
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
