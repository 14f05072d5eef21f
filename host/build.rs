//! Builds the components that this library carries, as its features ask for them, and what else is
//! shipped with them.

use std::fs;
use std::path::{Path, PathBuf};

#[cfg(feature = "compose")]
use wac_graph::CompositionGraph;

#[cfg(feature = "compose")]
#[path = "src/compose/order.rs"]
mod order;
#[path = "src/compose/strip.rs"]
mod strip;
#[path = "build/wasm.rs"]
mod wasm;

/// What a component is taken from.
struct Source {
    package: &'static str,
    /// The variable that names a ready one instead.
    given: &'static str,
}

/// The election component, into which handlers are plugged.
const SOCKET: Source = Source { package: "tenure-guest", given: "TENURE_COMPONENT_WASM" };
/// Stands between a handler and its environment.
#[cfg(feature = "compose")]
const FILTER: Source = Source { package: "tenure-filter", given: "TENURE_FILTER_WASM" };
const EXAMPLE: Source = Source { package: "tenure-example-report", given: "TENURE_EXAMPLE_WASM" };

fn main() {
    if let Err(problem) = build() {
        // Fails the build with this line alone.
        println!("cargo::error={problem}");
    }
}

fn build() -> Result<(), String> {
    let workspace = wasm::workspace()?;
    wasm::watch(
        &workspace,
        &[
            "guest",
            "wit",
            ".cargo/config.toml",
            "examples/rust",
            "Cargo.toml",
            "Cargo.lock",
            "host/build.rs",
            "host/build",
            "host/src/compose",
        ],
    );
    if cfg!(feature = "component") {
        let socket = carry(&workspace, &SOCKET, "TENURE_COMPONENT")?;
        // One component: the program runs, and the tests try, what is shipped.
        ["election.wasm", "tenure-socket.wasm"]
            .iter()
            .for_each(|name| wasm::publish(&socket, name));
        #[cfg(feature = "compose")]
        compose(&workspace)?;
    }
    if cfg!(feature = "example") {
        let example = carry(&workspace, &EXAMPLE, "TENURE_EXAMPLE_HANDLER")?;
        wasm::publish(&example, "report.wasm");
    }
    Ok(())
}

/// What `tenure compose` needs beside the socket; and `tenure.wasm`, which is the election component without a socket.
#[cfg(feature = "compose")]
fn compose(workspace: &Path) -> Result<(), String> {
    carry(workspace, &FILTER, "TENURE_FILTER")?;
    let universal = match wasm::given("TENURE_UNIVERSAL_WASM")? {
        Some(path) => path,
        None => {
            let built = made(workspace, SOCKET.package, &["webhook"])?;
            written("tenure.wasm", &in_order(&built)?)?
        }
    };
    println!("cargo::rustc-env=TENURE_UNIVERSAL={}", universal.display());
    wasm::publish(&universal, "tenure.wasm");
    Ok(())
}

/// The component with its exports in order: the linker's is another one.
#[cfg(feature = "compose")]
fn in_order(component: &[u8]) -> Result<Vec<u8>, String> {
    let mut graph = CompositionGraph::new();
    let component = order::register(&mut graph, "tenure:platform", component)?;
    let instance = graph.instantiate(component);
    order::ordered(graph, instance)
}

/// A component that the library finds by the variable `known`: a ready one, or built.
fn carry(workspace: &Path, source: &Source, known: &str) -> Result<PathBuf, String> {
    let path = match wasm::given(source.given)? {
        Some(path) => path,
        None => {
            let built = made(workspace, source.package, &[])?;
            written(&format!("{}.wasm", source.package), &built)?
        }
    };
    println!("cargo::rustc-env={known}={}", path.display());
    Ok(path)
}

/// A component of this workspace, without the names of its parts.
fn made(workspace: &Path, package: &str, features: &[&str]) -> Result<Vec<u8>, String> {
    let path = wasm::build(workspace, package, features)?;
    let built = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    strip::without_names(&built).ok_or_else(|| format!("{} is no component", path.display()))
}

/// A file of this build.
fn written(name: &str, bytes: &[u8]) -> Result<PathBuf, String> {
    let path = wasm::out_dir()?.join(name);
    fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}
