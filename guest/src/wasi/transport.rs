//! A request over `wasi:http`, and its answer, within a deadline.
//!
//! Where there is nothing to send, the request's body is never opened: with `content-length: 0`
//! set, every host that was tried then sends the same, correct request, and none reports one that
//! was carried out as reset. Only requests for tokens have a body, and calls of a webhook.

use core::time::Duration;

use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::http::types::{
    Fields, IncomingResponse, Method, OutgoingBody, OutgoingRequest, RequestOptions, Scheme,
};
use wasip2::io::poll::{Pollable, poll};

use super::convert::nanos;
use super::narrow::{self, Code};
use tenure_azure::operation::{self, Request};
use tenure_base::prelude::*;
use tenure_core::{Failure, FailureKind};

/// As many bytes of a body are enough for every answer that is read to its end. It is, so that the
/// connection can be used again.
pub const MOST_BODY: usize = 64 * 1024;

/// An answer.
pub struct RawAnswer {
    pub status: u16,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
}

/// Sends a request; gives up when `timeout` has passed. `wanted` says, by the status, after how many
/// bytes of its body the answer is read no further.
pub fn send(
    request: &Request,
    timeout: Duration,
    wanted: fn(u16) -> usize,
) -> Result<RawAnswer, Failure> {
    let deadline = subscribe_duration(nanos(timeout));
    let outgoing = outgoing(request)?;
    let body = match request.body.reveal() {
        "" => None,
        text => Some((outgoing.body().map_err(|()| other("a body was refused"))?, text)),
    };
    let answer = narrow::send(&outgoing, &options(timeout)).map_err(failure)?;
    // A host that refuses the request drops the body; the answer says why.
    let written = body.is_none_or(|(body, text)| write(body, text.as_bytes(), &deadline));
    let ready = answer.subscribe();
    if !wait(&ready, &deadline) {
        return Err(Failure { kind: FailureKind::Timeout, detail: String::new() });
    }
    drop(ready);
    let response = match narrow::take(&answer) {
        Some(Ok(response)) => response,
        Some(Err(code)) => return Err(failure(code)),
        None if !written => return Err(other("the request could not be written")),
        None => return Err(other("the host gave no answer")),
    };
    let (status, headers) = (response.status(), response.headers().entries());
    let most = if is_empty(request, &headers) { 0 } else { wanted(status) };
    let body = read(&response, most, &deadline);
    Ok(RawAnswer { status, headers, body })
}

/// Whether all of it was written in time.
fn write(body: OutgoingBody, mut bytes: &[u8], deadline: &Pollable) -> bool {
    let Ok(stream) = body.write() else { return false };
    let ready = stream.subscribe();
    while !bytes.is_empty() {
        if !wait(&ready, deadline) {
            return false;
        }
        let Ok(room) = stream.check_write() else { return false };
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        let (now, later) = bytes.split_at(room);
        if stream.write(now).is_err() {
            return false;
        }
        bytes = later;
    }
    let flushed = stream.flush().is_ok() && wait(&ready, deadline);
    drop((ready, stream));
    flushed && narrow::finish(&body)
}

fn outgoing(request: &Request) -> Result<OutgoingRequest, Failure> {
    let headers = request.headers.iter();
    let headers: Vec<_> =
        headers.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    let fields = Fields::from_list(&headers).map_err(|_| other("a header was refused"))?;
    let outgoing = OutgoingRequest::new(fields);
    let method = match request.method {
        operation::Method::Head => Method::Head,
        operation::Method::Put => Method::Put,
        operation::Method::Get => Method::Get,
        operation::Method::Post => Method::Post,
        operation::Method::Delete => Method::Delete,
    };
    let origin = &request.origin;
    let (scheme, authority) =
        match (origin.strip_prefix("https://"), origin.strip_prefix("http://")) {
            (Some(authority), _) => (Scheme::Https, authority),
            (_, Some(authority)) => (Scheme::Http, authority),
            _ => return Err(other("the endpoint has no scheme")),
        };
    outgoing
        .set_method(&method)
        .and_then(|()| outgoing.set_scheme(Some(&scheme)))
        .and_then(|()| outgoing.set_authority(Some(authority)))
        .and_then(|()| outgoing.set_path_with_query(Some(&request.path_and_query)))
        .map_err(|()| other("the endpoint or the path was refused"))?;
    Ok(outgoing)
}

/// For hosts whose own time-outs are longer; one that knows none of these goes by the deadline.
fn options(timeout: Duration) -> RequestOptions {
    let options = RequestOptions::new();
    let timeout = Some(nanos(timeout));
    let _ = options.set_connect_timeout(timeout);
    let _ = options.set_first_byte_timeout(timeout);
    let _ = options.set_between_bytes_timeout(timeout);
    options
}

/// Whether no body can follow: it takes some calls of the host to see that there is none.
fn is_empty(request: &Request, headers: &[(String, Vec<u8>)]) -> bool {
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    request.method == operation::Method::Head || length.is_some_and(|(_, value)| value == b"0")
}

