//! The values of a container and a blob: content, properties, metadata, lease. The module also
//! checks the checksum of a body, and selects the part of a blob that a request reads.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use md5::{Digest, Md5};
use tenure_azure::encoding;

use super::code::{Code, Failure};
use super::headers::Metadata;
use super::lease::Lease;
use super::wire::{Request, Response};

/// The type of all blobs.
pub(super) const BLOB_TYPE: &str = "BlockBlob";

/// The properties that a client can set and read.
pub(super) const PROPERTIES: [&str; 6] = [
    "Content-Type",
    "Content-Encoding",
    "Content-Language",
    "Content-MD5",
    "Cache-Control",
    "Content-Disposition",
];

/// The header with the checksum of the whole blob: in a Put Blob, and in the response to a range.
const BLOB_MD5: &str = "x-ms-blob-content-md5";

/// The names of an account and of one of its containers.
pub(super) type ContainerKey = (String, String);

#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Container {
    pub(super) etag: String,
    pub(super) modified: DateTime<Utc>,
    pub(super) metadata: Metadata,
    pub(super) blobs: BTreeMap<String, Blob>,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Blob {
    pub(super) content: Content,
    pub(super) lease: Lease,
}

/// The state of a blob except its lease.
#[derive(Clone, Debug, Hash)]
pub(super) struct Content {
    pub(super) body: Bytes,
    pub(super) properties: Properties,
    pub(super) metadata: Metadata,
    pub(super) etag: String,
    pub(super) created: DateTime<Utc>,
    pub(super) modified: DateTime<Utc>,
}

#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Properties(Vec<(&'static str, String)>);

