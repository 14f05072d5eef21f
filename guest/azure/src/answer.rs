//! The service's answers, reduced to the few cases that a decision needs (protocol.md §3: status
//! first, code second), and the pages of its lists.
//!
//! Anything can arrive: an answer of the service, of Azurite (bare 400 and 500), or a proxy's page.
//! Parsing never fails; an answer that makes no sense is [`Class::Nonsense`].

use core::time::Duration;

use chrono::{DateTime, Utc};
use roxmltree::{Document, Node};

use super::blob::{LeaseId, Metadata};
use super::encoding;
use super::operation::{ETag, Operation};
use tenure_base::prelude::*;
use tenure_base::text::cut;

/// The relevant parts of one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// `x-ms-error-code`, if it has the form of a code.
    pub code: Option<String>,
    /// The class of the answer.
    pub class: Class,
    /// `Date`: the time of the answer, by the service's clock, in whole seconds. Ignored without an
    /// `x-ms-request-id`: a proxy's page must not set our clock.
    pub date: Option<DateTime<Utc>>,
    /// `Last-Modified`: time of the last write of the blob, by the service's clock, in whole
    /// seconds.
    pub last_modified: Option<DateTime<Utc>>,
    /// The blob's ETag.
    pub etag: Option<ETag>,
    /// `x-ms-lease-id`: the current lease id. A renewal succeeded only if this is the id that was
    /// sent: Azurite also renews another holder's lease, and answers with that holder's id.
    pub lease: Option<LeaseId>,
    /// `x-ms-lease-time`: seconds until the break period ends, approximately.
    pub lease_time: Option<u32>,
    /// The properties of a successful read, including a read of the content.
    pub properties: Option<Properties>,
    /// True if the answer has an `x-ms-version-id`: the account keeps every version of a blob.
    pub has_version_id: bool,
    /// The service's reason for a refusal, if the answer has more than a code.
    pub detail: Option<String>,
    /// The page of a successful list.
    pub page: Option<Page>,
}

/// The properties of the blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// The lease's state.
    pub lease: LeaseState,
    /// Length of the content in bytes; also 0 if the answer does not state it.
    pub content_length: u64,
    /// `x-ms-meta-*`: names in lower case without the prefix, and values. Bytes that are not
    /// UTF-8 are replaced by U+FFFD.
    pub metadata: Metadata,
}

/// The state of a lease: `x-ms-lease-state` (REST: *Lease Blob*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// Free: it can be acquired.
    Available,
    /// Held, and expires unless it is renewed.
    Leased,
    /// Held without an end (`x-ms-lease-duration: infinite`). No candidate acquires such a lease.
    Infinite,
    /// Its period ended without a renewal: it can be acquired.
    Expired,
    /// Broken, and the break period still runs: it cannot be acquired yet.
    Breaking,
    /// Broken, and the break period is over: it can be acquired.
    Broken,
}

/// The class of an answer. Every answer has exactly one class. It depends on the operation and the
/// status, for some statuses also on the code, and for a success on the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The expected status with all required content.
    Done,
    /// 404: the blob does not exist. For an operation that needs a blob, a 404 without the code
    /// `ContainerNotFound` counts as this.
    MissingBlob,
    /// 404: the container does not exist.
    MissingContainer,
    /// 409: the state of the lease (or of the container) forbids the operation; the code has the
    /// reason.
    Conflict,
    /// 412 `ConditionNotMet`: the blob was written since it was read. 304: its content is
    /// unchanged.
    ConditionNotMet,
    /// 412 for any other reason: the lease differs from that in the request.
    LeaseMismatch,
    /// 400, 401, 403, every other 4xx, and 404 of *Create Container*: configuration, key,
    /// permission or clock.
    Refused,
    /// 408, 429 and 5xx: the request may have been applied; retry.
    Unavailable,
    /// A success without its required content, another success, 1xx, other 3xx: the request may
    /// have been applied.
    Nonsense,
}

impl Answer {
    /// Parses the answer to an operation. Header names match in any case. Of repeated headers the
    /// first counts. Values that are not UTF-8 are ignored, except in metadata.
    pub fn from_parts(operation: &Operation, status: u16, headers: &[(String, Vec<u8>)]) -> Answer {
        let headers = Headers(headers);
        let code = headers.get("x-ms-error-code").filter(|code| is_code(code)).map(String::from);
        let etag = headers.get("etag").and_then(ETag::parse);
        let lease = headers.get("x-ms-lease-id").and_then(LeaseId::parse);
        let properties = match operation {
            Operation::Read { .. } | Operation::ReadSideBlob(_) | Operation::ReadContent { .. }
                if status == 200 && etag.is_some() =>
            {
                headers.properties()
            }
            _ => None,
        };
        let is_complete = match operation {
            Operation::Read { .. } | Operation::ReadSideBlob(_) | Operation::ReadContent { .. } => {
                properties.is_some()
            }
            Operation::Acquire { .. } | Operation::Renew { .. } | Operation::Change { .. } => {
                lease.is_some()
            }
            Operation::CreateBlob
            | Operation::WriteMetadata { .. }
            | Operation::WriteSideBlob { .. }
            | Operation::WriteContent { .. } => etag.is_some(),
            Operation::CreateContainer | Operation::Release { .. } | Operation::Break { .. } => {
                true
            }
            Operation::Delete { .. } | Operation::ReadAccount | Operation::List { .. } => true,
        };
        Answer {
            status,
            class: classify(operation, status, code.as_deref(), is_complete),
            date: headers
                .get("x-ms-request-id")
                .and(headers.get("date"))
                .and_then(encoding::parse_http_date),
            last_modified: headers.get("last-modified").and_then(encoding::parse_http_date),
            has_version_id: headers.get("x-ms-version-id").is_some(),
            lease_time: headers.get("x-ms-lease-time").and_then(|seconds| seconds.parse().ok()),
            code,
            etag,
            lease,
            properties,
            detail: headers.challenge().filter(|_| status == 401).map(String::from),
            page: None,
        }
    }

