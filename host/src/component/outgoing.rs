//! `wasi:http/outgoing-handler`, around the engine's own.

use super::context::Context;
use wasmtime::component::{Linker, Resource};
use wasmtime::{Result, StoreContextMut};
use wasmtime_wasi_http::RequestOptions;
use wasmtime_wasi_http::WasiHttpView;
use wasmtime_wasi_http::p2::bindings::http::outgoing_handler::Host;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::p2::types::{HostFutureIncomingResponse, HostOutgoingRequest};

/// Any other 0.2 that a component asks for is this one too.
const INTERFACE: &str = "wasi:http/outgoing-handler@0.2.12";

type Arguments = (Resource<HostOutgoingRequest>, Option<Resource<RequestOptions>>);
type Answer = std::result::Result<Resource<HostFutureIncomingResponse>, ErrorCode>;

/// Links it. The engine's own keeps the options of each request, which the guest has given away
/// and cannot drop: after some thousand requests of one turn its table would be full.
pub(super) fn add_to_linker(linker: &mut Linker<Context>) -> Result<()> {
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
