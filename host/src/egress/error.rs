//! Errors of requests.

use super::client::Proxy;
use super::wire::PermitExpired;
use hyper_util::client::legacy;
use std::error::Error as StdError;
use std::io;
use std::net::IpAddr;
use tokio::time::error::Elapsed;

/// Error of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The URL is not an address that a request can be sent to.
    #[error("the URL is not valid")]
    InvalidUrl,
    /// The request is a CONNECT.
    #[error("the method is not allowed")]
    InvalidMethod,
    /// The destination is not allowed, or the turn is over.
    #[error("the request is not allowed")]
    Denied,
    /// The host name resolves only to addresses that names must not resolve to.
    #[error("the address is not allowed")]
    AddressDenied,
    /// The host name could not be resolved.
    #[error("{0}")]
    NameResolution(String),
    /// The connection was refused. Nothing was sent.
    #[error("the connection was refused")]
    ConnectionRefused,
    /// There is no route to the address. Nothing was sent.
    #[error("there is no route to the address")]
    NoRoute,
    /// The connection timed out. Nothing was sent.
    #[error("the connection took too long")]
    ConnectTimeout,
    /// The guest did not finish its request in time. Nothing was sent.
    #[error("the request took too long")]
    RequestTimeout,
    /// The response, or its next part, timed out.
    #[error("the answer took too long")]
    ResponseTimeout,
    /// The connection closed before the response was complete.
    #[error("the connection was closed")]
    ConnectionClosed,
    /// Too many requests are running.
    #[error("too many requests are under way")]
    TooManyRequests,
    /// The request body exceeds this number of bytes. Nothing was sent.
    #[error("the body of the request has more than {0} bytes")]
    RequestTooLarge(u64),
    /// The response head does not fit into the budget.
    #[error("the head of the answer is too large")]
    ResponseHeadTooLarge,
    /// The response body is too large.
    #[error("the answer is too large")]
    ResponseTooLarge,
    /// The peer ended the TLS handshake with an alert.
    #[error("TLS: {text}")]
    TlsAlert {
        /// Number of the alert.
        id: u8,
        /// Name of the alert.
        text: String,
    },
    /// The certificate or the TLS protocol is invalid.
    #[error("TLS: {0}")]
    Tls(String),
    /// Any other error.
    #[error("{0}")]
    Other(String),
}

/// Error of a name lookup for a connection.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum LookupError {
    /// The name could not be resolved.
    #[error("{0}")]
    Unresolved(String),
    /// The name resolves only to addresses that names must not resolve to, like this one.
    #[error(
        "{name} resolves to {address}, an address of this machine, its link-local network or Azure's wire server; to \
         allow it, give --allow-host that address"
    )]
    Prohibited { name: String, address: IpAddr },
}

type Cause<'a> = &'a (dyn StdError + 'static);

/// Returns the first error of this type in the chain of `error`.
pub(super) fn find_cause<E: StdError + 'static>(error: Cause<'_>) -> Option<&E> {
    error_chain(error).find_map(|cause| cause.downcast_ref())
}

/// Translates an error of a client to the variant that matches best. [`Error::Other`] keeps the
/// text of an error without such a variant.
pub(super) fn translate(error: Cause<'_>) -> Error {
    if find_cause::<PermitExpired>(error).is_some() {
        return Error::Denied;
    }
    if matches!(find_cause(error), Some(LookupError::Prohibited { .. })) {
        return Error::AddressDenied;
    }
    // Without free descriptors, name resolution and connecting fail too, so this check comes before
    // theirs.
    if let Some(limit) = out_of_descriptors(error) {
        return Error::Other(limit);
    }
    if let Some(tls) = find_cause::<rustls::Error>(error) {
        return translate_tls(tls);
    }
    // Turns use the client of `hyper-util` directly. All other requests, as those of elections, use
    // `reqwest`.
    let reqwest_error = find_cause::<reqwest::Error>(error);
    let is_unresolved = matches!(find_cause(error), Some(LookupError::Unresolved(_)));
    if is_unresolved || reqwest_error.is_some_and(reqwest::Error::is_dns) {
        return Error::NameResolution(innermost(error));
    }
    // Skips errors that only wrap another one.
    let mut kinds =
        error_chain(error).filter_map(|cause| cause.downcast_ref()).map(io::Error::kind);
    let io = kinds.find(|kind| *kind != io::ErrorKind::Other);
    let is_connecting = reqwest_error.is_some_and(reqwest::Error::is_connect)
        || find_cause(error).is_some_and(legacy::Error::is_connect);
    if io == Some(io::ErrorKind::TimedOut)
        || find_cause::<Elapsed>(error).is_some()
        || reqwest_error.is_some_and(reqwest::Error::is_timeout)
    {
        return match is_connecting {
            true => Error::ConnectTimeout,
            false => Error::ResponseTimeout,
        };
    }
    match io {
        Some(io::ErrorKind::ConnectionRefused) if is_connecting => Error::ConnectionRefused,
        // A turn must know if its request may have arrived. The request has not arrived if the
        // client was still connecting. Elections need no such distinction, so their users get the
        // actual error.
        Some(
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof,
        ) => match is_connecting && reqwest_error.is_none() {
            true => Error::ConnectionRefused,
            false => Error::ConnectionClosed,
        },
        Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) => {
            match is_connecting {
                true => Error::NoRoute,
                false => Error::ConnectionClosed,
            }
        }
        _ => translate_other(error),
    }
}

