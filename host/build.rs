//! Builds the components that this library carries, as its features ask for them, and what else is
//! shipped with them.

use std::fs;
use std::path::{Path, PathBuf};

#[cfg(feature = "compose")]
#[path = "src/compose/graph.rs"]
mod graph;
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
        compose(&workspace, &socket)?;
    }
    if cfg!(feature = "example") {
        let example = carry(&workspace, &EXAMPLE, "TENURE_EXAMPLE_HANDLER")?;
        wasm::publish(&example, "report.wasm");
    }
    Ok(())
}

/// Makes `tenure.wasm` as `tenure compose` makes a component of the socket and a user's handler.
#[cfg(feature = "compose")]
fn compose(workspace: &Path, socket: &Path) -> Result<(), String> {
    let filter = carry(workspace, &FILTER, "TENURE_FILTER")?;
    let universal = match wasm::given("TENURE_UNIVERSAL_WASM")? {
        Some(path) => path,
        None => {
            let webhook = carry(workspace, &WEBHOOK, "TENURE_WEBHOOK")?;
            let [socket, webhook, filter] = [socket, &webhook, &filter].map(read);
            let composed = graph::plug(&socket?, &webhook?, &filter?)?;
            written("tenure.wasm", &composed)?
        }
    };
    println!("cargo::rustc-env=TENURE_UNIVERSAL={}", universal.display());
    wasm::publish(&universal, "tenure.wasm");
    Ok(())
}

/// A component that the library finds by the variable `known`: a ready one, or built, without the names of its
/// parts.
fn carry(workspace: &Path, source: &Source, known: &str) -> Result<PathBuf, String> {
    let path = match wasm::given(source.given)? {
        Some(path) => path,
        None => {
            let built = wasm::build(workspace, source.package)?;
            let stripped = strip::without_names(&read(&built)?)
                .ok_or_else(|| format!("{} is no component", built.display()))?;
            written(&format!("{}.wasm", source.package), &stripped)?
        }
    };
    println!("cargo::rustc-env={known}={}", path.display());
    Ok(path)
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
