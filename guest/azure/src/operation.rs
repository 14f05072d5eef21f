//! Operations of an election on the Blob service.

use super::account::Account;
use super::blob::{BlobName, LeaseId, Metadata, SideBlob};
use super::credential::Authorization;
use super::encoding;
use super::request::{Method, Request};
use super::secret::Secret;
use super::shared_key::{self, decoded_query, string_to_sign};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tenure_base::prelude::*;

/// The version of the service's API that every request states (`x-ms-version`). All versions of
/// Azurite in use support it.
pub const API_VERSION: &str = "2021-12-02";

/// The ETag of a blob, which identifies one version of its content and metadata. Has the service's
/// form, with quotes. Lease operations do not change it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ETag(pub String);

impl ETag {
    /// Returns the tag if a header can carry it: later requests send it in `If-Match`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_header_safe = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_header_safe.then(|| Self(text.into()))
    }
}

/// One request to the service. [`super::answer::Answer::from_parts`] decides which answers are
/// successful.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// *Get Blob Properties* (HEAD): lease state, record and ETag from one answer (protocol.md
    /// §4.1).
    Read {
        /// With an id, the service answers 412 unless it is the current lease id.
        lease: Option<LeaseId>,
    },
    /// *Create Container*.
    CreateContainer,
    /// *Put Blob*: creates an empty block blob, only if there is none (`If-None-Match: *`).
    CreateBlob,
    /// *Lease Blob*, acquire (protocol.md §4.2). Repeating the same request is safe.
    Acquire {
        /// The lease id of this attempt.
        lease: LeaseId,
        /// Period of the lease: 15 to 60 seconds.
        seconds: u32,
        /// Acquire only if the blob still has this version.
        if_match: Option<ETag>,
    },
    /// *Lease Blob*, renew (protocol.md §5). Repeating the same request is safe.
    Renew {
        /// The current lease id.
        lease: LeaseId,
    },
    /// *Lease Blob*, change (protocol.md §7.2): gives the lease another id, without a new period.
    Change {
        /// The current lease id.
        lease: LeaseId,
        /// The successor's lease id.
        proposed: LeaseId,
    },
    /// *Lease Blob*, release (protocol.md §7.1). A repeated release gets 409.
    Release {
        /// The current lease id.
        lease: LeaseId,
    },
    /// *Lease Blob*, break: ends any holder's lease. For operators, and for a follower of a leader
    /// whose promise has ended (protocol.md §13).
    Break {
        /// Seconds (0 to 60) until the lease ends. The lease ends no later than without the break.
        /// `None`: it ends when it would end without the break.
        period: Option<u32>,
        /// Break only if the blob still has this version.
        if_match: Option<ETag>,
    },
    /// *Set Blob Metadata*: replaces the whole record (protocol.md §4.3 and §6).
    WriteMetadata {
        /// The current lease id.
        lease: LeaseId,
        /// The version that this record replaces.
        if_match: ETag,
        /// Names (lower-case letters only, protocol.md §9) and values (printable ASCII).
        metadata: Metadata,
    },
    /// *Get Blob Properties* (HEAD) of a side blob.
    ReadSideBlob(SideBlob),
    /// *Put Blob*: writes an empty block blob with metadata as a side blob. It overwrites only the
    /// version in `replaces`.
    WriteSideBlob {
        /// The side blob.
        blob: SideBlob,
        /// The version to replace. `None`: write only if there is no blob (`If-None-Match: *`).
        replaces: Option<ETag>,
        /// Names and values, in the same form as in a record.
        metadata: Metadata,
    },
    /// *Delete Blob*: deletes the test blob of `tenure check`, or a blob of a member for shares
    /// (protocol.md §14), such as its sign of life. The election protocol deletes nothing.
    Delete {
        /// The current lease id, if the blob is leased.
        lease: Option<LeaseId>,
        /// Delete only if the blob still has this version.
        if_match: Option<ETag>,
    },
    /// *Get Blob*: reads the content of the blob.
    ReadContent {
        /// Skip the content if the blob still has this version.
        if_none_match: Option<ETag>,
    },
    /// *Put Blob*: writes a block blob with content and metadata.
    WriteContent {
        /// Condition on the existing blob.
        condition: WriteCondition,
        /// The complete content.
        content: String,
        /// Names and values, in the same form as in a record.
        metadata: Metadata,
    },
    /// *List Blobs* of the container, with metadata: one page.
    List {
        /// Common prefix of the names.
        prefix: String,
        /// Start of the page, from the previous page. `None`: the first page.
        marker: Option<String>,
    },
    /// *Get Account Information* (HEAD), for the container.
    ReadAccount,
}

