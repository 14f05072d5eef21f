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

use wasm::Part;

/// What is built, the variables that name ready components instead, and how the program finds them.
const PARTS: [(Part, &str, &str); 5] = [
    (Part::new("tenure-guest"), "TENURE_COMPONENT_WASM", "TENURE_COMPONENT"),
    (Part::with("tenure-guest", "webhook"), "TENURE_UNIVERSAL_WASM", "TENURE_UNIVERSAL"),
    (Part::new("tenure-filter"), "TENURE_FILTER_WASM", "TENURE_FILTER"),
    (Part::new("tenure-example-report"), "TENURE_EXAMPLE_WASM", "TENURE_EXAMPLE_HANDLER"),
    (Part::with("tenure-guest", "doctor"), "TENURE_DOCTOR_WASM", "TENURE_DOCTOR"),
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
            "guest/azure",
            "guest/base",
            "guest/core",
            "guest/filter",
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
    let mut paths = Vec::new();
    for (part, given, known) in PARTS {
        let path = match wasm::given(given)? {
            Some(path) => path,
            None => finished(&part, &wasm::build(&workspace, &part)?)?,
        };
        println!("cargo::rustc-env={known}={}", path.display());
        paths.push(path);
    }
    let [socket, universal, _, example, ..] = paths.as_slice() else { return Ok(()) };
    // One component: the program runs, and the tests try, what is shipped.
    wasm::publish(socket, "election.wasm");
    wasm::publish(socket, "tenure-socket.wasm");
    wasm::publish(universal, "tenure.wasm");
    wasm::publish(example, "report.wasm");
    Ok(())
}

/// A copy as it is shipped: without the names of its parts and, where platforms call it, with its
/// exports in their order.
fn finished(part: &Part, built: &Path) -> Result<PathBuf, String> {
    let told = |problem: String| format!("{}: {problem}", built.display());
    let bytes = fs::read(built).map_err(|error| told(error.to_string()))?;
    let stripped = strip::without_names(&bytes).ok_or_else(|| told("is no component".into()))?;
    let finished = match part.feature {
        Some("webhook") => graph::order(&stripped).map_err(told)?,
        _ => stripped,
    };
    let path = wasm::out_dir()?.join(part.file_name());
    fs::write(&path, finished).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}
