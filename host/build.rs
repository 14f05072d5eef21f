//! Builds the components that this library carries, as its features ask for them, and what else is
//! shipped with them. A package of this library has them in it, since their source is not there.

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

/// Where components come from.
enum Origin {
    /// The workspace at this path has their source.
    Workspace(PathBuf),
    /// A published package has them in this folder; see `.ci/release/package`.
    Package(PathBuf),
}

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
    let origin = origin()?;
    if cfg!(feature = "component") {
        let socket = carry(&origin, &SOCKET, "TENURE_COMPONENT")?;
        // One component: the program runs, and the tests try, what is shipped.
        for name in ["election.wasm", "tenure-socket.wasm"] {
            publish(&origin, &socket, name);
        }
        #[cfg(feature = "compose")]
        compose(&origin)?;
    }
    if cfg!(feature = "example") {
        let example = carry(&origin, &EXAMPLE, "TENURE_EXAMPLE_HANDLER")?;
        publish(&origin, &example, "report.wasm");
    }
    Ok(())
}

/// The workspace if this is built in it, else the package. Cargo is told what the components are made of.
fn origin() -> Result<Origin, String> {
    const INPUTS: [&str; 9] = [
        "guest",
        "wit",
        ".cargo/config.toml",
        "examples/rust",
        "Cargo.toml",
        "Cargo.lock",
        "host/build.rs",
        "host/build",
        "host/src/compose",
    ];
    let workspace = wasm::workspace()?;
    if workspace.join("guest/Cargo.toml").exists() {
        wasm::watch(&workspace, &INPUTS);
        return Ok(Origin::Workspace(workspace));
    }
    let package = wasm::package()?;
    wasm::watch(&package, &["components", "build.rs", "build", "src/compose"]);
    Ok(Origin::Package(package.join("components")))
}

/// What `tenure compose` needs beside the socket; and `tenure.wasm`, which is the election component without a socket.
#[cfg(feature = "compose")]
fn compose(origin: &Origin) -> Result<(), String> {
    const NAME: &str = "tenure.wasm";
    carry(origin, &FILTER, "TENURE_FILTER")?;
    let universal = match (wasm::given("TENURE_UNIVERSAL_WASM")?, origin) {
        (Some(path), _) => path,
        (None, Origin::Package(components)) => components.join(NAME),
        (None, Origin::Workspace(workspace)) => {
            let built = made(workspace, SOCKET.package, &["webhook"])?;
            written(NAME, &in_order(&built)?)?
        }
    };
    println!("cargo::rustc-env=TENURE_UNIVERSAL={}", universal.display());
    publish(origin, &universal, "tenure.wasm");
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

/// A component that the library finds by the variable `known`: a ready one, or one of `origin`.
fn carry(origin: &Origin, source: &Source, known: &str) -> Result<PathBuf, String> {
    let name = format!("{}.wasm", source.package);
    let path = match (wasm::given(source.given)?, origin) {
        (Some(path), _) => path,
        (None, Origin::Package(components)) => components.join(name),
        (None, Origin::Workspace(workspace)) => {
            written(&name, &made(workspace, source.package, &[])?)?
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

/// Puts a component beside the programs of this workspace, for people. A program that depends on a published
/// library has nothing written into its folders.
fn publish(origin: &Origin, component: &Path, name: &str) {
    if let Origin::Workspace(_) = origin {
        wasm::publish(component, name);
    }
}

/// A file of this build.
fn written(name: &str, bytes: &[u8]) -> Result<PathBuf, String> {
    let path = wasm::out_dir()?.join(name);
    fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}
