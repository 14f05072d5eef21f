//! A request over `wasi:http`, and its response, within a deadline.
//!
//! The body of a request without content is never opened. With the header `content-length: 0`, all
//! tested hosts then send the same, correct request, and none reports an applied request as reset.
//! Only token requests and webhook calls have a body.

use core::time::Duration;

use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingResponse, Method, OutgoingBody, OutgoingRequest, RequestOptions,
    Scheme,
};
use wasip2::io::poll::{Pollable, poll};

use tenure_azure::request::{Method as Verb, Request};
use tenure_base::prelude::*;
use tenure_core::{Failure, FailureKind, Response};

/// Converts a duration to WASI's nanoseconds.
#[must_use]
pub fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Sends a request; gives up after `timeout`. `body_limit` returns the maximum number of bytes of
/// the response body to read, depending on the status. A longer body is cut off.
///
/// # Errors
/// The reason why there is no response.
pub fn send(
    request: &Request,
    timeout: Duration,
    body_limit: impl FnOnce(u16) -> usize,
) -> Result<Response, Failure> {
    let deadline = subscribe_duration(nanos(timeout));
    let outgoing = outgoing(request)?;
    let body = match request.body.reveal() {
        "" => None,
        text => Some((outgoing.body().map_err(|()| other("a body was refused"))?, text)),
    };
    let answer = handle(outgoing, Some(options(timeout))).map_err(failure)?;
    // A host that refuses the request drops the body; the response has the reason.
    let is_written = body.is_none_or(|(body, text)| write(body, text.as_bytes(), &deadline));
    let ready = answer.subscribe();
    if !wait(&ready, &deadline) {
        return Err(Failure { kind: FailureKind::Timeout, detail: String::new() });
    }
    drop(ready);
    let response = match answer.get() {
        Some(Ok(Ok(response))) => response,
        Some(Ok(Err(code))) => return Err(failure(code)),
        _ if !is_written => return Err(other("the request could not be written")),
        _ => return Err(other("the host gave no answer")),
    };
    let (status, headers) = (response.status(), response.headers().entries());
    let max_bytes = if is_empty(request, &headers) { 0 } else { body_limit(status) };
    let body = read(&response, max_bytes, &deadline);
    Ok(Response { status, headers, body })
}

/// Returns true if the whole body was written in time.
fn write(body: OutgoingBody, mut bytes: &[u8], deadline: &Pollable) -> bool {
    let Ok(stream) = body.write() else { return false };
    let ready = stream.subscribe();
    while !bytes.is_empty() {
        if !wait(&ready, deadline) {
            return false;
        }
        let Ok(room) = stream.check_write() else { return false };
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        let (chunk, remaining) = bytes.split_at(room);
        if stream.write(chunk).is_err() {
            return false;
        }
        bytes = remaining;
    }
    let flushed = stream.flush().is_ok() && wait(&ready, deadline);
    drop((ready, stream));
    flushed && OutgoingBody::finish(body, None).is_ok()
}

