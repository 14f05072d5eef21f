//! Requests, responses, the names of operations and the time as plain values.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::{HeaderName, HeaderValue, StatusCode, header};

/// Whitespace that HTTP allows around the value of a header.
pub(super) const BLANKS: [char; 2] = [' ', '\t'];

/// The instant at which the service handles a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Time since a fixed origin, which the caller chooses. It never decreases. Leases use it, so
    /// they do not depend on the wall clock.
    pub elapsed: Duration,
    /// The service's wall clock, for `Date`, `Last-Modified` and the age of a signature.
    pub wall: DateTime<Utc>,
}

/// The clock of a store. It is called once for each request, in the order of handling.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// The largest body of a request that this store accepts, in bytes: 64 MiB. Azure accepts more.
pub const MAX_BODY: usize = 64 * 1024 * 1024;

/// A request. `Debug` prints neither the query nor the `Authorization` header, because both can
/// hold a signature.
#[derive(Clone, Default)]
pub struct Request {
    /// The method, in upper case.
    pub method: String,
    /// Path and query, percent-encoded as sent, starting with `/`.
    pub target: String,
    /// The headers as sent; names are case-insensitive.
    pub headers: Vec<(String, String)>,
    /// The body, usually empty.
    pub body: Bytes,
}

impl Request {
    /// Creates a request without headers and body.
    pub fn new(method: &str, target: &str) -> Request {
        Request { method: method.to_owned(), target: target.to_owned(), ..Request::default() }
    }

    /// Adds a header to the request.
    pub fn with(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Returns the first value of a header, without surrounding whitespace.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim_matches(BLANKS))
    }

    /// Creates a request from that of the crate `http`. Its header names, including those of
    /// metadata, are in lower case; a [`Store`](super::Store) keeps their case. Header bytes that
    /// are not UTF-8 become U+FFFD, so the signature cannot match. An absolute address provides the
    /// `Host` if no header does.
    pub fn from_http(request: &http::request::Parts, body: Bytes) -> Request {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let mut headers: Vec<(String, String)> = request
            .headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), text(value)))
            .collect();
        if let Some(authority) = request.uri.authority()
            && !request.headers.contains_key(header::HOST)
        {
            headers.push(("host".to_owned(), authority.to_string()));
        }
        let target = request.uri.path_and_query().map_or("/", |target| target.as_str());
        Request {
            method: request.method.as_str().to_owned(),
            target: target.to_owned(),
            headers,
            body,
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_public = |(name, _): &&(String, String)| !name.eq_ignore_ascii_case("authorization");
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("path", &self.target.split('?').next().unwrap_or_default())
            .field("headers", &self.headers.iter().filter(is_public).collect::<Vec<_>>())
            .field("body", &self.body)
            .finish_non_exhaustive()
    }
}

/// A response.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The headers, in the service's spelling.
    pub headers: Vec<(String, String)>,
    /// The body; always empty in the response to a HEAD.
    pub body: Bytes,
}

impl Response {
    pub(super) fn new(status: u16) -> Response {
        Response { status, ..Response::default() }
    }

    pub(super) fn with(mut self, name: &str, value: impl Into<String>) -> Response {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Sets an XML document as the body.
    pub(super) fn with_xml(mut self, xml: String) -> Response {
        self.body = Bytes::from(xml);
        let length = self.body.len().to_string();
        self.with("Content-Length", length).with("Content-Type", "application/xml")
    }

    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Returns the error code, `x-ms-error-code`; `None` if the request succeeded.
    pub fn code(&self) -> Option<&str> {
        self.header("x-ms-error-code")
    }

    /// Converts the response into that of the crate `http`. A header that HTTP cannot carry is
    /// omitted.
    pub fn into_http(self) -> http::Response<Bytes> {
        let mut response = http::Response::new(self.body);
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in &self.headers {
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(name), HeaderValue::try_from(value))
            {
                response.headers_mut().append(name, value);
            }
        }
        response
    }
}

/// The kind of an operation of the store, for counts and rights. This is not the HTTP method, which
/// several operations share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperationKind {
    /// Get Account Information.
    GetAccount,
    /// List Containers.
    ListContainers,
    /// Create Container.
    CreateContainer,
    /// Delete Container.
    DeleteContainer,
    /// Get Container Properties.
    GetContainer,
    /// List Blobs.
    ListBlobs,
    /// Put Blob.
    PutBlob,
    /// Get Blob.
    GetBlob,
    /// Get Blob Properties: a HEAD.
    HeadBlob,
    /// Get Blob Metadata.
    GetMetadata,
    /// Delete Blob.
    DeleteBlob,
    /// Set Blob Metadata.
    SetMetadata,
    /// Lease Blob, acquire.
    Acquire,
    /// Lease Blob, renew.
    Renew,
    /// Lease Blob, change.
    Change,
    /// Lease Blob, release.
    Release,
    /// Lease Blob, break.
    Break,
    /// Any operation that the store does not support.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_signature_is_printed() {
        let request = Request::new("PUT", "/a/leases/blob?sp=rcw&sig=c2VjcmV0")
            .with("Authorization", "SharedKey a:c2VjcmV0")
            .with("x-ms-version", "2021-12-02");
        let text = format!("{request:?}");
        assert!(!text.contains("c2VjcmV0"), "{text}");
        assert!(text.contains("/a/leases/blob") && text.contains("2021-12-02"), "{text}");
    }
}
