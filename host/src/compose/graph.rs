//! Plugging components together.

use super::order::{export, ordered, register, same};
use crate::causes::causes;
use wac_graph::{CompositionGraph, NodeId, PackageId};

/// The interface by which a handler is called.
pub const LEADER_HANDLER: &str = "tenure:election/leader-handler@0.1.0";

/// The variables that a component is given, in the version that the filter has.
const ENVIRONMENT: &str = "wasi:cli/environment@0.2.0";

/// Whether an import has them, in whatever version.
pub fn is_environment(import: &str) -> bool {
    import.starts_with("wasi:cli/environment@")
}

/// Plugs `handler` into `socket`, and `filter` between the handler and its environment.
///
/// # Errors
/// Why they do not go together.
pub fn plug(socket: &[u8], handler: &[u8], filter: &[u8]) -> Result<Vec<u8>, String> {
    let mut graph = CompositionGraph::new();
    let socket = register(&mut graph, "tenure:socket", socket)?;
    let handler = register(&mut graph, "tenure:handler", handler)?;
    let work = graph.instantiate(handler);
    // An import that is left without an argument is the platform's, with the secrets of the election.
    let environments: Vec<_> =
        imports(&graph, handler).filter(|name| is_environment(name)).cloned().collect();
    if let Some(other) = environments.iter().find(|name| !same(name, ENVIRONMENT)) {
        return Err(format!(
            "it imports {other}, which is not filtered; build it for {ENVIRONMENT}"
        ));
    }
    if !environments.is_empty() {
        let filter = register(&mut graph, "tenure:filter", filter)?;
        let filter = graph.instantiate(filter);
        let filtered = alias(&mut graph, filter, ENVIRONMENT)?;
        for environment in environments {
            argue(&mut graph, work, &environment, filtered)?;
        }
    }
    let elector = graph.instantiate(socket);
    let plugged = alias(&mut graph, work, LEADER_HANDLER)?;
    let wanted = import(&graph, socket, LEADER_HANDLER)
        .ok_or_else(|| format!("the socket does not import {LEADER_HANDLER}"))?;
    argue(&mut graph, elector, &wanted, plugged)?;
    ordered(graph, elector)
}

/// The import of a component that has this name, in whatever version.
fn import(graph: &CompositionGraph, package: PackageId, name: &str) -> Option<String> {
    imports(graph, package).find(|known| same(known, name)).cloned()
}

fn imports(graph: &CompositionGraph, package: PackageId) -> impl Iterator<Item = &String> {
    graph.types()[graph[package].ty()].imports.keys()
}

fn alias(graph: &mut CompositionGraph, instance: NodeId, name: &str) -> Result<NodeId, String> {
    let name = export(graph, instance, name)?;
    graph.alias_instance_export(instance, &name).map_err(|error| causes(&error))
}

fn argue(
    graph: &mut CompositionGraph,
    instance: NodeId,
    name: &str,
    argument: NodeId,
) -> Result<(), String> {
    graph.set_instantiation_argument(instance, name, argument).map_err(|error| causes(&error))
}
