//! Requests of the program itself. They pass the same checks as requests of the election component.

use super::{AllowList, Body, Clients, Error, Gate, Limits, Policy, ResponseMode};
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use http_body_util::{BodyExt, Full};
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Failure, FailureKind, Request, Response};
use tokio::time::timeout;

/// Maximum bytes of a response. Errors of the service have a few hundred.
const MAX_RESPONSE: usize = 64 * 1024;

impl Clients {
    /// Sends one request and reads its response, up to 64 KiB. Times out after `within`.
    ///
    /// # Errors
    ///
    /// Returns the failure if there is no complete response.
    pub async fn send(
        self: &Arc<Self>,
        request: http::Request<Bytes>,
        within: Duration,
    ) -> Result<http::Response<Bytes>, Failure> {
        let other_failure = |detail: String| Failure { kind: FailureKind::Other, detail };
        let (scheme, authority) = (request.uri().scheme_str(), request.uri().authority());
        let mut allow = AllowList::default();
        if let (Some(scheme), Some(authority)) = (scheme, authority) {
            let origin = format!("{scheme}://{authority}");
            allow.allow(&origin).map_err(|error| other_failure(error.to_string()))?;
        }
        let policy =
            Policy { allow, timeout: within, response_mode: ResponseMode::Collected(MAX_RESPONSE) };
        Gate::pooled(Arc::new(policy), self.clone()).fetch(request, within).await
    }
}

impl Gate {
    /// Sends one request and reads its response. Times out after `within`.
    ///
    /// # Errors
    ///
    /// Returns the failure if there is no complete response.
    pub async fn fetch(
        &self,
        request: http::Request<Bytes>,
        within: Duration,
    ) -> Result<http::Response<Bytes>, Failure> {
        let request = request.map(to_body);
        let exchange = async {
            let (head, body) = self.clone().send(request, Limits::default()).await?.into_parts();
            Ok::<_, Error>(http::Response::from_parts(head, body.collect().await?.to_bytes()))
        };
        match timeout(within, exchange).await {
            Ok(answer) => answer.map_err(failure),
            Err(_) => Err(Failure { kind: FailureKind::Timeout, detail: String::new() }),
        }
    }
}

/// Converts bytes to a request body.
pub(crate) fn to_body(body: Bytes) -> Body {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

/// Converts an error to the failure that the election reports.
pub(crate) fn failure(error: Error) -> Failure {
    let (kind, detail) = match error {
        Error::NameResolution(detail) => (FailureKind::Name, detail),
        Error::ConnectionRefused | Error::NoRoute => (FailureKind::Connect, String::new()),
        Error::ConnectionClosed => (FailureKind::Reset, String::new()),
        Error::ConnectTimeout | Error::ResponseTimeout => (FailureKind::Timeout, String::new()),
        Error::TlsAlert { text, .. } => (FailureKind::Tls, text),
        Error::Tls(_) => (FailureKind::Tls, error.to_string()),
        Error::Denied => (FailureKind::Denied, String::new()),
        _ => (FailureKind::Other, error.to_string()),
    };
    Failure { kind, detail }
}

/// Converts a request of the core to an HTTP request.
///
/// # Errors
///
/// Fails if the request is not valid HTTP.
pub fn to_http(request: &Request) -> http::Result<http::Request<Bytes>> {
    let Request { method, url, headers, body, .. } = request;
    let request = http::Request::builder().method(method.as_str()).uri(url);
    headers
        .iter()
        .fold(request, |request, (name, value)| request.header(name, value))
        .body(Bytes::copy_from_slice(body.as_bytes()))
}

/// Converts an HTTP response to a response of the core.
pub fn from_http(response: http::Response<Bytes>) -> Response {
    let header =
        |(name, value): (&HeaderName, &HeaderValue)| (name.to_string(), value.as_bytes().to_vec());
    Response {
        status: response.status().as_u16(),
        headers: response.headers().iter().map(header).collect(),
        body: response.into_body().into(),
    }
}
