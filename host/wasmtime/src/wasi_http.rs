//! Requests of a component: `wasi:http` on a [`Gate`].

use http_body_util::BodyExt as _;
use tenure::engine::{self, Body, Budget, Gate, Limits};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

type Answer = (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

/// Adapts a gate to the engine.
pub(crate) struct Guarded(pub Gate);

impl WasiHttpHooks for Guarded {
    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        Budget::CHUNK
    }

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
        let options = options.unwrap_or_default();
        let limits = Limits {
            connect: options.connect_timeout,
            first_byte: options.first_byte_timeout,
            between_bytes: options.between_bytes_timeout,
        };
        let body = |body: WasiBody| -> Body {
            body.map_err(|error| engine::Error::Other(error.to_string())).boxed_unsync()
        };
        let sent = self.0.clone().send(request.map(body), limits);
        Box::new(async move {
            let response = sent.await.map_err(to_wasi_error)?;
            let done: Box<dyn Future<Output = Result<(), Error>> + Send> =
                Box::new(std::future::ready(Ok(())));
            Ok((response.map(|body| body.map_err(to_wasi_error).boxed_unsync()), done))
        })
    }
}

/// Returns the closest standard error; an error without one keeps its text.
fn to_wasi_error(error: engine::Error) -> Error {
    use engine::Error as Own;
    match error {
        Own::InvalidUrl => Error::HttpRequestUriInvalid,
        Own::InvalidMethod => Error::HttpRequestMethodInvalid,
        Own::Denied => Error::HttpRequestDenied,
        Own::AddressDenied => Error::DestinationIpProhibited,
        Own::NameResolution(why) => Error::DnsError { rcode: Some(why), info_code: None },
        Own::ConnectionRefused => Error::ConnectionRefused,
        Own::NoRoute => Error::DestinationIpUnroutable,
        Own::ConnectTimeout => Error::ConnectionTimeout,
        Own::RequestTimeout => Error::ConnectionWriteTimeout,
        Own::ResponseTimeout => Error::ConnectionReadTimeout,
        Own::ConnectionClosed => Error::ConnectionTerminated,
        Own::TooManyRequests => Error::ConnectionLimitReached,
        Own::RequestTooLarge(most) => Error::HttpRequestBodySize(Some(most)),
        Own::ResponseHeadTooLarge => Error::HttpResponseHeaderSectionSize(None),
        Own::ResponseTooLarge => Error::HttpResponseBodySize(None),
        Own::TlsAlert { id, text } => {
            Error::TlsAlertReceived { alert_id: Some(id), alert_message: Some(text) }
        }
        Own::Tls(_) | Own::Other(_) => Error::InternalError(Some(error.to_string())),
    }
}
