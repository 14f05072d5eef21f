//! The imports of a guest.

use super::context::Context;
use super::engine::Engine;
use wasmtime::component::{Linker, Resource};
use wasmtime::{Result, StoreContextMut};
use wasmtime_wasi_http::p2::bindings::http::outgoing_handler::Host;
use wasmtime_wasi_http::p2::bindings::http::types::{self, ErrorCode};
use wasmtime_wasi_http::p2::types::{HostFutureIncomingResponse, HostOutgoingRequest};
use wasmtime_wasi_http::{RequestOptions, WasiHttp, WasiHttpView};

/// The interface that sends requests. The linker uses it for all other 0.2 versions too.
const INTERFACE: &str = "wasi:http/outgoing-handler@0.2.12";

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
    linker.instance(INTERFACE)?.func_wrap("handle", handle)
}

fn handle(
    mut store: StoreContextMut<'_, Context>,
    (request, options): Arguments,
) -> Result<(Answer,)> {
    let mut http = store.data_mut().http();
    let lent = options.as_ref().map(|options| Resource::new_borrow(options.rep()));
    let answer = Host::handle(&mut http, request, lent);
    if let Some(options) = options {
        http.table.delete(options)?;
    }
    Ok((match answer {
        Ok(answer) => Ok(answer),
        // Other errors than HTTP error codes are traps, and are passed on.
        Err(error) => Err(error.downcast()?),
    },))
}