    /// Adds the service's reason from the body of an authentication error (REST: *Status and error
    /// codes*). Other errors give no reason.
    #[must_use]
    pub fn with_body(mut self, body: &[u8]) -> Answer {
        if self.status >= 400 {
            self.detail = error_detail(body).or(self.detail);
        }
        self
    }

    /// Adds the page of a list from the body of a success.
    #[must_use]
    pub fn with_page(mut self, body: &[u8]) -> Answer {
        if self.class == Class::Done {
            self.page = Page::parse(body, self.date);
        }
        self
    }
}

/// Maximum characters of the service's text in a message.
const MAX_DETAIL: usize = 300;

/// Returns the detail of an authentication error, in one line. Other errors give none.
///
/// Texts about a signature are left out: they quote everything that was signed, including lease
/// ids.
fn error_detail(body: &[u8]) -> Option<String> {
    let text = core::str::from_utf8(body).ok()?;
    let (_, rest) = cut(text, "<AuthenticationErrorDetail>")?;
    let (detail, _) = cut(rest, "</AuthenticationErrorDetail>")?;
    // The text has "string to sign" for a key, and "String to sign" for a SAS.
    if cut(detail, "tring to sign").is_some() {
        return None;
    }
    // Drops the current time from the text about an expired SAS. With it, the same problem would
    // look new each second.
    let detail = cut(detail, " - Current [").map_or(detail, |(detail, _)| detail);
    let line: String = detail.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line: String = line.trim().chars().take(MAX_DETAIL).collect();
    (!line.is_empty()).then_some(line)
}

fn classify(operation: &Operation, status: u16, code: Option<&str>, is_complete: bool) -> Class {
    if status == expected_status(operation) && is_complete {
        return Class::Done;
    }
    match status {
        304 if matches!(operation, Operation::ReadContent { if_none_match: Some(_) }) => {
            Class::ConditionNotMet
        }
        404 => match operation {
            // The account itself is missing, which an election cannot create.
            Operation::CreateContainer => Class::Refused,
            // Asked at the container's address.
            Operation::ReadAccount => Class::MissingContainer,
            // Put Blob needs only the container.
            Operation::CreateBlob
            | Operation::WriteSideBlob { .. }
            | Operation::WriteContent { .. }
            | Operation::List { .. } => Class::MissingContainer,
            _ if code == Some("ContainerNotFound") => Class::MissingContainer,
            _ => Class::MissingBlob,
        },
        409 => Class::Conflict,
        412 if code == Some("ConditionNotMet") => Class::ConditionNotMet,
        412 => Class::LeaseMismatch,
        408 | 429 | 500..=599 => Class::Unavailable,
        400..=499 => Class::Refused,
        _ => Class::Nonsense,
    }
}

fn expected_status(operation: &Operation) -> u16 {
    match operation {
        Operation::CreateContainer
        | Operation::CreateBlob
        | Operation::Acquire { .. }
        | Operation::WriteSideBlob { .. }
        | Operation::WriteContent { .. } => 201,
        Operation::Break { .. } => 202,
        Operation::Delete { .. } => 202,
        Operation::ReadAccount => 200,
        Operation::Read { .. }
        | Operation::ReadSideBlob(_)
        | Operation::ReadContent { .. }
        | Operation::List { .. }
        | Operation::Renew { .. }
        | Operation::Change { .. }
        | Operation::Release { .. }
        | Operation::WriteMetadata { .. } => 200,
    }
}

/// Returns true if the text has the form of a code. Other texts are not logged.
fn is_code(code: &str) -> bool {
    (1..=80).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

struct Headers<'a>(&'a [(String, Vec<u8>)]);

