//! Composes an election and a handler into one component, for other platforms than this program.
//!
//! The handler is plugged into the socket. The socket is the election component with the entry
//! points that platforms call. A filter keeps the election's secrets out of the handler's
//! environment. The handler's other imports remain, so the platform controls its access.
//!
//! Features that need this program are missing. The lease is not renewed during a turn. A turn that
//! outlasts the lease is not stopped but reported as overrun. A handler that traps ends the
//! instance. The slot of its turn then stays claimed, and the lease expires instead of being
//! released: within 60 s unless `TENURE_LEASE` differs.

use tenure_core::error_chain;
use wac_graph::types::{ItemKind, Package, Types, are_semver_compatible};
use wac_graph::{CompositionGraph, EncodeOptions, NodeId, PackageId};

use super::bindings::LEADER_HANDLER;
use crate::ELECTION_COMPONENT;

/// The election component that posts each turn to `TENURE_HANDLER_URL`: the WIT world `platform`.
/// It runs on any platform unchanged.
pub const UNIVERSAL_COMPONENT: &[u8] = include_bytes!(env!("TENURE_UNIVERSAL"));

/// The filter between a handler and its environment.
const FILTER: &[u8] = include_bytes!(env!("TENURE_FILTER"));

/// Adds Spin's variables to the environment.
const SPIN_VARIABLES: &[u8] = include_bytes!(env!("TENURE_SPIN_VARIABLES"));

/// The entry points for platforms. Their order is that of the component's exports: some hosts call
/// the first one that they know.
const EXPORTS: [&str; 4] = [
    "wasi:http/incoming-handler@0.2.0",
    "wasi:cli/run@0.2.0",
    "handle-cron-event",
    "tenure:election/election@0.1.0",
];

/// Interfaces that read Spin's variables, as prefixes of their names.
const SPIN_VARIABLE_INTERFACES: [&str; 4] =
    ["wasi:config/", "spin:variables/", "fermyon:spin/variables", "fermyon:spin/config"];

/// The environment interface, in the filter's version.
const ENVIRONMENT: &str = "wasi:cli/environment@0.2.0";

/// A composed component.
#[derive(Clone, Debug)]
pub struct Composed {
    /// The component.
    pub bytes: Vec<u8>,
    /// The names of its exports, in order.
    pub exports: Vec<String>,
    /// The names of the handler's imports, if it has a handler.
    pub handler_imports: Option<Vec<String>>,
    /// True if the handler has an environment, which is filtered.
    pub filtered: bool,
}

impl Composed {
    /// Returns the component that posts each turn to a URL, without a handler.
    ///
    /// # Errors
    ///
    /// The embedded component is invalid.
    pub fn webhook() -> Result<Self, ComposeError> {
        let (_, exports) = world(UNIVERSAL_COMPONENT).map_err(ComposeError::Invalid)?;
        let bytes = UNIVERSAL_COMPONENT.to_vec();
        Ok(Self { bytes, exports, handler_imports: None, filtered: false })
    }

