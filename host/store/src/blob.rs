//! A blob and a container as values: content, properties, metadata, lease, snapshots.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use tenure_azure::http_date;

use super::checksum;
use super::code::{Code, Failure};
use super::headers::Metadata;
use super::lease::Lease;
use super::wire::{Request, Response};

/// Page blobs have no pages here, only a size, and are read as zeros; so the size has a limit (the service's is 8 TiB).
const MAX_PAGES: u64 = 4 * 1024 * 1024;

/// The properties that a client sets and gets back.
pub(super) const PROPERTIES: [&str; 6] = [
    "Content-Type",
    "Content-Encoding",
    "Content-Language",
    "Content-MD5",
    "Cache-Control",
    "Content-Disposition",
];

/// The checksum of the whole blob, whatever is sent of it.
const BLOB_MD5: &str = "x-ms-blob-content-md5";

/// The names of an account and of a container of it.
pub(super) type Place = (String, String);

/// A block that was put: its id as sent, and its bytes.
pub(super) type Block = (String, Bytes);

#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Container {
    pub(super) etag: String,
    pub(super) modified: DateTime<Utc>,
    pub(super) metadata: Metadata,
    pub(super) blobs: BTreeMap<String, Blob>,
    /// Blocks that are put and not yet in a blob, by the blob's name. The blob need not exist.
    pub(super) staged: BTreeMap<String, Vec<Block>>,
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
    /// The bytes, and the blocks that they were made of: ids and lengths, none after a Put Blob.
    Block(Bytes, Vec<(String, usize)>),
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
            Some("BlockBlob") => Ok(Body::Block(request.body.clone(), Vec::new())),
            Some("PageBlob") if !request.body.is_empty() => {
                let length = request.body.len().to_string();
                Err(Failure::header("content-length", &length))
            }
            Some("PageBlob") => {
                let text = request.header(SIZE).ok_or_else(|| Failure::missing(SIZE))?;
                match text.parse::<u64>() {
                    Ok(size) if size % 512 == 0 && size <= MAX_PAGES => Ok(Body::Pages(size)),
                    _ => Err(Failure::header(SIZE, text)),
                }
            }
            Some(other @ "AppendBlob") => Err(Failure::not_played(&format!("{KIND}: {other}"))),
            Some(other) => Err(Failure::header(KIND, other)),
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Body::Block(..) => "BlockBlob",
            Body::Pages(_) => "PageBlob",
        }
    }

    pub(super) fn length(&self) -> u64 {
        match self {
            Body::Block(bytes, _) => bytes.len() as u64,
            Body::Pages(size) => *size,
        }
    }

    fn bytes(&self) -> Bytes {
        match self {
            Body::Block(bytes, _) => bytes.clone(),
            Body::Pages(size) => Bytes::from(vec![0; *size as usize]),
        }
    }
}

impl Properties {
    /// Of a Put Blob: `x-ms-blob-content-type`, or `Content-Type` where that is missing. The checksum of the content is
    /// the service's own, which must be the client's where that gives one.
    pub(super) fn of_put(request: &Request, body: &Body) -> Result<Properties, Failure> {
        let mut properties = Properties::read(|name| {
            request.header(&format!("x-ms-blob-{name}")).or_else(|| request.header(name))
        });
        checksum::check(request, "content-md5", &request.body)?;
        checksum::check(request, BLOB_MD5, &request.body)?;
        properties.0.retain(|(name, _)| *name != "Content-MD5");
        if let Body::Block(bytes, _) = body {
            properties.0.push(("Content-MD5", checksum::of(bytes)));
        }
        Ok(properties)
    }

    /// Of a Set Blob Properties or a Put Block List: what is not named is cleared, and a checksum is taken on trust.
    pub(super) fn of_set(request: &Request) -> Result<Properties, Failure> {
        checksum::value(request, BLOB_MD5)?;
        Ok(Properties::read(|name| request.header(&format!("x-ms-blob-{name}"))))
    }

    fn read<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Properties {
        let found = |name: &'static str| value(name).map(|value| (name, value.to_owned()));
        Properties(PROPERTIES.into_iter().filter_map(found).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Content {
    /// Its type, or what is read as one.
    pub(super) fn kind(&self) -> &str {
        self.properties.get("Content-Type").unwrap_or("application/octet-stream")
    }

    /// The answer to a read, with the lease's state as of now. A HEAD gets the same without the body; `overrides`
    /// replace properties.
    pub(super) fn answer(
        &self,
        lease: &Lease,
        now: Duration,
        part: Part,
        overrides: &[(&'static str, String)],
    ) -> Response {
        let length = self.body.length();
        let status = if matches!(part, Part::Range { .. }) { 206 } else { 200 };
        let mut response = stamped(status, &self.etag, self.modified)
            .with("Accept-Ranges", "bytes")
            .with("x-ms-blob-type", self.body.kind())
            .with("x-ms-creation-time", http_date::format(self.created))
            .with("x-ms-server-encrypted", "true");
        for (name, value) in lease_headers(lease, now) {
            response = response.with(name, value);
        }
        for name in PROPERTIES {
            let overridden = overrides.iter().find(|(known, _)| *known == name);
            let value = match (overridden, name) {
                (Some((_, value)), _) => Some(value.as_str()),
                (None, "Content-Type") => Some(self.kind()),
                (None, name) => self.properties.get(name),
            };
            // Of a part it would be read as the checksum of that part.
            let name = if name == "Content-MD5" && status == 206 { BLOB_MD5 } else { name };
            response.headers.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        }
        for (name, value) in &self.metadata {
            response = response.with(&format!("x-ms-meta-{name}"), value.as_str());
        }
        match part {
            Part::Nothing => response.with("Content-Length", length.to_string()),
            Part::Whole => {
                response.body = self.body.bytes();
                response.with("Content-Length", length.to_string())
            }
            Part::Range { first, last, checked } => {
                response.body = self.body.bytes().slice(first as usize..=last as usize);
                let checksum = checked.then(|| checksum::of(&response.body));
                response.headers.extend(checksum.map(|md5| ("Content-MD5".to_owned(), md5)));
                response
                    .with("Content-Length", (last - first + 1).to_string())
                    .with("Content-Range", format!("bytes {first}-{last}/{length}"))
            }
        }
    }
}

/// What of a blob is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// No byte: a HEAD.
    Nothing,
    Whole,
    /// From the first byte to the last, both counted, perhaps with the checksum of this part.
    Range {
        first: u64,
        last: u64,
        checked: bool,
    },
}

/// What a blob's lease looks like from outside.
pub(super) fn lease_headers(
    lease: &Lease,
    now: Duration,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let state = lease.state(now);
    let duration = lease.infinite(now).map(|infinite| if infinite { "infinite" } else { "fixed" });
    [
        ("x-ms-lease-status", if state.locked() { "locked" } else { "unlocked" }),
        ("x-ms-lease-state", state.name()),
    ]
    .into_iter()
    .chain(duration.map(|duration| ("x-ms-lease-duration", duration)))
}

/// An answer without body that tells ETag and date of what it is about.
pub(super) fn stamped(status: u16, etag: &str, modified: DateTime<Utc>) -> Response {
    Response::new(status).with("ETag", etag).with("Last-Modified", http_date::format(modified))
}