fn outgoing(request: &Request) -> Result<OutgoingRequest, Failure> {
    let headers = request.headers.iter();
    let headers: Vec<_> =
        headers.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    let fields = Fields::from_list(&headers).map_err(|_| other("a header was refused"))?;
    let outgoing = OutgoingRequest::new(fields);
    let method = match request.method {
        Verb::Head => Method::Head,
        Verb::Put => Method::Put,
        Verb::Get => Method::Get,
        Verb::Post => Method::Post,
        Verb::Delete => Method::Delete,
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

/// Returns options with all time-outs, because a host's defaults may be longer. If a host supports
/// none of them, the deadline applies.
fn options(timeout: Duration) -> RequestOptions {
    let options = RequestOptions::new();
    let timeout = Some(nanos(timeout));
    let _ = options.set_connect_timeout(timeout);
    let _ = options.set_first_byte_timeout(timeout);
    let _ = options.set_between_bytes_timeout(timeout);
    options
}

/// Returns true if the response has no body. Reading it to find that out takes several host calls.
fn is_empty(request: &Request, headers: &[(String, Vec<u8>)]) -> bool {
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    request.method == Verb::Head || length.is_some_and(|(_, value)| value == b"0")
}

/// Waits until `ready` or the deadline. Returns true if `ready` came first.
fn wait(ready: &Pollable, deadline: &Pollable) -> bool {
    poll(&[ready, deadline]).contains(&0)
}

/// Reads as much of the body as arrives in time, at most `max_bytes`: the response is valid without
/// it.
fn read(response: &IncomingResponse, max_bytes: usize, deadline: &Pollable) -> Vec<u8> {
    let mut read = Vec::new();
    if max_bytes == 0 {
        return read;
    }
    let Ok(body) = response.consume() else { return read };
    let Ok(stream) = body.stream() else { return read };
    let ready = stream.subscribe();
    while read.len() < max_bytes && wait(&ready, deadline) {
        match stream.read((max_bytes - read.len()) as u64) {
            Ok(bytes) => read.extend(bytes),
            Err(_) => break,
        }
    }
    read
}

/// Returns the failure kind of an error code, with the host's own text or an explanation where the
/// kind is not enough.
fn failure(code: ErrorCode) -> Failure {
    const INVALID_REQUEST: &str = "the host rejected the request as invalid";
    const INVALID_ANSWER: &str = "the answer is not valid HTTP";
    let without_detail = |kind| Failure { kind, detail: String::new() };
    match code {
        ErrorCode::DnsError(payload) => {
            Failure { kind: FailureKind::Name, detail: payload.rcode.unwrap_or_default() }
        }
        ErrorCode::DnsTimeout => without_detail(FailureKind::Name),
        ErrorCode::DestinationNotFound
        | ErrorCode::DestinationUnavailable
        | ErrorCode::DestinationIpProhibited
        | ErrorCode::DestinationIpUnroutable
        | ErrorCode::ConnectionRefused => without_detail(FailureKind::Connect),
        ErrorCode::ConnectionTerminated | ErrorCode::HttpResponseIncomplete => {
            without_detail(FailureKind::Reset)
        }
        ErrorCode::ConnectionTimeout
        | ErrorCode::ConnectionReadTimeout
        | ErrorCode::ConnectionWriteTimeout
        | ErrorCode::HttpResponseTimeout => without_detail(FailureKind::Timeout),
        ErrorCode::TlsAlertReceived(payload) => {
            Failure { kind: FailureKind::Tls, detail: payload.alert_message.unwrap_or_default() }
        }
        ErrorCode::TlsProtocolError | ErrorCode::TlsCertificateError => {
            without_detail(FailureKind::Tls)
        }
        ErrorCode::HttpRequestDenied => without_detail(FailureKind::Denied),
        ErrorCode::ConnectionLimitReached => other("the host has too many connections"),
        ErrorCode::HttpRequestLengthRequired
        | ErrorCode::HttpRequestBodySize(_)
        | ErrorCode::HttpRequestMethodInvalid
        | ErrorCode::HttpRequestUriInvalid
        | ErrorCode::HttpRequestUriTooLong
        | ErrorCode::HttpRequestHeaderSectionSize(_)
        | ErrorCode::HttpRequestHeaderSize(_)
        | ErrorCode::HttpRequestTrailerSectionSize(_)
        | ErrorCode::HttpRequestTrailerSize(_) => other(INVALID_REQUEST),
        ErrorCode::HttpResponseHeaderSectionSize(_)
        | ErrorCode::HttpResponseHeaderSize(_)
        | ErrorCode::HttpResponseBodySize(_)
        | ErrorCode::HttpResponseTrailerSectionSize(_)
        | ErrorCode::HttpResponseTrailerSize(_)
        | ErrorCode::HttpResponseTransferCoding(_)
        | ErrorCode::HttpResponseContentCoding(_)
        | ErrorCode::HttpUpgradeFailed
        | ErrorCode::HttpProtocolError => other(INVALID_ANSWER),
        ErrorCode::LoopDetected => other("the proxies form a loop"),
        ErrorCode::ConfigurationError => other("the host is not configured to send requests"),
        ErrorCode::InternalError(detail) => match detail.filter(|text| !text.is_empty()) {
            // `TlsCertificateError` has no text. So Tenure's host reports certificate and protocol
            // problems as an internal error that begins with `TLS`.
            Some(detail) if detail.starts_with("TLS") => Failure { kind: FailureKind::Tls, detail },
            Some(detail) => Failure { kind: FailureKind::Other, detail },
            None => other("an internal error of the host"),
        },
    }
}

fn other(detail: &str) -> Failure {
    Failure { kind: FailureKind::Other, detail: detail.into() }
}
