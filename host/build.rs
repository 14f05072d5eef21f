//! Builds the components that this library carries, as its features ask for them, and what else is
//! shipped with them. A package of this library has them in it, since their source is not there.

use std::fs;
use std::path::{Path, PathBuf};

#[cfg(feature = "compose")]
#[path = "src/compose/graph.rs"]
mod graph;
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
/// The handler that posts each turn to a URL.
#[cfg(feature = "compose")]
const WEBHOOK: Source = Source { package: "tenure-webhook", given: "TENURE_WEBHOOK_WASM" };
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
        compose(&origin, &socket)?;
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

/// Makes `tenure.wasm` as `tenure compose` makes a component of the socket and a user's handler.
#[cfg(feature = "compose")]
fn compose(origin: &Origin, socket: &Path) -> Result<(), String> {
    let filter = carry(origin, &FILTER, "TENURE_FILTER")?;
    let universal = match wasm::given("TENURE_UNIVERSAL_WASM")? {
        Some(path) => path,
        None => {
            let webhook = carry(origin, &WEBHOOK, "TENURE_WEBHOOK")?;
            let [socket, webhook, filter] = [socket, &webhook, &filter].map(read);
            let composed = graph::plug(&socket?, &webhook?, &filter?)?;
            written("tenure.wasm", &composed)?
        }
    };
    println!("cargo::rustc-env=TENURE_UNIVERSAL={}", universal.display());
    publish(origin, &universal, "tenure.wasm");
    Ok(())
}

/// A component that the library finds by the variable `known`: a ready one, or one of `origin`, without the names
/// of its parts.
fn carry(origin: &Origin, source: &Source, known: &str) -> Result<PathBuf, String> {
    let name = format!("{}.wasm", source.package);
    let path = match (wasm::given(source.given)?, origin) {
        (Some(path), _) => path,
        (None, Origin::Package(components)) => components.join(name),
        (None, Origin::Workspace(workspace)) => {
            let built = wasm::build(workspace, source.package)?;
            let stripped = strip::without_names(&read(&built)?)
                .ok_or_else(|| format!("{} is no component", built.display()))?;
            written(&name, &stripped)?
        }
    };
    println!("cargo::rustc-env={known}={}", path.display());
    Ok(path)
}

/// Puts a component beside the programs of this workspace, for people. A program that depends on a published
/// library has nothing written into its folders.
fn publish(origin: &Origin, component: &Path, name: &str) {
    if let Origin::Workspace(_) = origin {
        wasm::publish(component, name);
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// A file of this build.
fn written(name: &str, bytes: &[u8]) -> Result<PathBuf, String> {
    let path = wasm::out_dir()?.join(name);
    fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}
