//! Composes an election and a handler into one component, for other platforms than this program.
//!
//! The handler is plugged into the socket: the election component with the entry points that
//! platforms call. A filter keeps the election's secrets out of the handler's environment. The
//! handler's other imports remain, so the platform controls its access.
//!
//! Features that need this program are missing. The lease is not renewed during a turn, and a turn
//! that outlasts it is not stopped but reported as overrun. A handler that traps ends the instance
//! with it. Its slot then stays claimed, and the lease expires instead of being released: within 60
//! s unless `TENURE_LEASE` differs.

mod graph;
#[cfg(test)]
mod strip;

use wac_graph::types::{Package, Types};

use crate::ELECTION_COMPONENT;
pub use tenure::engine::LEADER_HANDLER;

/// The election component that posts each turn to `TENURE_HANDLER_URL`: the WIT world `platform`.
/// It runs on any platform unchanged.
pub const UNIVERSAL_COMPONENT: &[u8] = include_bytes!(env!("TENURE_UNIVERSAL"));

/// The filter between a handler and its environment.
const FILTER: &[u8] = include_bytes!(env!("TENURE_FILTER"));

/// A composed component.
#[derive(Clone, Debug)]
pub struct Composed {
    /// The component.
    pub bytes: Vec<u8>,
    /// The names of its exports, in order.
    pub exports: Vec<String>,
    /// The names of the handler's imports.
    pub handler_imports: Vec<String>,
    /// True if the handler has an environment, which is filtered.
    pub filtered: bool,
}

/// The reason why a handler cannot be composed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ComposeError {
    /// The file is not WebAssembly.
    #[error("it is not WebAssembly")]
    NotWasm,
    /// The file is a core module.
    #[error(
        "it is a core module, not a component; build it for wasm32-wasip2, or make a component of \
         it with wasm-tools component new"
    )]
    CoreModule,
    /// The component is invalid.
    #[error("it is not a valid component: {0}")]
    Invalid(String),
    /// The component exports no handler.
    #[error("it exports {}; a handler exports {LEADER_HANDLER}", list(.0))]
    NoHandler(Vec<String>),
    /// The handler does not fit the socket, for example because of its types.
    #[error("it does not fit: {0}")]
    Misfit(String),
}

/// Plugs a handler into the socket.
///
/// # Errors Returns the problem of the handler.
pub fn compose(handler: &[u8]) -> Result<Composed, ComposeError> {
    if handler.starts_with(b"\0asm\x01\0\0\0") {
        return Err(ComposeError::CoreModule);
    }
    if !handler.starts_with(b"\0asm") {
        return Err(ComposeError::NotWasm);
    }
    let (handler_imports, exports) = world(handler).map_err(ComposeError::Invalid)?;
    if !exports.iter().any(|name| graph::is_compatible(name, LEADER_HANDLER)) {
        return Err(ComposeError::NoHandler(exports));
    }
    let bytes = graph::plug(ELECTION_COMPONENT, handler, FILTER).map_err(ComposeError::Misfit)?;
    let (_, exports) = world(&bytes).map_err(ComposeError::Misfit)?;
    let filtered = handler_imports.iter().any(|name| graph::is_environment(name));
    Ok(Composed { bytes, exports, handler_imports, filtered })
}

/// Returns the names of a component's imports and exports.
fn world(component: &[u8]) -> Result<(Vec<String>, Vec<String>), String> {
    let mut types = Types::default();
    let package = Package::from_bytes("it", None, component.to_vec(), &mut types)
        .map_err(|error| format!("{error:#}"))?;
    let world = &types[package.ty()];
    Ok((world.imports.keys().cloned().collect(), world.exports.keys().cloned().collect()))
}

fn list(names: &[String]) -> String {
    match names {
        [] => "nothing".to_owned(),
        names => names.join(", "),
    }
}

#[cfg(test)]
mod tests;
