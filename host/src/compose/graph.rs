//! Plugging components together, with exports in the order in which hosts look for them. Shared with the build
//! script, which makes `tenure.wasm` of the socket and the webhook.

use wac_graph::types::{Package, are_semver_compatible};
use wac_graph::{CompositionGraph, EncodeOptions, NodeId, PackageId};

/// The interface by which a handler is called.
pub const LEADER_HANDLER: &str = "tenure:election/leader-handler@0.1.0";

/// The interface by which a handler is asked for complaints about its settings.
pub const HANDLER_SETTINGS: &str = "tenure:election/handler-settings@0.1.0";

/// The variables that a component is given.
pub const ENVIRONMENT: &str = "wasi:cli/environment@0.2.0";

/// What platforms call, in the order in which a component for them has it: some hosts take the
/// first that they know.
pub const EXPORTS: [&str; 4] = [
    "wasi:cli/run@0.2.0",
    "wasi:http/incoming-handler@0.2.0",
    "handle-cron-event",
    "tenure:election/election@0.1.0",
];

/// Whether two names are those of one interface, in versions that go together.
pub fn same(name: &str, other: &str) -> bool {
    name == other || are_semver_compatible(name, other)
}

/// Plugs `handler` into `socket`, and `filter` between the handler and its environment. For a handler that does not
/// judge its settings the filter does.
///
/// # Errors
/// Why they do not go together.
pub fn plug(socket: &[u8], handler: &[u8], filter: &[u8]) -> Result<Vec<u8>, String> {
    let mut graph = CompositionGraph::new();
    let socket = register(&mut graph, "tenure:socket", socket)?;
    let handler = register(&mut graph, "tenure:handler", handler)?;
    let filter = register(&mut graph, "tenure:filter", filter)?;
    let filter = graph.instantiate(filter);
    let work = graph.instantiate(handler);
    if let Some(environment) = import(&graph, handler, ENVIRONMENT) {
        let filtered = alias(&mut graph, filter, ENVIRONMENT)?;
        argue(&mut graph, work, &environment, filtered)?;
    }
    let judge = if export(&graph, work, HANDLER_SETTINGS).is_ok() { work } else { filter };
    let elector = graph.instantiate(socket);
    for (plug, name) in [(work, LEADER_HANDLER), (judge, HANDLER_SETTINGS)] {
        let plugged = alias(&mut graph, plug, name)?;
        let wanted = import(&graph, socket, name)
            .ok_or_else(|| format!("the socket does not import {name}"))?;
        argue(&mut graph, elector, &wanted, plugged)?;
    }
    ordered(graph, elector)
}

/// The component that exports what `instance` does.
fn ordered(mut graph: CompositionGraph, instance: NodeId) -> Result<Vec<u8>, String> {
    for name in EXPORTS {
        let name = export(&graph, instance, name)?;
        let item = graph.alias_instance_export(instance, &name).map_err(told)?;
        graph.export(item, name).map_err(told)?;
    }
    graph.encode(EncodeOptions::default()).map_err(told)
}

fn register(graph: &mut CompositionGraph, name: &str, bytes: &[u8]) -> Result<PackageId, String> {
    let package = Package::from_bytes(name, None, bytes.to_vec(), graph.types_mut());
    let package = package.map_err(|error| format!("{error:#}"))?;
    graph.register_package(package).map_err(told)
}

/// The import of a component that has this name, in whatever version.
fn import(graph: &CompositionGraph, package: PackageId, name: &str) -> Option<String> {
    let world = &graph.types()[graph[package].ty()];
    world.imports.keys().find(|known| same(known, name)).cloned()
}

/// The export of an instance that has this name, in whatever version.
fn export(graph: &CompositionGraph, instance: NodeId, name: &str) -> Result<String, String> {
    let exports = match graph[instance].item_kind() {
        wac_graph::types::ItemKind::Instance(id) => &graph.types()[id].exports,
        _ => return Err("not an instance".to_owned()),
    };
    let known = exports.keys().find(|known| same(known, name)).cloned();
    known.ok_or_else(|| format!("it does not export {name}"))
}

fn alias(graph: &mut CompositionGraph, instance: NodeId, name: &str) -> Result<NodeId, String> {
    let name = export(graph, instance, name)?;
    graph.alias_instance_export(instance, &name).map_err(told)
}

fn argue(
    graph: &mut CompositionGraph,
    instance: NodeId,
    name: &str,
    argument: NodeId,
) -> Result<(), String> {
    graph.set_instantiation_argument(instance, name, argument).map_err(told)
}

/// An error with all of its causes.
fn told(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
