//! One request over `wasi:http`, within its time.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingResponse, Method, OutgoingBody, OutgoingRequest, RequestOptions,
    Scheme,
};
use wasip2::io::poll::{Pollable, poll};
use wasip2::io::streams::StreamError;

use super::call::{Call, MOST_SHOWN, URL, judge};

/// Sends a call, and judges the answer.
pub fn send(call: &Call) -> Result<(), String> {
    let timeout = nanos(call.timeout);
    let deadline = subscribe_duration(timeout);
    let request = request(call)?;
    let body = request.body().map_err(|()| "the request has no body".to_string())?;
    let answer = handle(request, Some(options(timeout))).map_err(failed)?;
    // A host that refuses the request drops the body; the answer says why.
    let written = write(body, call.body.as_bytes(), &deadline);
    let ready = answer.subscribe();
    if !wait(&ready, &deadline) {
        return Err(format!("{URL} did not answer within {} ms", call.timeout.as_millis()));
    }
    drop(ready);
    match answer.get() {
        Some(Ok(Ok(response))) => judged(&response, &deadline),
        Some(Ok(Err(code))) => Err(failed(code)),
        _ if !written => Err(format!("the request to {URL} could not be written")),
        _ => Err(format!("{URL} gave no answer")),
    }
}

fn request(call: &Call) -> Result<OutgoingRequest, String> {
    let headers = call.headers.iter();
    let headers: Vec<_> =
        headers.map(|(name, value)| (name.clone(), value.as_bytes().to_vec())).collect();
    let headers = Fields::from_list(&headers).map_err(|_| "a header was refused".to_string())?;
    let request = OutgoingRequest::new(headers);
    let scheme = if call.secure { Scheme::Https } else { Scheme::Http };
    request
        .set_method(&Method::Post)
        .and_then(|()| request.set_scheme(Some(&scheme)))
        .and_then(|()| request.set_authority(Some(&call.authority)))
        .and_then(|()| request.set_path_with_query(Some(&call.path)))
        .map_err(|()| format!("{URL} is not a URL that can be requested"))?;
    Ok(request)
}

/// For hosts whose own time-outs are longer; one that knows none of these goes by the deadline.
fn options(timeout: u64) -> RequestOptions {
    let options = RequestOptions::new();
    let _ = options.set_connect_timeout(Some(timeout));
    let _ = options.set_first_byte_timeout(Some(timeout));
    let _ = options.set_between_bytes_timeout(Some(timeout));
    options
}

/// Whether all of it was written.
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
    flushed && OutgoingBody::finish(body, None).is_ok()
}

fn judged(response: &IncomingResponse, deadline: &Pollable) -> Result<(), String> {
    let status = response.status();
    if judge(status, b"").is_ok() {
        return Ok(());
    }
    judge(status, &beginning(response, deadline))
}

fn beginning(response: &IncomingResponse, deadline: &Pollable) -> Vec<u8> {
    let mut read = Vec::new();
    let Ok(body) = response.consume() else { return read };
    let Ok(stream) = body.stream() else { return read };
    let ready = stream.subscribe();
    while read.len() < MOST_SHOWN && wait(&ready, deadline) {
        match stream.read(MOST_SHOWN as u64) {
            Ok(bytes) => read.extend(bytes),
            Err(StreamError::Closed | StreamError::LastOperationFailed(_)) => break,
        }
    }
    read
}

/// Whether `ready` came before the deadline.
fn wait(ready: &Pollable, deadline: &Pollable) -> bool {
    poll(&[ready, deadline]).contains(&0)
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// What a request failed of. (`Debug` of all codes is 10 KB of component.)
fn failed(code: ErrorCode) -> String {
    let (what, detail) = match code {
        ErrorCode::DnsTimeout | ErrorCode::DnsError(_) => ("has a name that is not resolved", None),
        ErrorCode::ConnectionRefused
        | ErrorCode::DestinationNotFound
        | ErrorCode::DestinationUnavailable
        | ErrorCode::DestinationIpProhibited
        | ErrorCode::DestinationIpUnroutable => ("cannot be connected to", None),
        ErrorCode::ConnectionTimeout
        | ErrorCode::ConnectionReadTimeout
        | ErrorCode::ConnectionWriteTimeout
        | ErrorCode::HttpResponseTimeout => ("did not answer in time", None),
        ErrorCode::ConnectionTerminated | ErrorCode::HttpResponseIncomplete => {
            ("closed the connection before it answered", None)
        }
        ErrorCode::TlsProtocolError
        | ErrorCode::TlsCertificateError
        | ErrorCode::TlsAlertReceived(_) => ("cannot be trusted over TLS", None),
        ErrorCode::HttpRequestDenied => {
            ("is not among the hosts that this component may speak to", None)
        }
        ErrorCode::InternalError(detail) => ("could not be called", detail),
        _ => ("could not be called", None),
    };
    match detail {
        Some(detail) => format!("{URL} {what} ({detail})"),
        None => format!("{URL} {what}"),
    }
}
