//! An election and a handler in one component, for platforms that are not this program.
//!
//! The handler is plugged into the socket, which is the election component with the entries that
//! platforms call, and a filter keeps the election's secrets out of its environment. Its other imports are
//! kept, so the platform decides what it reaches.
//!
//! What only this program can do is missing there: nothing renews the lease during a turn, and nothing ends
//! a turn that outlasts it; such a turn is told to have overrun. A handler that traps takes
//! the instance with it, so that its slot stays claimed and the lease is not
//! released but runs out, within 60 s unless `TENURE_LEASE` says otherwise.

mod graph;
#[cfg(test)]
mod strip;

use wac_graph::types::{Package, Types};

use crate::ELECTION_COMPONENT;
pub use tenure::engine::LEADER_HANDLER;

/// The election component that posts each turn to `TENURE_HANDLER_URL`: the WIT world `platform`. It runs anywhere as
/// it is.
pub const UNIVERSAL_COMPONENT: &[u8] = include_bytes!(env!("TENURE_UNIVERSAL"));

/// Stands between a handler and its environment.
const FILTER: &[u8] = include_bytes!(env!("TENURE_FILTER"));

/// A composed component.
#[derive(Clone, Debug)]
pub struct Composed {
    /// The component.
    pub bytes: Vec<u8>,
    /// What it exports, in this order.
    pub exports: Vec<String>,
    /// What the handler imports.
    pub handler_imports: Vec<String>,
    /// The handler has an environment, which is filtered.
    pub filtered: bool,
}

/// Why nothing was composed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ComposeError {
    /// It is not WebAssembly at all.
    #[error("it is not WebAssembly")]
    NotWasm,
    /// It is a module, of which components are made.
    #[error(
        "it is a core module, not a component; build it for wasm32-wasip2, or make a component of \
         it with wasm-tools component new"
    )]
    CoreModule,
    /// It cannot be read.
    #[error("it is not a valid component: {0}")]
    Invalid(String),
    /// It is no handler.
    #[error("it exports {}; a handler exports {LEADER_HANDLER}", list(.0))]
    NoHandler(Vec<String>),
    /// Its types are not those of the socket, or it cannot be plugged for another reason.
    #[error("it does not fit: {0}")]
    Misfit(String),
}

/// Plugs a handler into the socket.
///
/// # Errors
/// What is wrong with the handler.
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

/// Imports and exports of a component, by name.
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