/// The condition of a write on the existing blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteCondition {
    /// Overwrite any version.
    Unconditional,
    /// Write only if there is no blob (`If-None-Match: *`).
    IfAbsent,
    /// Overwrite this version only (`If-Match`).
    IfMatch(ETag),
}

/// Maximum blobs in one page of a list. The limit keeps answers small, since each is read as a
/// whole. The metadata of a blob may have 8 KiB, but blobs next to an election's have less.
pub const PAGE: usize = 1000;

/// Maximum blobs in one page of a list of the whole container. Their metadata fits into 4 MiB.
const CONTAINER_PAGE: usize = 400;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads the blob of an election: its lease and its record.
    ReadBlob,
    /// Creates the container.
    CreateContainer,
    /// Creates the blob of an election.
    CreateBlob,
    /// Acquires the lease.
    AcquireLease,
    /// Renews the lease.
    RenewLease,
    /// Changes the lease id to that of a successor.
    ChangeLease,
    /// Releases the lease.
    ReleaseLease,
    /// Breaks the lease.
    BreakLease,
    /// Writes the record.
    WriteRecord,
    /// Reads the announcement of a successor.
    ReadAnnouncement,
    /// Writes the announcement of a successor.
    Announce,
    /// Reads the list of candidates.
    ReadCandidates,
    /// Writes the list of candidates.
    WriteCandidates,
    /// Reads the orders of operators.
    ReadOrders,
    /// Writes an order.
    WriteOrders,
    /// Deletes a blob.
    DeleteBlob,
    /// Reads the kind of the account.
    ReadAccount,
    /// Reads the content of a blob.
    ReadContent,
    /// Writes the content of a blob.
    WriteContent,
    /// Lists blobs.
    ListBlobs,
    /// Requests a token from an identity endpoint or Entra.
    RequestToken,
}

impl Kind {
    /// Returns true if the request reads or writes a [`SideBlob`].
    #[must_use]
    pub fn is_side_blob_request(self) -> bool {
        matches!(
            self,
            Self::ReadAnnouncement
                | Self::Announce
                | Self::ReadCandidates
                | Self::WriteCandidates
                | Self::ReadOrders
                | Self::WriteOrders
        )
    }

    /// Returns the name of the kind for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadBlob => "read blob",
            Self::CreateContainer => "create container",
            Self::CreateBlob => "create blob",
            Self::AcquireLease => "acquire lease",
            Self::RenewLease => "renew lease",
            Self::ChangeLease => "change lease",
            Self::ReleaseLease => "release lease",
            Self::BreakLease => "break lease",
            Self::WriteRecord => "write record",
            Self::ReadAnnouncement => "read announcement",
            Self::Announce => "announce",
            Self::ReadCandidates => "read candidates",
            Self::WriteCandidates => "write candidates",
            Self::ReadOrders => "read orders",
            Self::WriteOrders => "write orders",
            Self::DeleteBlob => "delete blob",
            Self::ReadAccount => "read account",
            Self::ReadContent => "read content",
            Self::WriteContent => "write content",
            Self::ListBlobs => "list blobs",
            Self::RequestToken => "request a token",
        }
    }
}

impl Operation {
    /// Returns the kind of request.
    pub fn kind(&self) -> Kind {
        match self {
            Operation::Read { .. } => Kind::ReadBlob,
            Operation::CreateContainer => Kind::CreateContainer,
            Operation::CreateBlob => Kind::CreateBlob,
            Operation::Acquire { .. } => Kind::AcquireLease,
            Operation::Renew { .. } => Kind::RenewLease,
            Operation::Change { .. } => Kind::ChangeLease,
            Operation::Release { .. } => Kind::ReleaseLease,
            Operation::Break { .. } => Kind::BreakLease,
            Operation::WriteMetadata { .. } => Kind::WriteRecord,
            Operation::ReadSideBlob(SideBlob::Successor) => Kind::ReadAnnouncement,
            Operation::ReadSideBlob(SideBlob::Candidates) => Kind::ReadCandidates,
            Operation::ReadSideBlob(SideBlob::Orders) => Kind::ReadOrders,
            Operation::WriteSideBlob { blob: SideBlob::Successor, .. } => Kind::Announce,
            Operation::WriteSideBlob { blob: SideBlob::Candidates, .. } => Kind::WriteCandidates,
            Operation::WriteSideBlob { blob: SideBlob::Orders, .. } => Kind::WriteOrders,
            Operation::Delete { .. } => Kind::DeleteBlob,
            Operation::ReadAccount => Kind::ReadAccount,
            Operation::ReadContent { .. } => Kind::ReadContent,
            Operation::WriteContent { .. } => Kind::WriteContent,
            Operation::List { .. } => Kind::ListBlobs,
        }
    }