impl<'a> Headers<'a> {
    fn get(&self, header_name: &str) -> Option<&'a str> {
        let (_, value) = self.0.iter().find(|(name, _)| name.eq_ignore_ascii_case(header_name))?;
        core::str::from_utf8(value).ok().map(str::trim)
    }

    /// Returns the service's challenge, which names the tenant whose tokens it accepts:
    /// `Bearer authorization_uri=... resource_id=...`.
    fn challenge(&self) -> Option<&'a str> {
        let is_printable = |c: char| c.is_ascii_graphic() || c == ' ';
        self.get("www-authenticate").filter(|challenge| {
            challenge.starts_with("Bearer ")
                && challenge.len() <= MAX_DETAIL
                && challenge.chars().all(is_printable)
        })
    }

    fn properties(&self) -> Option<Properties> {
        let lease_duration = self.get("x-ms-lease-duration");
        let is_infinite =
            lease_duration.is_some_and(|duration| duration.eq_ignore_ascii_case("infinite"));
        let lease = match lease_state(self.get("x-ms-lease-state")?)? {
            LeaseState::Leased if is_infinite => LeaseState::Infinite,
            lease => lease,
        };
        let content_length = match self.get("content-length") {
            Some(length) => length.parse().ok()?,
            None => 0,
        };
        Some(Properties { lease, content_length, metadata: self.metadata() })
    }

    fn metadata(&self) -> Metadata {
        const PREFIX: &str = "x-ms-meta-";
        let mut metadata = Metadata::default();
        for (name, value) in self.0 {
            let Some((prefix, name)) = name.split_at_checked(PREFIX.len()) else { continue };
            if !prefix.eq_ignore_ascii_case(PREFIX) {
                continue;
            }
            let name = name.to_ascii_lowercase();
            if metadata.get(&name).is_none() {
                metadata.insert(name, String::from_utf8_lossy(value).into_owned());
            }
        }
        metadata
    }
}

fn lease_state(text: &str) -> Option<LeaseState> {
    let states = [
        ("available", LeaseState::Available),
        ("leased", LeaseState::Leased),
        ("expired", LeaseState::Expired),
        ("breaking", LeaseState::Breaking),
        ("broken", LeaseState::Broken),
    ];
    states.into_iter().find(|(name, _)| text.eq_ignore_ascii_case(name)).map(|(_, state)| state)
}

/// One page of a list of blobs, in the service's XML (REST: *List Blobs*).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The blobs, in the order of their names.
    pub blobs: Vec<Entry>,
    /// Start of the next page, if there is one.
    pub next: Option<String>,
}

/// A blob in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The blob's name inside the container.
    pub name: String,
    /// The blob's ETag, in the same form as in an answer about the blob itself.
    pub etag: ETag,
    /// Time between the blob's last write and the answer, by the service's clock, in whole seconds.
    /// Zero if the answer does not state it.
    pub age: Duration,
    /// True if the blob's lease is held, or if the answer does not state that it is free.
    pub leased: bool,
    /// The blob's metadata; names in lower case.
    pub metadata: Metadata,
}

impl Page {
    /// Parses the body of an answer; `date` is the answer's. Returns `None` if the body is not a
    /// page, or if it is incomplete.
    pub fn parse(body: &[u8], date: Option<DateTime<Utc>>) -> Option<Self> {
        let text = core::str::from_utf8(body).ok()?;
        let document = Document::parse(text.trim_start_matches('\u{feff}')).ok()?;
        let root = document.root_element();
        if root.tag_name().name() != "EnumerationResults" {
            return None;
        }
        let blobs = child(root, "Blobs")?.children().filter(|node| node.has_tag_name("Blob"));
        let next = child(root, "NextMarker").map(node_text).filter(|marker| !marker.is_empty());
        let blobs = blobs.map(|blob| Entry::parse(blob, date)).collect::<Option<_>>()?;
        Some(Self { blobs, next })
    }
}

impl Entry {
    fn parse(blob: Node<'_, '_>, date: Option<DateTime<Utc>>) -> Option<Self> {
        let name = child(blob, "Name")?;
        let encoded = name.attribute("Encoded").is_some_and(|value| value == "true");
        let name =
            if encoded { encoding::percent_decode_text(&node_text(name)) } else { node_text(name) };
        let properties = child(blob, "Properties")?;
        let modified = child(properties, "Last-Modified").map(node_text);
        let modified = modified.and_then(|modified| encoding::parse_http_date(&modified));
        let age =
            date.zip(modified).map(|(date, modified)| date.timestamp() - modified.timestamp());
        let age = age.and_then(|seconds| u64::try_from(seconds).ok());
        let etag = node_text(child(properties, "Etag")?);
        // A list states ETags without quotes.
        let etag = ETag::parse(&format!("\"{}\"", etag.trim_matches('"')))?;
        let state = child(properties, "LeaseState").map(node_text);
        let free_states = ["available", "expired", "broken"];
        let leased = !state.is_some_and(|state| free_states.contains(&state.as_str()));
        let metadata =
            child(blob, "Metadata").into_iter().flat_map(|metadata_node| metadata_node.children());
        let metadata = metadata.filter(|node| node.is_element());
        let metadata =
            metadata.map(|field| (field.tag_name().name().to_ascii_lowercase(), node_text(field)));
        Some(Self {
            name,
            etag,
            age: Duration::from_secs(age.unwrap_or(0)),
            leased,
            metadata: metadata.collect(),
        })
    }
}

fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.children().find(|child| child.has_tag_name(name))
}

fn node_text(node: Node<'_, '_>) -> String {
    node.text().unwrap_or_default().into()
}

#[cfg(test)]
mod listing_tests;
#[cfg(test)]
mod tests;
