//! What went wrong with a request, in the words of `wasi:http`.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use wasmtime_wasi_http::Error;

/// A name that may not be resolved to where it points.
#[derive(Debug)]
pub(super) struct Prohibited {
    pub(super) name: String,
}

impl fmt::Display for Prohibited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is an address of this machine or its link, which is allowed by its address only",
            self.name
        )
    }
}

impl StdError for Prohibited {}

/// Whether the request went to a name that may not be resolved to where it points.
pub(super) fn prohibited(error: &reqwest::Error) -> Option<&Prohibited> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

/// The case that fits best; what has no case of its own keeps its text. URLs are left out: their
/// queries may hold a secret.
pub(super) fn translate(error: reqwest::Error) -> Error {
    let error = error.without_url();
    if prohibited(&error).is_some() {
        return Error::DestinationIpProhibited;
    }
    for cause in causes(&error) {
        if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
            return translate_tls(tls);
        }
    }
    if error.is_dns() {
        return Error::DnsError { rcode: Some(innermost(&error)), info_code: None };
    }
    if error.is_timeout() {
        return match error.is_connect() {
            true => Error::ConnectionTimeout,
            false => Error::ConnectionReadTimeout,
        };
    }
    let io = causes(&error).find_map(|cause| cause.downcast_ref::<io::Error>());
    match io.map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => Error::ConnectionRefused,
        Some(
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof,
        ) => Error::ConnectionTerminated,
        Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) => {
            Error::DestinationIpUnroutable
        }
        _ => translate_rest(&error),
    }
}

fn translate_rest(error: &reqwest::Error) -> Error {
    let text = innermost(error);
    // The connection ended before the answer did; hyper's own type is not in reach.
    if text.contains("connection closed") || text.contains("end of file") {
        return Error::ConnectionTerminated;
    }
    Error::InternalError(Some(text))
}

fn translate_tls(error: &rustls::Error) -> Error {
    match error {
        // The reason is what people need, and only this case carries a text.
        rustls::Error::InvalidCertificate(_) => Error::InternalError(Some(format!("TLS: {error}"))),
        rustls::Error::AlertReceived(alert) => Error::TlsAlertReceived {
            alert_id: Some(u8::from(*alert)),
            alert_message: Some(format!("{alert:?}")),
        },
        _ => Error::InternalError(Some(format!("TLS: {error}"))),
    }
}

fn innermost(error: &reqwest::Error) -> String {
    causes(error).last().map_or_else(|| error.to_string(), ToString::to_string)
}

type Cause<'a> = &'a (dyn StdError + 'static);

/// The causes of an error, outermost first.
fn causes<'a>(error: &'a reqwest::Error) -> impl Iterator<Item = Cause<'a>> {
    std::iter::successors(error.source(), |cause| cause_of(*cause))
}

/// An I/O error that wraps another error hides it: its source is the other's source.
fn cause_of(error: Cause<'_>) -> Option<Cause<'_>> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}