    /// Returns the name of the operation for messages.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// Returns the request with its authorisation.
    ///
    /// `date` is the current time by the service's clock, as far as it is known: the service
    /// refuses a signed request that is 15 minutes old. `timeout_seconds` (at least 1) makes the
    /// service give up in time, so that an abandoned request is not applied late.
    pub fn request(
        &self,
        account: &Account,
        blob: &BlobName,
        date: DateTime<Utc>,
        timeout_seconds: u32,
        authorization: Authorization<'_>,
    ) -> Request {
        let (method, path) = match self {
            Operation::Read { .. } => (Method::Head, blob.path()),
            Operation::CreateContainer => (Method::Put, blob.container_path()),
            Operation::ReadSideBlob(side_blob) => (Method::Head, blob.side_blob_path(*side_blob)),
            Operation::WriteSideBlob { blob: side_blob, .. } => {
                (Method::Put, blob.side_blob_path(*side_blob))
            }
            Operation::Delete { .. } => (Method::Delete, blob.path()),
            Operation::ReadAccount => (Method::Head, blob.container_path()),
            Operation::ReadContent { .. } => (Method::Get, blob.path()),
            Operation::List { .. } => (Method::Get, blob.container_path()),
            _ => (Method::Put, blob.path()),
        };
        let path = account.prefix().to_string() + &path;
        let query = format!("{}timeout={}", self.query(), timeout_seconds.max(1));

        let mut headers = Headers(Vec::with_capacity(12));
        // Only a signature needs the date; a SAS and a token state their own validity.
        if matches!(authorization, Authorization::SharedKey(_)) {
            headers.add("x-ms-date", &encoding::format_http_date(date));
        }
        headers.add("x-ms-version", API_VERSION);
        if method == Method::Put {
            headers.add("content-length", &self.content().len().to_string());
        }
        self.add_headers(&mut headers);
        let Headers(mut headers) = headers;

        let mut path_and_query = path.clone() + "?" + &query;
        match authorization {
            Authorization::SharedKey(key) => {
                let (method, query) = (method.as_str(), decoded_query(&query));
                let text = string_to_sign(method, &path, &query, &headers, account.name());
                headers.push((
                    "authorization".into(),
                    shared_key::authorization(account.name(), key, &text),
                ));
            }
            Authorization::Sas(sas) => {
                path_and_query.push('&');
                path_and_query.push_str(sas.query());
            }
            Authorization::Bearer(token) => {
                headers.push(("authorization".into(), "Bearer ".to_string() + token.reveal()));
            }
            Authorization::Nothing => {}
        }
        let (origin, body) = (account.origin().into(), Secret::from(self.content()));
        Request { method, origin, path_and_query, headers, body }
    }

    fn content(&self) -> &str {
        match self {
            Operation::WriteContent { content, .. } => content,
            _ => "",
        }
    }

    fn query(&self) -> String {
        let query = match self {
            Operation::Read { .. }
            | Operation::CreateBlob
            | Operation::ReadSideBlob(_)
            | Operation::WriteSideBlob { .. }
            | Operation::ReadContent { .. }
            | Operation::WriteContent { .. }
            | Operation::Delete { .. } => "",
            Operation::List { prefix, marker } => {
                let page = if prefix.is_empty() { CONTAINER_PAGE } else { PAGE };
                let mut query = format!(
                    "restype=container&comp=list&include=metadata&maxresults={page}&prefix={}&",
                    encoding::percent_encode(prefix, encoding::EXCEPT_UNRESERVED)
                );
                if let Some(marker) = marker {
                    query += &format!(
                        "marker={}&",
                        encoding::percent_encode(marker, encoding::EXCEPT_UNRESERVED)
                    );
                }
                return query;
            }
            Operation::ReadAccount => "restype=account&comp=properties&",
            Operation::CreateContainer => "restype=container&",
            Operation::WriteMetadata { .. } => "comp=metadata&",
            Operation::Acquire { .. }
            | Operation::Renew { .. }
            | Operation::Change { .. }
            | Operation::Release { .. }
            | Operation::Break { .. } => "comp=lease&",
        };
        query.into()
    }

