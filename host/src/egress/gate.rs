//! The one way out: every request of a guest passes here.

use super::body::Streamed;
use super::error::{prohibited, translate};
use super::{AllowList, Clients};
use crate::deadline::Deadline;
use bytes::Bytes;
use http_body::Body;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use reqwest::Url;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::timeout;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

/// The largest body of a request, in bytes. It is collected before the request is sent, so that a
/// guest that stops halfway has sent nothing.
const REQUEST: usize = 8 * 1024 * 1024;

/// What holds for the requests of one guest.
pub(crate) struct Policy {
    pub allow: AllowList,
    pub clients: Arc<Clients>,
    /// The longest that anything may take; guests may ask for less.
    pub patience: Duration,
    pub answers: Answers,
    /// Told of what was refused, and what allows it: the guest only learns a code.
    pub refused: Box<dyn Fn(String) + Send + Sync>,
}

/// How the body of an answer reaches the guest.
#[derive(Clone, Copy)]
pub(crate) enum Answers {
    /// Read to its end before the guest sees it, so that the connection can be used again
    /// whatever the guest does. At most this many bytes.
    Collected(usize),
    /// As it comes. At most this many bytes.
    Streamed(u64),
}

/// The outgoing HTTP of one guest call.
#[derive(Clone)]
pub(crate) struct Gate {
    policy: Arc<Policy>,
    /// After it nothing is sent any more.
    lease: Option<Deadline>,
}

type Answer = (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

impl Gate {
    pub(crate) fn new(policy: Arc<Policy>, lease: Option<Deadline>) -> Self {
        Self { policy, lease }
    }

    pub(super) async fn send(
        self,
        request: http::Request<WasiBody>,
        options: RequestOptions,
    ) -> Result<http::Response<WasiBody>, Error> {
        let policy = &*self.policy;
        let url =
            Url::parse(&request.uri().to_string()).map_err(|_| Error::HttpRequestUriInvalid)?;
        // The client would make a header of it.
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::HttpRequestUriInvalid);
        }
        if !policy.allow.allows(&url) {
            let origin = url.origin().ascii_serialization();
            (policy.refused)(format!("a request to {origin} was refused: it is not allowed"));
            return Err(Error::HttpRequestDenied);
        }
        let client = policy.clients.get(url.scheme()).map_err(|e| Error::InternalError(Some(e)))?;

        let (head, body) = request.into_parts();
        let body = match body.is_end_stream() {
            true => Bytes::new(),
            false => {
                let body = timeout(policy.patience, Limited::new(body, REQUEST).collect()).await;
                let body = body.map_err(|_| Error::ConnectionWriteTimeout)?;
                body.map_err(body_error)?.to_bytes()
            }
        };
        let mut outgoing = reqwest::Request::new(head.method, url);
        *outgoing.headers_mut() = head.headers;
        outgoing.headers_mut().remove(http::header::HOST);
        if !body.is_empty() {
            *outgoing.body_mut() = Some(body.into());
        }

        let first_byte = policy.patience.min(options.first_byte_timeout.unwrap_or(Duration::MAX));
        let sent = timeout(first_byte, self.while_held(client.execute(outgoing))).await;
        let response = sent.map_err(|_| Error::ConnectionReadTimeout)??;
        let response = http::Response::<reqwest::Body>::from(response);
        let pause = policy.patience.min(options.between_bytes_timeout.unwrap_or(Duration::MAX));
        match policy.answers {
            Answers::Streamed(most) => {
                Ok(response.map(|body| Streamed::new(body, most, pause).boxed_unsync()))
            }
            Answers::Collected(most) => {
                let (head, body) = response.into_parts();
                let body = match body.is_end_stream() {
                    true => Bytes::new(),
                    false => collect(Streamed::new(body, most as u64, pause)).await?,
                };
                let body = Full::new(body).map_err(|never| match never {});
                Ok(http::Response::from_parts(head, body.boxed_unsync()))
            }
        }
    }

    /// Drives a request, with a look at the deadline in each step that could send something.
    async fn while_held<T>(
        &self,
        sending: impl Future<Output = Result<T, reqwest::Error>>,
    ) -> Result<T, Error> {
        let mut sending = pin!(sending);
        poll_fn(|cx| {
            if self.lease.as_ref().is_some_and(Deadline::passed) {
                return Poll::Ready(Err(Error::HttpRequestDenied));
            }
            sending.as_mut().poll(cx).map_err(|error| self.explain(error))
        })
        .await
    }

    /// Translates an error, and tells of it when the host is its cause.
    fn explain(&self, error: reqwest::Error) -> Error {
        if let Some(prohibited) = prohibited(&error) {
            (self.policy.refused)(format!("a request was refused: {prohibited}"));
        }
        translate(error)
    }
}

async fn collect(body: Streamed) -> Result<Bytes, Error> {
    Ok(body.collect().await?.to_bytes())
}

fn body_error(error: Box<dyn std::error::Error + Send + Sync>) -> Error {
    if error.is::<LengthLimitError>() {
        return Error::HttpRequestBodySize(Some(REQUEST as u64));
    }
    match error.downcast::<Error>() {
        Ok(error) => *error,
        Err(error) => Error::InternalError(Some(error.to_string())),
    }
}

impl WasiHttpHooks for Gate {
    fn set_host_header(&mut self) -> bool {
        // The client sets it from the URL.
        false
    }

    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _processed: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Answer, Error>> + Send> {
        let gate = self.clone();
        Box::new(async move {
            let response = gate.send(request, options.unwrap_or_default()).await?;
            let done: Box<dyn Future<Output = Result<(), Error>> + Send> =
                Box::new(std::future::ready(Ok(())));
            Ok((response, done))
        })
    }
}