/// Returns the problem and advice if the limit of open files was reached.
fn out_of_descriptors(error: Cause<'_>) -> Option<String> {
    error_chain(error).filter_map(|cause| cause.downcast_ref()).find_map(Error::too_many_files)
}

impl Error {
    /// Explains an error about too many open files. Returns `None` for other errors.
    #[cfg(unix)]
    pub fn too_many_files(error: &io::Error) -> Option<String> {
        use rustix::io::Errno;
        let owner = match Errno::from_io_error(error) {
            Some(Errno::MFILE) => "this process",
            Some(Errno::NFILE) => "this machine",
            _ => return None,
        };
        Some(format!(
            "{owner} has too many open files; raise the limit (ulimit -n, or LimitNOFILE of systemd)"
        ))
    }

    /// Returns `None`, because only Unix has such a limit.
    #[cfg(not(unix))]
    pub fn too_many_files(_: &io::Error) -> Option<String> {
        None
    }
}

/// Translates the error of a request through a proxy. Connection errors are those of the proxy.
pub(super) fn translate_proxied(error: &reqwest::Error, proxy: &Proxy) -> Error {
    let is_proxy_failure = error.is_connect()
        && !error.is_timeout()
        && find_cause::<rustls::Error>(error).is_none()
        && out_of_descriptors(error).is_none();
    if !is_proxy_failure {
        return translate(error);
    }
    let Proxy { variable, address } = proxy;
    let reason = innermost(error);
    Error::Other(format!("through the proxy {address} of {variable}: {reason}"))
}

fn translate_other(error: Cause<'_>) -> Error {
    // The connection closed before the response was complete, or before the request was written.
    let is_closed = |error: &hyper::Error| {
        error.is_incomplete_message() || error.is_closed() || error.is_canceled()
    };
    match find_cause::<hyper::Error>(error).is_some_and(is_closed) {
        true => Error::ConnectionClosed,
        false => Error::Other(innermost(error)),
    }
}

fn translate_tls(error: &rustls::Error) -> Error {
    match error {
        rustls::Error::InvalidCertificate(bad)
            if let Some(reason) = Error::ca_as_end_entity(bad) =>
        {
            Error::Tls(reason.to_owned())
        }
        rustls::Error::AlertReceived(alert) => {
            Error::TlsAlert { id: u8::from(*alert), text: format!("{alert:?}") }
        }
        _ => Error::Tls(error.to_string()),
    }
}

fn innermost(error: Cause<'_>) -> String {
    error_chain(error).last().map_or_else(|| error.to_string(), ToString::to_string)
}

/// Returns the error and its causes, outermost first.
fn error_chain(error: Cause<'_>) -> impl Iterator<Item = Cause<'_>> {
    std::iter::successors(Some(error), |cause| source_of(*cause))
}

/// Returns the cause of an error. The source of an I/O error that wraps an inner error is the
/// source of the inner error. This function returns the inner error instead, so that the chain
/// contains it.
fn source_of(error: Cause<'_>) -> Option<Cause<'_>> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn too_many_open_files_are_reported_as_such() {
        for (code, expected) in [
            (rustix::io::Errno::MFILE, "this process has"),
            (rustix::io::Errno::NFILE, "this machine has"),
        ] {
            let limit = io::Error::from_raw_os_error(code.raw_os_error());
            let Error::Other(text) = translate(&io::Error::other(limit)) else { panic!("{code}") };
            assert!(text.starts_with(expected) && text.contains("ulimit -n"), "{text}");
        }
    }
}
