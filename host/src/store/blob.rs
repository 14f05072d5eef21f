//! A blob and a container as values: content, properties, metadata, lease, snapshots.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use tenure_guest::azure::http_date;

use super::code::{Code, Failure};
use super::headers::Metadata;
use super::lease::Lease;
use super::wire::{Request, Response};

/// Page blobs have no pages here, only a size, and are read as zeros; so the size has a limit (the service's is 8 TiB).
const MAX_PAGES: u64 = 4 * 1024 * 1024;

/// The properties that a client sets and gets back.
const PROPERTIES: [&str; 6] = [
    "Content-Type",
    "Content-Encoding",
    "Content-Language",
    "Content-MD5",
    "Cache-Control",
    "Content-Disposition",
];

#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Container {
    pub(super) etag: String,
    pub(super) modified: DateTime<Utc>,
    pub(super) metadata: Metadata,
    pub(super) blobs: BTreeMap<String, Blob>,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Blob {
    pub(super) current: Content,
    pub(super) lease: Lease,
    /// By the time that names them.
    pub(super) snapshots: BTreeMap<String, Content>,
}

/// What a blob or a snapshot of it holds.
#[derive(Clone, Debug, Hash)]
pub(super) struct Content {
    pub(super) body: Body,
    pub(super) properties: Properties,
    pub(super) metadata: Metadata,
    pub(super) etag: String,
    pub(super) created: DateTime<Utc>,
    pub(super) modified: DateTime<Utc>,
}

#[derive(Clone, Debug, Hash)]
pub(super) enum Body {
    Block(Bytes),
    Pages(u64),
}

#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Properties(Vec<(&'static str, String)>);

impl Body {
    /// Of a Put Blob.
    pub(super) fn read(request: &Request) -> Result<Body, Failure> {
        const KIND: &str = "x-ms-blob-type";
        const SIZE: &str = "x-ms-blob-content-length";
        match request.header(KIND) {
            None => Err(Failure::missing(KIND)),
            Some("BlockBlob") if request.header("content-length").is_none() => {
                Err(Code::MissingContentLengthHeader.into())
            }
            Some("BlockBlob") => Ok(Body::Block(request.body.clone())),
            Some("PageBlob") => {
                let text = request.header(SIZE).ok_or_else(|| Failure::missing(SIZE))?;
                match text.parse::<u64>() {
                    Ok(size) if size % 512 == 0 && size <= MAX_PAGES => Ok(Body::Pages(size)),
                    _ => Err(Failure::header(SIZE, text)),
                }
            }
            // Append blobs are real, and not played.
            Some(other) => Err(Failure::header(KIND, other)),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Body::Block(_) => "BlockBlob",
            Body::Pages(_) => "PageBlob",
        }
    }

    fn length(&self) -> u64 {
        match self {
            Body::Block(bytes) => bytes.len() as u64,
            Body::Pages(size) => *size,
        }
    }

    fn bytes(&self) -> Bytes {
        match self {
            Body::Block(bytes) => bytes.clone(),
            Body::Pages(size) => Bytes::from(vec![0; *size as usize]),
        }
    }
}

impl Properties {
    /// Of a Put Blob: `x-ms-blob-content-type`, or `Content-Type` where that is missing.
    pub(super) fn of_put(request: &Request) -> Properties {
        Properties::read(|name| {
            request.header(&format!("x-ms-blob-{name}")).or_else(|| request.header(name))
        })
    }

    /// Of a Set Blob Properties: what is not named is cleared.
    pub(super) fn of_set(request: &Request) -> Properties {
        Properties::read(|name| request.header(&format!("x-ms-blob-{name}")))
    }

    fn read<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Properties {
        let found = |name: &'static str| value(name).map(|value| (name, value.to_owned()));
        Properties(PROPERTIES.into_iter().filter_map(found).collect())
    }
}

impl Content {
    /// The answer to a read, with the lease's state as of now. A HEAD gets the same without the body.
    pub(super) fn answer(&self, lease: &Lease, now: Duration, head: bool) -> Response {
        let state = lease.state(now);
        let mut response = stamped(200, &self.etag, self.modified)
            .with("Content-Length", self.body.length().to_string())
            .with("Accept-Ranges", "bytes")
            .with("x-ms-blob-type", self.body.kind())
            .with("x-ms-creation-time", http_date::format(self.created))
            .with("x-ms-lease-status", if state.locked() { "locked" } else { "unlocked" })
            .with("x-ms-lease-state", state.name())
            .with("x-ms-server-encrypted", "true");
        if let Some(infinite) = lease.infinite(now) {
            response =
                response.with("x-ms-lease-duration", if infinite { "infinite" } else { "fixed" });
        }
        if !self.properties.0.iter().any(|(name, _)| *name == "Content-Type") {
            response = response.with("Content-Type", "application/octet-stream");
        }
        for (name, value) in &self.properties.0 {
            response = response.with(name, value.as_str());
        }
        for (name, value) in &self.metadata {
            response = response.with(&format!("x-ms-meta-{name}"), value.as_str());
        }
        if !head {
            response.body = self.body.bytes();
        }
        response
    }
}

/// An answer without body that tells ETag and date of what it is about.
pub(super) fn stamped(status: u16, etag: &str, modified: DateTime<Utc>) -> Response {
    Response::new(status).with("ETag", etag).with("Last-Modified", http_date::format(modified))
}
