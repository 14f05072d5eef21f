//! What went wrong with a request.

use super::permit::Over;
use super::proxies::Proxy;
use hyper_util::client::legacy;
use std::error::Error as StdError;
use std::io;
use std::net::IpAddr;
use tokio::time::error::Elapsed;

/// What went wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is for no address that a request can go to.
    #[error("the URL is not valid")]
    InvalidUrl,
    /// It asks for a tunnel.
    #[error("the method is not allowed")]
    InvalidMethod,
    /// It may not go there, or its turn is over.
    #[error("the request is not allowed")]
    Denied,
    /// Its host is an address of this machine or of its link, and is not allowed by that address.
    #[error("the address is not allowed")]
    Prohibited,
    /// The name of its host could not be resolved.
    #[error("{0}")]
    Name(String),
    /// Nobody accepted the connection. Nothing was sent.
    #[error("the connection was refused")]
    NotConnected,
    /// There is no way to the address. Nothing was sent.
    #[error("there is no route to the address")]
    Unroutable,
    /// No connection in time. Nothing was sent.
    #[error("the connection took too long")]
    ConnectTimeout,
    /// The guest did not finish its request in time. Nothing was sent.
    #[error("the request took too long")]
    RequestTimeout,
    /// No answer, or no further part of one, in time.
    #[error("the answer took too long")]
    AnswerTimeout,
    /// The connection ended before the answer did.
    #[error("the connection was closed")]
    Ended,
    /// Too many requests are under way.
    #[error("too many requests are under way")]
    Busy,
    /// Its body has more than so many bytes. Nothing was sent.
    #[error("the body of the request has more than {0} bytes")]
    RequestTooLarge(u64),
    /// There is no room for the head of the answer.
    #[error("the head of the answer is too large")]
    HeadTooLarge,
    /// The body of the answer is too large.
    #[error("the answer is too large")]
    AnswerTooLarge,
    /// The peer ended the handshake of TLS with an alert.
    #[error("TLS: {text}")]
    Alert {
        /// Its number.
        id: u8,
        /// Its name.
        text: String,
    },
    /// The certificate, or the protocol of TLS.
    #[error("TLS: {0}")]
    Tls(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// Why a connection by a name was not made.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum NotFound {
    /// The name could not be resolved.
    #[error("{0}")]
    Unresolved(String),
    /// The name may not be resolved to where it points.
    #[error(
        "{name} resolves to {address}, an address of this machine, its link-local network or Azure's wire server; to \
         allow it, give --allow-host that address"
    )]
    Prohibited { name: String, address: IpAddr },
}

type Cause<'a> = &'a (dyn StdError + 'static);

/// The first error of this type among the causes of `error`, and itself.
pub(super) fn find<E: StdError + 'static>(error: Cause<'_>) -> Option<&E> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

/// The case that fits best; what has no case of its own keeps its text.
pub(super) fn translate(error: Cause<'_>) -> Error {
    if find::<Over>(error).is_some() {
        return Error::Denied;
    }
    if matches!(find(error), Some(NotFound::Prohibited { .. })) {
        return Error::Prohibited;
    }
    // Names are not resolved and connections not made then, although neither is at fault.
    if let Some(limit) = out_of_descriptors(error) {
        return Error::Other(limit);
    }
    if let Some(tls) = find::<rustls::Error>(error) {
        return translate_tls(tls);
    }
    let pooled = find::<reqwest::Error>(error);
    let is_unresolved = matches!(find(error), Some(NotFound::Unresolved(_)));
    if is_unresolved || pooled.is_some_and(reqwest::Error::is_dns) {
        return Error::Name(innermost(error));
    }
    // One that wraps another says less than that.
    let mut kinds = causes(error).filter_map(|cause| cause.downcast_ref()).map(io::Error::kind);
    let io = kinds.find(|kind| *kind != io::ErrorKind::Other);
    let connecting = pooled.is_some_and(reqwest::Error::is_connect)
        || find(error).is_some_and(legacy::Error::is_connect);
    if io == Some(io::ErrorKind::TimedOut)
        || find::<Elapsed>(error).is_some()
        || pooled.is_some_and(reqwest::Error::is_timeout)
    {
        return match connecting {
            true => Error::ConnectTimeout,
            false => Error::AnswerTimeout,
        };
    }
    match io {
        Some(io::ErrorKind::ConnectionRefused) if connecting => Error::NotConnected,
        // Of a connection that there is, all of them say the same: what was written may have arrived. For a turn it
        // matters whether it may. For the election it does not, and people are told what happened.
        Some(
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof,
        ) => match connecting && pooled.is_none() {
            true => Error::NotConnected,
            false => Error::Ended,
        },
        Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) => {
            match connecting {
                true => Error::Unroutable,
                false => Error::Ended,
            }
        }
        _ => translate_rest(error),
    }
}

/// The problem and the advice for a limit of open files that was reached.
fn out_of_descriptors(error: Cause<'_>) -> Option<String> {
    causes(error).filter_map(|cause| cause.downcast_ref()).find_map(Error::too_many_files)
}

impl Error {
    /// Explains an error that means too many open files; none for any other error.
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

    /// Only Unix has such a limit.
    #[cfg(not(unix))]
    pub fn too_many_files(_: &io::Error) -> Option<String> {
        None
    }
}

/// The same for a request that went through a proxy: an error of the connection is that of the proxy.
pub(super) fn translate_proxied(error: &reqwest::Error, proxy: &Proxy) -> Error {
    let is_of_proxy = error.is_connect()
        && !error.is_timeout()
        && find::<rustls::Error>(error).is_none()
        && out_of_descriptors(error).is_none();
    if !is_of_proxy {
        return translate(error);
    }
    let Proxy { variable, address } = proxy;
    let why = innermost(error);
    Error::Other(format!("through the proxy {address} of {variable}: {why}"))
}

fn translate_rest(error: Cause<'_>) -> Error {
    // The connection ended before the answer did, or before the request was written.
    let ended = |error: &hyper::Error| {
        error.is_incomplete_message() || error.is_closed() || error.is_canceled()
    };
    match find::<hyper::Error>(error).is_some_and(ended) {
        true => Error::Ended,
        false => Error::Other(innermost(error)),
    }
}

fn translate_tls(error: &rustls::Error) -> Error {
    match error {
        rustls::Error::InvalidCertificate(bad) if let Some(why) = Error::of_authority(bad) => {
            Error::Tls(why.to_owned())
        }
        rustls::Error::AlertReceived(alert) => {
            Error::Alert { id: u8::from(*alert), text: format!("{alert:?}") }
        }
        _ => Error::Tls(error.to_string()),
    }
}

fn innermost(error: Cause<'_>) -> String {
    causes(error).last().map_or_else(|| error.to_string(), ToString::to_string)
}

/// The error and its causes, outermost first.
fn causes(error: Cause<'_>) -> impl Iterator<Item = Cause<'_>> {
    std::iter::successors(Some(error), |cause| cause_of(*cause))
}

/// An I/O error that wraps another error hides it: its source is the other's source.
fn cause_of(error: Cause<'_>) -> Option<Cause<'_>> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn too_many_open_files_are_neither_the_name_nor_the_network() {
        for (code, whose) in [
            (rustix::io::Errno::MFILE, "this process has"),
            (rustix::io::Errno::NFILE, "this machine has"),
        ] {
            let limit = io::Error::from_raw_os_error(code.raw_os_error());
            let Error::Other(told) = translate(&io::Error::other(limit)) else { panic!("{code}") };
            assert!(told.starts_with(whose) && told.contains("ulimit -n"), "{told}");
        }
    }
}
