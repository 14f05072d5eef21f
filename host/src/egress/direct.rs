//! Requests of the program itself. They pass the same checks as requests of the election component.

use super::{AllowList, Body, Clients, Error, Gate, Limits, Policy, ResponseMode};
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use http_body_util::{BodyExt, Full};
use reqwest::Url;
use std::sync::Arc;
use tenure_core::{Failure, FailureKind, Request, Response};
use tokio::time::timeout;

/// Maximum bytes of a response. Errors of the service have a few hundred.
const MAX_RESPONSE: usize = 64 * 1024;

impl Clients {
    /// Sends a request and reads its response, up to 64 KiB.
    ///
    /// # Errors
    ///
    /// Returns the failure if there is no complete response in time.
    pub async fn send(self: &Arc<Self>, request: &Request) -> Result<Response, Failure> {
        let mut allow = AllowList::default();
        if let Ok(url) = Url::parse(&request.url) {
            let origin = url.origin().ascii_serialization();
            allow.allow(&origin).map_err(|error| other_failure(&error))?;
        }
        let response_mode = ResponseMode::Collected(MAX_RESPONSE);
        let policy = Policy { allow, timeout: request.timeout, response_mode };
        Gate::pooled(Arc::new(policy), self.clone()).fetch(request).await
    }
}

impl Gate {
    /// Sends a request of the core and reads its response.
    ///
    /// # Errors
    ///
    /// Returns the failure if there is no complete response in time.
    pub async fn fetch(&self, request: &Request) -> Result<Response, Failure> {
        exchange(request, async |request| {
            let sent = self.clone().send(request.map(to_body), Limits::default());
            let (head, body) = sent.await.map_err(failure)?.into_parts();
            let body = body.collect().await.map_err(failure)?.to_bytes();
            Ok(http::Response::from_parts(head, body))
        })
        .await
    }
}

/// Sends a request of the core through `send`, which takes it as an HTTP request. Times out after
/// the request's time limit.
///
/// # Errors
///
/// Returns the failure of `send`, or that the request is not valid HTTP, or the timeout.
pub async fn exchange(
    request: &Request,
    send: impl AsyncFnOnce(http::Request<Bytes>) -> Result<http::Response<Bytes>, Failure>,
) -> Result<Response, Failure> {
    let http_request = to_http(request).map_err(|error| other_failure(&error))?;
    match timeout(request.timeout, send(http_request)).await {
        Ok(answer) => answer.map(from_http),
        Err(_) => Err(Failure { kind: FailureKind::Timeout, detail: String::new() }),
    }
}

pub(crate) fn other_failure(error: &(impl ToString + ?Sized)) -> Failure {
    Failure { kind: FailureKind::Other, detail: error.to_string() }
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
pub(crate) fn to_http(request: &Request) -> http::Result<http::Request<Bytes>> {
    let Request { method, url, headers, body, .. } = request;
    let request = http::Request::builder().method(method.as_str()).uri(url);
    headers
        .iter()
        .fold(request, |request, (name, value)| request.header(name, value))
        .body(Bytes::copy_from_slice(body.as_bytes()))
}

/// Converts an HTTP response to a response of the core.
fn from_http(response: http::Response<Bytes>) -> Response {
    let header =
        |(name, value): (&HeaderName, &HeaderValue)| (name.to_string(), value.as_bytes().to_vec());
    Response {
        status: response.status().as_u16(),
        headers: response.headers().iter().map(header).collect(),
        body: response.into_body().into(),
    }
}