    /// Adds Spin's variables to the environment: `tenure_every` becomes `TENURE_EVERY`.
    ///
    /// # Errors
    ///
    /// The handler could read Spin's variables without the filter.
    pub fn with_spin_variables(self) -> Result<Self, ComposeError> {
        let is_unfiltered = |import: &&String| {
            SPIN_VARIABLE_INTERFACES.iter().any(|interface| import.starts_with(interface))
        };
        if let Some(import) = self.handler_imports.iter().flatten().find(is_unfiltered) {
            return Err(ComposeError::Misfit(format!(
                "it imports {import}, by which it could read the election's variables"
            )));
        }
        let bytes = add_spin_variables(&self.bytes).map_err(ComposeError::Misfit)?;
        Ok(Self { bytes, ..self })
    }
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
/// # Errors
///
/// Returns the reason why the handler cannot be composed.
pub fn compose(handler: &[u8]) -> Result<Composed, ComposeError> {
    if handler.starts_with(b"\0asm\x01\0\0\0") {
        return Err(ComposeError::CoreModule);
    }
    if !handler.starts_with(b"\0asm") {
        return Err(ComposeError::NotWasm);
    }
    let (handler_imports, exports) = world(handler).map_err(ComposeError::Invalid)?;
    if !exports.iter().any(|name| is_compatible(name, LEADER_HANDLER)) {
        return Err(ComposeError::NoHandler(exports));
    }
    let bytes = plug(ELECTION_COMPONENT, handler, FILTER).map_err(ComposeError::Misfit)?;
    let (_, exports) = world(&bytes).map_err(ComposeError::Misfit)?;
    let filtered = handler_imports.iter().any(|name| is_environment(name));
    Ok(Composed { bytes, exports, handler_imports: Some(handler_imports), filtered })
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

/// Returns true if `import` is the environment, in any version.
fn is_environment(import: &str) -> bool {
    import.starts_with("wasi:cli/environment@")
}

/// Plugs `handler` into `socket`, and `filter` between the handler and its environment.
///
/// # Errors
///
/// Returns the reason why they do not fit.
fn plug(socket: &[u8], handler: &[u8], filter: &[u8]) -> Result<Vec<u8>, String> {
    let mut graph = CompositionGraph::new();
    let socket = register(&mut graph, "tenure:socket", socket)?;
    let handler = register(&mut graph, "tenure:handler", handler)?;
    let handler_instance = graph.instantiate(handler);
    plug_environment(&mut graph, handler, handler_instance, filter)?;
    let elector = graph.instantiate(socket);
    let plugged = alias(&mut graph, handler_instance, LEADER_HANDLER)?;
    let socket_import = import(&graph, socket, LEADER_HANDLER)
        .ok_or_else(|| format!("the socket does not import {LEADER_HANDLER}"))?;
    set_argument(&mut graph, elector, &socket_import, plugged)?;
    export_all(graph, elector)
}

/// Plugs [`SPIN_VARIABLES`] between `component` and its environment.
fn add_spin_variables(component: &[u8]) -> Result<Vec<u8>, String> {
    let mut graph = CompositionGraph::new();
    let component = register(&mut graph, "tenure:composed", component)?;
    let instance = graph.instantiate(component);
    plug_environment(&mut graph, component, instance, SPIN_VARIABLES)?;
    export_all(graph, instance)
}

/// Plugs `source` between an instance of `component` and its environment.
fn plug_environment(
    graph: &mut CompositionGraph,
    component: PackageId,
    instance: NodeId,
    source: &[u8],
) -> Result<(), String> {
    // An import that is not connected would get the platform's environment, with the election's
    // secrets.
    let environments: Vec<_> =
        imports(graph, component).filter(|name| is_environment(name)).cloned().collect();
    if let Some(other) = environments.iter().find(|name| !is_compatible(name, ENVIRONMENT)) {
        return Err(format!(
            "it imports {other}, which is not filtered; build it for {ENVIRONMENT}"
        ));
    }
    if environments.is_empty() {
        return Ok(());
    }
    let source = register(graph, "tenure:environment", source)?;
    let source = graph.instantiate(source);
    let source = alias(graph, source, ENVIRONMENT)?;
    environments.iter().try_for_each(|name| set_argument(graph, instance, name, source))
}

/// Returns the import of a component with this name, in any compatible version.
fn import(graph: &CompositionGraph, package: PackageId, name: &str) -> Option<String> {
    imports(graph, package).find(|known| is_compatible(known, name)).cloned()
}

fn imports(graph: &CompositionGraph, package: PackageId) -> impl Iterator<Item = &String> {
    graph.types()[graph[package].ty()].imports.keys()
}

fn alias(graph: &mut CompositionGraph, instance: NodeId, name: &str) -> Result<NodeId, String> {
    let name = export(graph, instance, name)?;
    graph.alias_instance_export(instance, &name).map_err(|error| error_chain(&error))
}

fn set_argument(
    graph: &mut CompositionGraph,
    instance: NodeId,
    name: &str,
    argument: NodeId,
) -> Result<(), String> {
    graph.set_instantiation_argument(instance, name, argument).map_err(|error| error_chain(&error))
}

/// Returns true if two names are compatible versions of one interface.
fn is_compatible(name: &str, other: &str) -> bool {
    name == other || are_semver_compatible(name, other)
}

/// Returns a component with the exports of `instance`.
fn export_all(mut graph: CompositionGraph, instance: NodeId) -> Result<Vec<u8>, String> {
    for name in EXPORTS {
        let item = alias(&mut graph, instance, name)?;
        graph.export(item, export(&graph, instance, name)?).map_err(|error| error_chain(&error))?;
    }
    graph.encode(EncodeOptions::default()).map_err(|error| error_chain(&error))
}

/// Registers a component in the graph.
fn register(graph: &mut CompositionGraph, name: &str, bytes: &[u8]) -> Result<PackageId, String> {
    let package = Package::from_bytes(name, None, bytes.to_vec(), graph.types_mut());
    let package = package.map_err(|error| format!("{error:#}"))?;
    graph.register_package(package).map_err(|error| error_chain(&error))
}

/// Returns the export of an instance with this name, in any compatible version.
fn export(graph: &CompositionGraph, instance: NodeId, name: &str) -> Result<String, String> {
    let exports = match graph[instance].item_kind() {
        ItemKind::Instance(id) => &graph.types()[id].exports,
        _ => return Err("not an instance".to_owned()),
    };
    let known = exports.keys().find(|known| is_compatible(known, name)).cloned();
    known.ok_or_else(|| format!("it does not export {name}"))
}

#[cfg(test)]
mod tests;
