//! Links the imports of guests: WASI 0.2. HTTP requests of a guest go through a [`Gate`].

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

/// The interface that sends requests. The linker also uses this definition for imports of other 0.2
/// versions.
const OUTGOING_HANDLER: &str = "wasi:http/outgoing-handler@0.2.12";

/// The interface of the environment.
const ENVIRONMENT: &str = "wasi:cli/environment@0.2.12";

type Arguments = (Resource<HostOutgoingRequest>, Option<Resource<RequestOptions>>);
type HandleResult = std::result::Result<Resource<HostFutureIncomingResponse>, ErrorCode>;

/// Links all imports of a guest: WASI 0.2 with limits.
pub(crate) fn linker(engine: &Engine) -> Result<Linker<Context>> {
    let mut linker = Linker::new(engine.wasmtime());
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    add_environment(&mut linker)?;
    let http = types::LinkOptions::default();
    types::add_to_linker::<_, WasiHttp>(&mut linker, &http, Context::http)?;
    add_outgoing_handler(&mut linker)?;
    Ok(linker)
}

/// Links the environment. Wasmtime's own implementation would copy it for each call, and again for
/// each read by the guest.
fn add_environment(linker: &mut Linker<Context>) -> Result<()> {
    linker.allow_shadowing(true);
    let get_environment = |store: StoreContextMut<'_, Context>, (): ()| Ok((store.data().env(),));
    linker.instance(ENVIRONMENT)?.func_wrap("get-environment", get_environment)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Links the function that sends requests. Wasmtime's own implementation would never drop the
/// options of a request, and the guest cannot drop them either. So the guest's table would be full
/// after some thousand requests of one turn.
fn add_outgoing_handler(linker: &mut Linker<Context>) -> Result<()> {
    linker.instance(OUTGOING_HANDLER)?.func_wrap("handle", handle)
}

fn handle(
    mut store: StoreContextMut<'_, Context>,
    (request, options): Arguments,
) -> Result<(HandleResult,)> {
    let mut http = store.data_mut().http();
    let borrowed_options = options.as_ref().map(|options| Resource::new_borrow(options.rep()));
    let result = Host::handle(&mut http, request, borrowed_options);
    if let Some(options) = options {
        http.table.delete(options)?;
    }
    Ok((match result {
        Ok(response) => Ok(response),
        // Errors without an HTTP error code are traps.
        Err(error) => Err(error.downcast()?),
    },))
}

type SentResponse = (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

/// Sends a guest's requests through a gate.
pub(crate) struct GateHooks(pub Gate);

impl WasiHttpHooks for GateHooks {
    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        Budget::CHUNK
    }

    fn set_host_header(&mut self) -> bool {
        // The HTTP client sets the header from the URL.
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

/// Returns the closest error of `wasi:http`; an error without one keeps its text.
fn to_wasi_error(error: engine::Error) -> Error {
    use engine::Error as GateError;
    match error {
        GateError::InvalidUrl => Error::HttpRequestUriInvalid,
        GateError::InvalidMethod => Error::HttpRequestMethodInvalid,
        GateError::Denied => Error::HttpRequestDenied,
        GateError::AddressDenied => Error::DestinationIpProhibited,
        GateError::NameResolution(why) => Error::DnsError { rcode: Some(why), info_code: None },
        GateError::ConnectionRefused => Error::ConnectionRefused,
        GateError::NoRoute => Error::DestinationIpUnroutable,
        GateError::ConnectTimeout => Error::ConnectionTimeout,
        GateError::RequestTimeout => Error::ConnectionWriteTimeout,
        GateError::ResponseTimeout => Error::ConnectionReadTimeout,
        GateError::ConnectionClosed => Error::ConnectionTerminated,
        GateError::TooManyRequests => Error::ConnectionLimitReached,
        GateError::RequestTooLarge(limit) => Error::HttpRequestBodySize(Some(limit)),
        GateError::ResponseHeadTooLarge => Error::HttpResponseHeaderSectionSize(None),
        GateError::ResponseTooLarge => Error::HttpResponseBodySize(None),
        GateError::TlsAlert { id, text } => {
            Error::TlsAlertReceived { alert_id: Some(id), alert_message: Some(text) }
        }
        GateError::Tls(_) | GateError::Other(_) => Error::InternalError(Some(error.to_string())),
    }
}
