//! What the service answered, read into the few cases that a decision needs (protocol.md §3:
//! status first, code second).
//!
//! Anything can come back: an answer of the service, of Azurite (bare 400 and 500), or the page of
//! a proxy. Reading never fails; what makes no sense is [`Class::Nonsense`].

use chrono::{DateTime, Utc};

use super::http_date;
use super::lease_id::LeaseId;
use super::listing::Page;
use super::metadata::Metadata;
use super::operation::{ETag, Operation};
use tenure_base::prelude::*;
use tenure_base::text::cut;

/// One answer, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// `x-ms-error-code`, when it looks like one.
    pub code: Option<String>,
    /// What the answer comes to.
    pub class: Class,
    /// The service's clock when it answered, in whole seconds. Only believed beside an
    /// `x-ms-request-id`: a proxy's page must not set our clock.
    pub date: Option<DateTime<Utc>>,
    /// `Last-Modified`: when the blob was written last, by the service's clock, in whole seconds.
    pub last_modified: Option<DateTime<Utc>>,
    /// The blob's ETag.
    pub etag: Option<ETag>,
    /// `x-ms-lease-id`: who holds the lease now. Only when it is ours is a lease operation a
    /// success (Azurite renews for anybody).
    pub lease: Option<LeaseId>,
    /// `x-ms-lease-time`: seconds until a broken lease ends, approximately.
    pub lease_time: Option<u32>,
    /// What was seen; only of a read that is done, of the content too.
    pub properties: Option<Properties>,
    /// `x-ms-version-id`: the account keeps every version of a blob.
    pub has_version_id: bool,
    /// Why a request was refused, in the service's words, when its answer says more than a code.
    pub detail: Option<String>,
    /// The page of a list that is done.
    pub page: Option<Page>,
}

/// What a read shows of the blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// The lease's state.
    pub lease: LeaseState,
    /// The length of the content in bytes; 0 too when the answer does not say it.
    pub content_length: u64,
    /// `x-ms-meta-*`: names in lower case without the prefix, values as they came.
    pub metadata: Metadata,
}

/// `x-ms-lease-state` (REST: *Lease Blob*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// Nobody holds a lease: acquire.
    Available,
    /// Held, and ends unless it is renewed.
    Leased,
    /// Held without an end (`x-ms-lease-duration: infinite`). No candidate acquires such a lease.
    Infinite,
    /// Its period ended without renewal: acquire.
    Expired,
    /// Broken, and the break period still runs: wait.
    Breaking,
    /// Broken for good: acquire.
    Broken,
}

/// What an answer comes to. Every status belongs to exactly one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The expected status with everything it must carry.
    Done,
    /// 404: the blob does not exist, as far as one can tell.
    MissingBlob,
    /// 404: the container does not exist.
    MissingContainer,
    /// 409: the lease's (or the container's) state forbids it; the code tells why.
    Conflict,
    /// 412 `ConditionNotMet`: the blob was written since it was seen. 304: its content is still what was seen.
    ConditionNotMet,
    /// 412 for any other reason: the lease is not what the request said.
    LeaseMismatch,
    /// 400, 401, 403 and every other 4xx: configuration, key, permission or clock.
    Refused,
    /// 408, 429 and 5xx: unknown whether it was applied; ask again.
    Unavailable,
    /// A success without what it must carry, another success, 1xx, 3xx: unknown whether it was
    /// applied.
    Nonsense,
}

impl Answer {
    /// Reads the answer to an operation. Header names count in any case; of repeated headers the
    /// first one; values that are no UTF-8 are not there.
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
                .and_then(http_date::parse),
            last_modified: headers.get("last-modified").and_then(http_date::parse),
            has_version_id: headers.get("x-ms-version-id").is_some(),
            lease_time: headers.get("x-ms-lease-time").and_then(|seconds| seconds.parse().ok()),
            code,
            etag,
            lease,
            properties,
            detail: headers.expected_identity().filter(|_| status == 401),
            page: None,
        }
    }

    /// Reads the body too: that of an error says why, where there is one (REST: *Status and error
    /// codes*).
    #[must_use]
    pub fn with_body(mut self, body: &[u8]) -> Answer {
        if self.status >= 400 {
            self.detail = error_detail(body).or(self.detail);
        }
        self
    }

    /// Reads the page of a list from the body.
    #[must_use]
    pub fn with_page(mut self, body: &[u8]) -> Answer {
        if self.class == Class::Done {
            self.page = Page::parse(body, self.date);
        }
        self
    }
}

/// Of what the service says no more is shown.
const MAX_DETAIL: usize = 300;

/// What an error says beside its code, in one line.
///
/// Not what it says of a signature: it quotes all that was signed, lease ids too.
fn error_detail(body: &[u8]) -> Option<String> {
    let text = core::str::from_utf8(body).ok()?;
    let (_, rest) = cut(text, "<AuthenticationErrorDetail>")?;
    let (detail, _) = cut(rest, "</AuthenticationErrorDetail>")?;
    // "string to sign" of a key, "String to sign" of a SAS.
    if cut(detail, "tring to sign").is_some() {
        return None;
    }
    // The time of an expired SAS: with it, the same problem would be another one each second.
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
            // Not even the account is there; nothing that an election could create.
            Operation::CreateContainer => Class::Refused,
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

/// Codes are words; anything longer or stranger stays out of logs.
fn is_code(code: &str) -> bool {
    (1..=80).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

struct Headers<'a>(&'a [(String, Vec<u8>)]);

impl<'a> Headers<'a> {
    fn get(&self, header_name: &str) -> Option<&'a str> {
        let (_, value) = self.0.iter().find(|(name, _)| name.eq_ignore_ascii_case(header_name))?;
        core::str::from_utf8(value).ok().map(str::trim)
    }

    /// Whose tokens the service wants: `Bearer authorization_uri=... resource_id=...`.
    fn expected_identity(&self) -> Option<String> {
        let challenge = self.get("www-authenticate")?;
        let is_printable = |c: char| c.is_ascii_graphic() || c == ' ';
        (challenge.starts_with("Bearer ")
            && challenge.len() <= MAX_DETAIL
            && challenge.chars().all(is_printable))
        .then(|| format!("it expects: {challenge}"))
    }

    fn properties(&self) -> Option<Properties> {
        let lease_duration = self.get("x-ms-lease-duration");
        let is_infinite = lease_duration.is_some_and(|duration| duration.eq_ignore_ascii_case("infinite"));
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

#[cfg(test)]
mod tests;