impl Properties {
    /// Reads the properties of a Put Blob: `x-ms-blob-content-type`, or `Content-Type` if that is
    /// missing, and so on. The service ignores a plain `Content-Disposition` (REST reference: *Put
    /// Blob*). The store computes the checksum. A checksum from the client must be equal.
    pub(super) fn from_request(request: &Request) -> Result<Properties, Failure> {
        check_md5(request, "content-md5")?;
        check_md5(request, BLOB_MD5)?;
        let mut properties = vec![("Content-MD5", md5_base64(&request.body))];
        for name in PROPERTIES.into_iter().filter(|name| *name != "Content-MD5") {
            let blob_header = request.header(&format!("x-ms-blob-{name}"));
            let plain_header = request.header(name).filter(|_| name != "Content-Disposition");
            properties.extend(blob_header.or(plain_header).map(|value| (name, value.to_owned())));
        }
        Ok(Properties(properties))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Returns the MD5 of these bytes, in base64 as in headers. It protects against transmission
/// errors, not against attackers.
fn md5_base64(bytes: &[u8]) -> String {
    STANDARD.encode(Md5::digest(bytes))
}

/// Refuses a body whose checksum differs from the header, if the request has that header.
fn check_md5(request: &Request, header: &str) -> Result<(), Failure> {
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

impl Content {
    /// Returns the content type, or the service's default.
    pub(super) fn content_type(&self) -> &str {
        self.properties.get("Content-Type").unwrap_or("application/octet-stream")
    }

    /// Returns the response to a read of `part`, with the lease state at `now`. A HEAD gets the
    /// same headers without a body.
    pub(super) fn response(&self, lease: &Lease, now: Duration, part: Part) -> Response {
        let length = self.body.len();
        let status = if matches!(part, Part::Range { .. }) { 206 } else { 200 };
        let mut response = with_etag(status, &self.etag, self.modified)
            .with("Accept-Ranges", "bytes")
            .with("x-ms-blob-type", BLOB_TYPE)
            .with("x-ms-creation-time", encoding::format_http_date(self.created))
            .with("x-ms-server-encrypted", "true");
        for (name, value) in lease_headers(lease, now) {
            response = response.with(name, value);
        }
        for name in PROPERTIES {
            let value = match name {
                "Content-Type" => Some(self.content_type()),
                name => self.properties.get(name),
            };
            // In the response to a range, `Content-MD5` would mean the checksum of the range.
            let name = if name == "Content-MD5" && status == 206 { BLOB_MD5 } else { name };
            response.headers.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        }
        response = response.with_metadata(&self.metadata);
        match part {
            Part::Empty => response.with("Content-Length", length.to_string()),
            Part::Whole => {
                response.body = self.body.clone();
                response.with("Content-Length", length.to_string())
            }
            Part::Range { first, last } => {
                response.body = self.body.slice(first as usize..=last as usize);
                response
                    .with("Content-Length", (last - first + 1).to_string())
                    .with("Content-Range", format!("bytes {first}-{last}/{length}"))
            }
        }
    }
}

/// The part of a blob that a request reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// No byte: a HEAD.
    Empty,
    Whole,
    /// From the first byte to the last, both included.
    Range {
        first: u64,
        last: u64,
    },
}

/// Returns the part of a blob of this length that a Get Blob requests: the whole blob,
/// `bytes=FIRST-` or `bytes=FIRST-LAST`. `x-ms-range` takes precedence over `Range`
/// (REST reference: *Specifying the range header for Blob service operations*, *Get Blob*).
pub(super) fn requested_part(request: &Request, length: u64) -> Result<Part, Failure> {
    let header = ["x-ms-range", "range"]
        .into_iter()
        .find_map(|name| request.header(name).map(|text| (name, text)));
    let Some((name, text)) = header else { return Ok(Part::Whole) };
    let invalid = || Failure::header(name, text);
    let (first, last) =
        text.strip_prefix("bytes=").and_then(|range| range.split_once('-')).ok_or_else(invalid)?;
    // HTTP also has `bytes=-LENGTH` and lists of ranges. The reference describes neither.
    if first.trim().is_empty() || last.contains(',') {
        let feature = format!("{name}: {text}, only bytes=FIRST- and bytes=FIRST-LAST,");
        return Err(Failure::unsupported(&feature));
    }
    let first: u64 = first.trim().parse().map_err(|_| invalid())?;
    let last: u64 = match last.trim() {
        "" => u64::MAX,
        last => last.parse().map_err(|_| invalid())?,
    };
    if last < first {
        return Err(invalid());
    }
    if first >= length {
        return Err(Failure::range(length));
    }
    Ok(Part::Range { first, last: last.min(length - 1) })
}

/// Returns the headers that describe a blob's lease.
pub(super) fn lease_headers(
    lease: &Lease,
    now: Duration,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let state = lease.state(now);
    let duration =
        lease.is_infinite(now).map(|is_infinite| if is_infinite { "infinite" } else { "fixed" });
    [
        ("x-ms-lease-status", if state.is_locked() { "locked" } else { "unlocked" }),
        ("x-ms-lease-state", state.name()),
    ]
    .into_iter()
    .chain(duration.map(|duration| ("x-ms-lease-duration", duration)))
}

/// Returns a response without a body, with the ETag and the date of a container or a blob.
pub(super) fn with_etag(status: u16, etag: &str, modified: DateTime<Utc>) -> Response {
    Response::new(status)
        .with("ETag", etag)
        .with("Last-Modified", encoding::format_http_date(modified))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the first and last byte of a range, or else the status: 200 for the whole blob.
    fn requested_bytes(headers: &[(&str, &str)], length: u64) -> Result<(u64, u64), u16> {
        let request = Request::new("GET", "/");
        let request =
            headers.iter().fold(request, |request, (name, value)| request.with(name, value));
        match requested_part(&request, length) {
            Ok(Part::Range { first, last }) => Ok((first, last)),
            Ok(Part::Whole | Part::Empty) => Err(200),
            Err(failure) => Err(failure.response(false, "", "").status),
        }
    }

    #[test]
    fn two_forms_of_a_range_are_accepted() {
        assert_eq!(requested_bytes(&[("Range", "bytes=2-4")], 10), Ok((2, 4)));
        assert_eq!(requested_bytes(&[("Range", "bytes=2-")], 10), Ok((2, 9)));
        assert_eq!(requested_bytes(&[("Range", "bytes=0-99")], 10), Ok((0, 9)));
        assert_eq!(
            requested_bytes(&[("Range", "bytes=2-4"), ("x-ms-range", "bytes=0-0")], 10),
            Ok((0, 0))
        );
        assert_eq!(requested_bytes(&[], 10), Err(200));
    }

    #[test]
    fn other_ranges_are_refused() {
        assert_eq!(requested_bytes(&[("Range", "bytes=10-")], 10), Err(416));
        assert_eq!(requested_bytes(&[("x-ms-range", "bytes=0-0")], 0), Err(416));
        assert_eq!(requested_bytes(&[("Range", "bytes=-5")], 10), Err(501));
        assert_eq!(requested_bytes(&[("Range", "bytes=0-1,3-4")], 10), Err(501));
        assert_eq!(requested_bytes(&[("Range", "bytes=4-2")], 10), Err(400));
        assert_eq!(requested_bytes(&[("Range", "lines=1-2")], 10), Err(400));
        assert_eq!(requested_bytes(&[("Range", "bytes=a-b")], 10), Err(400));
    }

    #[test]
    fn plain_headers_are_properties_except_the_disposition() {
        let property = |header: &str, name: &str| {
            let request = Request::new("PUT", "/").with(header, "x");
            Properties::from_request(&request).unwrap().get(name).map(str::to_owned)
        };
        for name in PROPERTIES.into_iter().filter(|name| *name != "Content-MD5") {
            let own_header = format!("x-ms-blob-{}", name.to_lowercase());
            assert_eq!(property(&own_header, name).as_deref(), Some("x"), "{name}");
            let is_stored = property(name, name).is_some();
            assert_eq!(is_stored, name != "Content-Disposition", "{name}");
        }
    }

    #[test]
    fn a_checksum_must_be_valid_and_match_the_body() {
        // RFC 1321, *Test suite*: MD5 of "abc".
        assert_eq!(md5_base64(b"abc"), "kAFQmDzST7DWlj99KOF/cg==");
        let check_header = |text| {
            let mut request = Request::new("PUT", "/").with("Content-MD5", text);
            request.body = "abc".into();
            check_md5(&request, "content-md5").map_err(|failure| failure.code)
        };
        assert_eq!(check_header("kAFQmDzST7DWlj99KOF/cg=="), Ok(()));
        assert_eq!(check_header("1B2M2Y8AsgTpgAmY7PhCfg=="), Err(Code::Md5Mismatch));
        assert_eq!(check_header("abc"), Err(Code::InvalidMd5));
        assert_eq!(check_header("YWJj"), Err(Code::InvalidMd5));
    }
}
