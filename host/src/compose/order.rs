//! Exports in the order in which hosts look for them.

use crate::causes::causes;
use wac_graph::types::{ItemKind, Package, are_semver_compatible};
use wac_graph::{CompositionGraph, EncodeOptions, NodeId, PackageId};

/// What platforms call, in the order in which a component for them has it: some hosts take the
/// first that they know.
pub const EXPORTS: [&str; 5] = [
    "wasi:cli/run@0.2.0",
    "wasi:http/incoming-handler@0.2.0",
    "handle-cron-event",
    "tenure:election/election@0.1.0",
    "tenure:election/side-blobs@0.1.0",
];

/// Whether two names are those of one interface, in versions that go together.
pub fn same(name: &str, other: &str) -> bool {
    name == other || are_semver_compatible(name, other)
}

/// The component that exports what `instance` does.
pub fn ordered(mut graph: CompositionGraph, instance: NodeId) -> Result<Vec<u8>, String> {
    for name in EXPORTS {
        let name = export(&graph, instance, name)?;
        let item = graph.alias_instance_export(instance, &name).map_err(|error| causes(&error))?;
        graph.export(item, name).map_err(|error| causes(&error))?;
    }
    graph.encode(EncodeOptions::default()).map_err(|error| causes(&error))
}

/// Takes a component into the graph.
pub fn register(
    graph: &mut CompositionGraph,
    name: &str,
    bytes: &[u8],
) -> Result<PackageId, String> {
    let package = Package::from_bytes(name, None, bytes.to_vec(), graph.types_mut());
    let package = package.map_err(|error| format!("{error:#}"))?;
    graph.register_package(package).map_err(|error| causes(&error))
}

/// The export of an instance that has this name, in whatever version.
pub fn export(graph: &CompositionGraph, instance: NodeId, name: &str) -> Result<String, String> {
    let exports = match graph[instance].item_kind() {
        ItemKind::Instance(id) => &graph.types()[id].exports,
        _ => return Err("not an instance".to_owned()),
    };
    let known = exports.keys().find(|known| same(known, name)).cloned();
    known.ok_or_else(|| format!("it does not export {name}"))
}