/// Whether `ready` came before the deadline.
fn wait(ready: &Pollable, deadline: &Pollable) -> bool {
    poll(&[ready, deadline]).contains(&0)
}

/// As much of the body as comes in time: an answer is no less one without it.
fn read(response: &IncomingResponse, most: usize, deadline: &Pollable) -> Vec<u8> {
    let mut read = Vec::new();
    if most == 0 {
        return read;
    }
    let Ok(body) = response.consume() else { return read };
    let Ok(stream) = body.stream() else { return read };
    let ready = stream.subscribe();
    while read.len() < most && wait(&ready, deadline) {
        match stream.read(most as u64) {
            Ok(bytes) => read.extend(bytes),
            Err(_) => break,
        }
    }
    read
}

const INVALID_REQUEST: &str = "the host takes the request for an invalid one";
const INVALID_ANSWER: &str = "the answer is no valid HTTP";

/// The cases of `error-code` in their order: what kind of failure each is and, where its kind does not say
/// it, what it means.
const CODES: [(FailureKind, &str); 39] = [
    (FailureKind::Name, ""),                                      // DNS-timeout
    (FailureKind::Name, ""),                                      // DNS-error
    (FailureKind::Connect, ""),                                   // destination-not-found
    (FailureKind::Connect, ""),                                   // destination-unavailable
    (FailureKind::Connect, ""),                                   // destination-IP-prohibited
    (FailureKind::Connect, ""),                                   // destination-IP-unroutable
    (FailureKind::Connect, ""),                                   // connection-refused
    (FailureKind::Reset, ""),                                     // connection-terminated
    (FailureKind::Timeout, ""),                                   // connection-timeout
    (FailureKind::Timeout, ""),                                   // connection-read-timeout
    (FailureKind::Timeout, ""),                                   // connection-write-timeout
    (FailureKind::Other, "the host has too many connections"),    // connection-limit-reached
    (FailureKind::Tls, ""),                                       // TLS-protocol-error
    (FailureKind::Tls, ""),                                       // TLS-certificate-error
    (FailureKind::Tls, ""),                                       // TLS-alert-received
    (FailureKind::Denied, ""),                                    // HTTP-request-denied
    (FailureKind::Other, INVALID_REQUEST),                        // HTTP-request-length-required
    (FailureKind::Other, INVALID_REQUEST),                        // HTTP-request-body-size
    (FailureKind::Other, INVALID_REQUEST),                        // HTTP-request-method-invalid
    (FailureKind::Other, INVALID_REQUEST),                        // HTTP-request-URI-invalid
    (FailureKind::Other, INVALID_REQUEST),                        // HTTP-request-URI-too-long
    (FailureKind::Other, INVALID_REQUEST), // HTTP-request-header-section-size
    (FailureKind::Other, INVALID_REQUEST), // HTTP-request-header-size
    (FailureKind::Other, INVALID_REQUEST), // HTTP-request-trailer-section-size
    (FailureKind::Other, INVALID_REQUEST), // HTTP-request-trailer-size
    (FailureKind::Reset, ""),              // HTTP-response-incomplete
    (FailureKind::Other, INVALID_ANSWER),  // HTTP-response-header-section-size
    (FailureKind::Other, INVALID_ANSWER),  // HTTP-response-header-size
    (FailureKind::Other, INVALID_ANSWER),  // HTTP-response-body-size
    (FailureKind::Other, INVALID_ANSWER),  // HTTP-response-trailer-section-size
    (FailureKind::Other, INVALID_ANSWER),  // HTTP-response-trailer-size
    (FailureKind::Other, INVALID_ANSWER),  // HTTP-response-transfer-coding
    (FailureKind::Other, INVALID_ANSWER),  // HTTP-response-content-coding
    (FailureKind::Timeout, ""),            // HTTP-response-timeout
    (FailureKind::Other, INVALID_ANSWER),  // HTTP-upgrade-failed
    (FailureKind::Other, INVALID_ANSWER),  // HTTP-protocol-error
    (FailureKind::Other, "a proxy sent the request in a circle"), // loop-detected
    (FailureKind::Other, "the host is not configured to send requests"), // configuration-error
    (FailureKind::Other, "an internal error of the host"), // internal-error
];

fn failure(code: Code) -> Failure {
    let Code { case, detail } = code;
    let known = CODES.get(usize::from(case)).copied();
    let (kind, meaning) = known.unwrap_or((FailureKind::Other, INVALID_ANSWER));
    let internal = usize::from(case) + 1 == CODES.len();
    match detail.as_str() {
        // What is wrong with a certificate has no case that could carry it.
        text if internal && text.starts_with("TLS") => Failure { kind: FailureKind::Tls, detail },
        text if !text.is_empty() && (internal || kind != FailureKind::Other) => {
            Failure { kind, detail }
        }
        _ => Failure { kind, detail: meaning.into() },
    }
}

fn other(detail: &str) -> Failure {
    Failure { kind: FailureKind::Other, detail: detail.into() }
}
