//! Plugs components together.

use tenure::engine::LEADER_HANDLER;
use tenure_core::error_chain;
use wac_graph::types::{ItemKind, Package, are_semver_compatible};
use wac_graph::{CompositionGraph, EncodeOptions, NodeId, PackageId};

/// The entry points for platforms, in the order of a component's exports: some hosts take the first
/// that they know.
const EXPORTS: [&str; 4] = [
    "wasi:cli/run@0.2.0",
    "wasi:http/incoming-handler@0.2.0",
    "handle-cron-event",
    "tenure:election/election@0.1.0",
];

/// The environment interface, in the filter's version.
const ENVIRONMENT: &str = "wasi:cli/environment@0.2.0";

/// Returns true if an import is the environment, in any version.
pub fn is_environment(import: &str) -> bool {
    import.starts_with("wasi:cli/environment@")
}

/// Plugs `handler` into `socket`, and `filter` between the handler and its environment.
///
/// # Errors Returns the reason if they do not fit.
pub fn plug(socket: &[u8], handler: &[u8], filter: &[u8]) -> Result<Vec<u8>, String> {
    let mut graph = CompositionGraph::new();
    let socket = register(&mut graph, "tenure:socket", socket)?;
    let handler = register(&mut graph, "tenure:handler", handler)?;
    let handler_instance = graph.instantiate(handler);
    // An import without an argument would get the platform's environment, with the election's
    // secrets.
    let environments: Vec<_> =
        imports(&graph, handler).filter(|name| is_environment(name)).cloned().collect();
    if let Some(other) = environments.iter().find(|name| !is_compatible(name, ENVIRONMENT)) {
        return Err(format!(
            "it imports {other}, which is not filtered; build it for {ENVIRONMENT}"
        ));
    }
    if !environments.is_empty() {
        let filter = register(&mut graph, "tenure:filter", filter)?;
        let filter = graph.instantiate(filter);
        let filtered = alias(&mut graph, filter, ENVIRONMENT)?;
        for environment in environments {
            set_argument(&mut graph, handler_instance, &environment, filtered)?;
        }
    }
    let elector = graph.instantiate(socket);
    let plugged = alias(&mut graph, handler_instance, LEADER_HANDLER)?;
    let socket_import = import(&graph, socket, LEADER_HANDLER)
        .ok_or_else(|| format!("the socket does not import {LEADER_HANDLER}"))?;
    set_argument(&mut graph, elector, &socket_import, plugged)?;
    export_all(graph, elector)
}

/// Returns the import of a component with this name, in any version.
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
pub fn is_compatible(name: &str, other: &str) -> bool {
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

/// Returns the export of an instance with this name, in any version.
fn export(graph: &CompositionGraph, instance: NodeId, name: &str) -> Result<String, String> {
    let exports = match graph[instance].item_kind() {
        ItemKind::Instance(id) => &graph.types()[id].exports,
        _ => return Err("not an instance".to_owned()),
    };
    let known = exports.keys().find(|known| is_compatible(known, name)).cloned();
    known.ok_or_else(|| format!("it does not export {name}"))
}