    fn add_headers(&self, headers: &mut Headers) {
        const ACTION: &str = "x-ms-lease-action";
        const LEASE: &str = "x-ms-lease-id";
        const PROPOSED: &str = "x-ms-proposed-lease-id";
        const IF_MATCH: &str = "if-match";
        const IF_NONE_MATCH: &str = "if-none-match";
        const BLOB_TYPE: (&str, &str) = ("x-ms-blob-type", "BlockBlob");
        match self {
            Operation::ReadAccount | Operation::List { .. } => {}
            Operation::Delete { lease, if_match } => {
                if let Some(lease) = lease {
                    headers.add(LEASE, &lease.to_string());
                }
                if let Some(ETag(etag)) = if_match {
                    headers.add(IF_MATCH, etag);
                }
            }
            Operation::ReadContent { if_none_match } => {
                if let Some(ETag(etag)) = if_none_match {
                    headers.add(IF_NONE_MATCH, etag);
                }
            }
            Operation::WriteContent { condition, metadata, .. } => {
                headers.add(BLOB_TYPE.0, BLOB_TYPE.1);
                match condition {
                    WriteCondition::Unconditional => {}
                    WriteCondition::IfAbsent => headers.add(IF_NONE_MATCH, "*"),
                    WriteCondition::IfMatch(ETag(etag)) => headers.add(IF_MATCH, etag),
                }
                headers.add_all(metadata);
            }
            Operation::Read { lease } => {
                if let Some(lease) = lease {
                    headers.add(LEASE, &lease.to_string());
                }
            }
            Operation::CreateContainer | Operation::ReadSideBlob(_) => {}
            Operation::CreateBlob => {
                headers.add(BLOB_TYPE.0, BLOB_TYPE.1);
                headers.add(IF_NONE_MATCH, "*");
            }
            Operation::Acquire { lease, seconds, if_match } => {
                headers.add(ACTION, "acquire");
                headers.add("x-ms-lease-duration", &seconds.to_string());
                headers.add(PROPOSED, &lease.to_string());
                if let Some(ETag(etag)) = if_match {
                    headers.add(IF_MATCH, etag);
                }
            }
            Operation::Renew { lease } => {
                headers.add(ACTION, "renew");
                headers.add(LEASE, &lease.to_string());
            }
            Operation::Change { lease, proposed } => {
                headers.add(ACTION, "change");
                headers.add(LEASE, &lease.to_string());
                headers.add(PROPOSED, &proposed.to_string());
            }
            Operation::Release { lease } => {
                headers.add(ACTION, "release");
                headers.add(LEASE, &lease.to_string());
            }
            Operation::Break { period, if_match } => {
                headers.add(ACTION, "break");
                if let Some(period) = period {
                    headers.add("x-ms-lease-break-period", &period.to_string());
                }
                if let Some(ETag(etag)) = if_match {
                    headers.add(IF_MATCH, etag);
                }
            }
            Operation::WriteMetadata { lease, if_match: ETag(etag), metadata } => {
                headers.add(LEASE, &lease.to_string());
                headers.add(IF_MATCH, etag);
                headers.add_all(metadata);
            }
            Operation::WriteSideBlob { replaces, metadata, .. } => {
                headers.add(BLOB_TYPE.0, BLOB_TYPE.1);
                match replaces {
                    Some(ETag(etag)) => headers.add(IF_MATCH, etag),
                    None => headers.add(IF_NONE_MATCH, "*"),
                }
                headers.add_all(metadata);
            }
        }
    }
}

struct Headers(Vec<(String, String)>);

impl Headers {
    // Not inlined: it has many callers, and inlining would enlarge the component.
    #[inline(never)]
    fn add(&mut self, name: &str, value: &str) {
        self.0.push((name.into(), value.into()));
    }

    fn add_all(&mut self, metadata: &Metadata) {
        for (name, value) in metadata.iter() {
            self.add(&("x-ms-meta-".to_string() + name), value);
        }
    }
}

#[cfg(test)]
mod tests;
