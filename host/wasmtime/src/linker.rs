//! What a guest may import.

use super::context::Context;
use super::engine::Engine;
use wasmtime::component::{Linker, Resource};
use wasmtime::{Result, StoreContextMut};
use wasmtime_wasi_http::p2::bindings::http::outgoing_handler::Host;
use wasmtime_wasi_http::p2::bindings::http::types::{self, ErrorCode};
use wasmtime_wasi_http::p2::types::{HostFutureIncomingResponse, HostOutgoingRequest};
use wasmtime_wasi_http::{RequestOptions, WasiHttp, WasiHttpView};

/// By which requests are sent. Any other 0.2 that a component asks for is this one too.
const INTERFACE: &str = "wasi:http/outgoing-handler@0.2.12";

/// By which variables are asked for.
const ENVIRONMENT: &str = "wasi:cli/environment@0.2.12";

type Arguments = (Resource<HostOutgoingRequest>, Option<Resource<RequestOptions>>);
type Answer = std::result::Result<Resource<HostFutureIncomingResponse>, ErrorCode>;

/// Everything that a guest may import: WASI 0.2 without surprises.
pub(crate) fn linker(engine: &Engine) -> Result<Linker<Context>> {
    let mut linker = Linker::new(engine.wasmtime());
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    add_variables(&mut linker)?;
    let http = types::LinkOptions::default();
    types::add_to_linker::<_, WasiHttp>(&mut linker, &http, Context::http)?;
    add_sending(&mut linker)?;
    Ok(linker)
}

/// Links the variables. The engine's own are copied for each call, and then for each time that a guest asks.
fn add_variables(linker: &mut Linker<Context>) -> Result<()> {
    linker.allow_shadowing(true);
    let get_environment = |store: StoreContextMut<'_, Context>, (): ()| Ok((store.data().env(),));
    linker.instance(ENVIRONMENT)?.func_wrap("get-environment", get_environment)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Links sending. The engine's own keeps the options of each request, which the guest has given away
/// and cannot drop: after some thousand requests of one turn its table would be full.
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
        // Or a trap.
        Err(error) => Err(error.downcast()?),
    },))
}
