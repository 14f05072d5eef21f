//! Plugging components together.

use super::order::{export, ordered, register, same};
use crate::causes::causes;
use wac_graph::{CompositionGraph, NodeId, PackageId};

/// The interface by which a handler is called.
pub const LEADER_HANDLER: &str = "tenure:election/leader-handler@0.1.0";

/// The variables that a component is given.
pub const ENVIRONMENT: &str = "wasi:cli/environment@0.2.0";

/// Plugs `handler` into `socket`, and `filter` between the handler and its environment.
///
/// # Errors
/// Why they do not go together.
pub fn plug(socket: &[u8], handler: &[u8], filter: &[u8]) -> Result<Vec<u8>, String> {
    let mut graph = CompositionGraph::new();
    let socket = register(&mut graph, "tenure:socket", socket)?;
    let handler = register(&mut graph, "tenure:handler", handler)?;
    let work = graph.instantiate(handler);
    if let Some(environment) = import(&graph, handler, ENVIRONMENT) {
        let filter = register(&mut graph, "tenure:filter", filter)?;
        let filter = graph.instantiate(filter);
        let filtered = alias(&mut graph, filter, ENVIRONMENT)?;
        argue(&mut graph, work, &environment, filtered)?;
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
    let world = &graph.types()[graph[package].ty()];
    world.imports.keys().find(|known| same(known, name)).cloned()
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
