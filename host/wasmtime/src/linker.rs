//! The imports of a guest, and its requests: `wasi:http` on a [`Gate`].

use super::context::Context;
use super::engine::Engine;
use http_body_util::BodyExt as _;
use tenure::engine::{self, Body, Budget, Gate, Limits};
use wasmtime::component::{Linker, Resource};
use wasmtime::{Result, StoreContextMut};
use wasmtime_wasi_http::p2::bindings::http::outgoing_handler::Host;
use wasmtime_wasi_http::p2::bindings::http::types::{self, ErrorCode};
use wasmtime_wasi_http::p2::types::{HostFutureIncomingResponse, HostOutgoingRequest};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttp, WasiHttpHooks, WasiHttpView};

/// The interface that sends requests. The linker uses it for all other 0.2 versions too.
const OUTGOING_HANDLER: &str = "wasi:http/outgoing-handler@0.2.12";

/// The interface of the environment.
const ENVIRONMENT: &str = "wasi:cli/environment@0.2.12";

type Arguments = (Resource<HostOutgoingRequest>, Option<Resource<RequestOptions>>);
type Answer = std::result::Result<Resource<HostFutureIncomingResponse>, ErrorCode>;

/// Links all imports of a guest: WASI 0.2 with limits.
pub(crate) fn linker(engine: &Engine) -> Result<Linker<Context>> {
    let mut linker = Linker::new(engine.wasmtime());
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    add_variables(&mut linker)?;
    let http = types::LinkOptions::default();
    types::add_to_linker::<_, WasiHttp>(&mut linker, &http, Context::http)?;
    add_sending(&mut linker)?;
    Ok(linker)
}

/// Links the environment. The engine's own implementation would copy it for each call, and again
/// for each read by the guest.
fn add_variables(linker: &mut Linker<Context>) -> Result<()> {
    linker.allow_shadowing(true);
    let get_environment = |store: StoreContextMut<'_, Context>, (): ()| Ok((store.data().env(),));
    linker.instance(ENVIRONMENT)?.func_wrap("get-environment", get_environment)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Links the sending of requests. The engine's own implementation would keep the options of each
/// request, because the guest can no longer drop them. Its table would be full after some thousand
/// requests of one turn.
fn add_sending(linker: &mut Linker<Context>) -> Result<()> {
    linker.instance(OUTGOING_HANDLER)?.func_wrap("handle", handle)
}

fn handle(
    mut store: StoreContextMut<'_, Context>,
    (request, options): Arguments,
) -> Result<(Answer,)> {
    let mut http = store.data_mut().http();
    let borrowed_options = options.as_ref().map(|options| Resource::new_borrow(options.rep()));
    let answer = Host::handle(&mut http, request, borrowed_options);
    if let Some(options) = options {
        http.table.delete(options)?;
    }
    Ok((match answer {
        Ok(answer) => Ok(answer),
        // Other errors than HTTP error codes are traps, and are passed on.
        Err(error) => Err(error.downcast()?),
    },))
}

type SentResponse = (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

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
    ) -> Box<dyn Future<Output = Result<SentResponse, Error>> + Send> {
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
