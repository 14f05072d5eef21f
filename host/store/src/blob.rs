//! A blob and a container as values: content, properties, metadata, lease.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use tenure_azure::encoding;

use super::checksum;
use super::code::Failure;
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

/// The checksum of the whole blob, also in the response to a range.
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
    /// missing, and so on. The store computes the checksum. A checksum from the client must be
    /// equal.
    pub(super) fn from_request(request: &Request) -> Result<Properties, Failure> {
        checksum::check(request, "content-md5")?;
        checksum::check(request, BLOB_MD5)?;
        let mut properties = vec![("Content-MD5", checksum::md5_base64(&request.body))];
        for name in PROPERTIES.into_iter().filter(|name| *name != "Content-MD5") {
            let blob_header = request.header(&format!("x-ms-blob-{name}"));
            properties
                .extend(blob_header.or(request.header(name)).map(|value| (name, value.to_owned())));
        }
        Ok(Properties(properties))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Content {
    /// Returns the content type, or the default.
    pub(super) fn content_type(&self) -> &str {
        self.properties.get("Content-Type").unwrap_or("application/octet-stream")
    }

    /// Returns the response to a read, with the present state of the lease. A HEAD gets the same
    /// without the body.
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
            // With a range, `Content-MD5` would be the checksum of that range.
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

/// Returns the headers that describe a blob's lease.
pub(super) fn lease_headers(
    lease: &Lease,
    now: Duration,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let state = lease.state(now);
    let duration =
        lease.is_infinite(now).map(|infinite| if infinite { "infinite" } else { "fixed" });
    [
        ("x-ms-lease-status", if state.is_locked() { "locked" } else { "unlocked" }),
        ("x-ms-lease-state", state.name()),
    ]
    .into_iter()
    .chain(duration.map(|duration| ("x-ms-lease-duration", duration)))
}

/// Returns a response without a body, with the ETag and the date of its target.
pub(super) fn with_etag(status: u16, etag: &str, modified: DateTime<Utc>) -> Response {
    Response::new(status)
        .with("ETag", etag)
        .with("Last-Modified", encoding::format_http_date(modified))
}
