//! Builds the election component and the example handler, which the program embeds, and what else
//! is shipped with them.

use std::fs;
use std::path::{Path, PathBuf};

#[path = "src/compose/graph.rs"]
#[allow(dead_code, reason = "the program uses more of it")]
mod graph;
#[path = "src/compose/strip.rs"]
mod strip;
#[path = "build/wasm.rs"]
mod wasm;

/// The packages, the variables that name ready components of them, and how the program finds them.
const PARTS: [[&str; 3]; 4] = [
    ["tenure-guest", "TENURE_COMPONENT_WASM", "TENURE_COMPONENT"],
    ["tenure-filter", "TENURE_FILTER_WASM", "TENURE_FILTER"],
    ["tenure-webhook", "TENURE_WEBHOOK_WASM", "TENURE_WEBHOOK"],
    ["tenure-example-report", "TENURE_EXAMPLE_WASM", "TENURE_EXAMPLE_HANDLER"],
];

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
            "guest/src",
            "guest/Cargo.toml",
            "guest/build.rs",
            "guest/base",
            "guest/filter",
            "guest/webhook",
            "wit",
            "examples/rust",
            "Cargo.toml",
            "Cargo.lock",
            "host/build.rs",
            "host/build",
            "host/src/compose",
        ],
    );
    let given = PARTS.map(|[_, variable, _]| wasm::given(variable));
    let missing: Vec<&str> = given
        .iter()
        .zip(PARTS)
        .filter_map(|(given, [package, ..])| matches!(given, Ok(None)).then_some(package))
        .collect();
    let built = match missing.as_slice() {
        [] => PathBuf::new(),
        packages => wasm::build(&workspace, packages)?,
    };
    let mut paths = Vec::new();
    for (given, [package, _, known]) in given.into_iter().zip(PARTS) {
        let path = match given? {
            Some(path) => path,
            None => stripped(&built.join(wasm::file_name(package)))?,
        };
        println!("cargo::rustc-env={known}={}", path.display());
        paths.push(path);
    }
    let [socket, filter, webhook, example] = paths.as_slice() else { return Ok(()) };
    let universal = compose(socket, webhook, filter)?;
    println!("cargo::rustc-env=TENURE_UNIVERSAL={}", universal.display());
    // One component: the program runs, and the tests try, what is shipped.
    wasm::publish(socket, "election.wasm");
    wasm::publish(socket, "tenure-socket.wasm");
    wasm::publish(&universal, "tenure.wasm");
    wasm::publish(example, "report.wasm");
    Ok(())
}

/// Plugs the built-in handler into the socket.
fn compose(socket: &Path, handler: &Path, filter: &Path) -> Result<PathBuf, String> {
    let plugged = graph::plug(&read(socket)?, &read(handler)?, &read(filter)?);
    let plugged = plugged.map_err(|error| format!("{}: {error}", socket.display()))?;
    let path = wasm::out_dir()?.join("tenure.wasm");
    write(&path, &plugged)?;
    Ok(path)
}

/// A copy without the names of its parts.
fn stripped(path: &Path) -> Result<PathBuf, String> {
    let name = path.file_name().unwrap_or_default();
    let to = wasm::out_dir()?.join(name);
    let bytes = strip::without_names(&read(path)?);
    write(&to, &bytes.ok_or_else(|| format!("{} is no component", path.display()))?)?;
    Ok(to)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}
