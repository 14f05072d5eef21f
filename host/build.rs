//! Builds the components that this library carries, as its features ask for them, and what else is
//! shipped with them.

use std::fs;
use std::path::{Path, PathBuf};

#[cfg(feature = "compose")]
#[path = "src/compose/graph.rs"]
#[allow(dead_code, reason = "the library uses more of it")]
mod graph;
#[path = "src/compose/strip.rs"]
mod strip;
#[path = "build/wasm.rs"]
mod wasm;

use wasm::Part;

/// A component, and what is done with it.
struct Carried {
    /// Whether a feature asks for it.
    wanted: bool,
    part: Part,
    /// The variable that names a ready one instead.
    given: &'static str,
    /// The variable by which the library finds it.
    known: &'static str,
    /// The files that are shipped beside the program.
    shipped: &'static [&'static str],
}

const CARRIED: [Carried; 5] = [
    Carried {
        wanted: cfg!(feature = "component"),
        part: Part::new("tenure-guest"),
        given: "TENURE_COMPONENT_WASM",
        known: "TENURE_COMPONENT",
        // One component: the program runs, and the tests try, what is shipped.
        shipped: &["election.wasm", "tenure-socket.wasm"],
    },
    Carried {
        wanted: cfg!(feature = "compose"),
        part: Part::with("tenure-guest", "webhook"),
        given: "TENURE_UNIVERSAL_WASM",
        known: "TENURE_UNIVERSAL",
        shipped: &["tenure.wasm"],
    },
    Carried {
        wanted: cfg!(feature = "compose"),
        part: Part::new("tenure-filter"),
        given: "TENURE_FILTER_WASM",
        known: "TENURE_FILTER",
        shipped: &[],
    },
    Carried {
        wanted: cfg!(feature = "example"),
        part: Part::new("tenure-example-report"),
        given: "TENURE_EXAMPLE_WASM",
        known: "TENURE_EXAMPLE_HANDLER",
        shipped: &["report.wasm"],
    },
    Carried {
        wanted: cfg!(feature = "doctor"),
        part: Part::with("tenure-guest", "doctor"),
        given: "TENURE_DOCTOR_WASM",
        known: "TENURE_DOCTOR",
        shipped: &[],
    },
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
    for Carried { part, given, known, shipped, .. } in CARRIED.iter().filter(|c| c.wanted) {
        let path = match wasm::given(given)? {
            Some(path) => path,
            None => finished(part, &wasm::build(&workspace, part)?)?,
        };
        println!("cargo::rustc-env={known}={}", path.display());
        shipped.iter().for_each(|name| wasm::publish(&path, name));
    }
    Ok(())
}

/// A copy as it is shipped: without the names of its parts and, where platforms call it, with its
/// exports in their order.
fn finished(part: &Part, built: &Path) -> Result<PathBuf, String> {
    let told = |problem: String| format!("{}: {problem}", built.display());
    let bytes = fs::read(built).map_err(|error| told(error.to_string()))?;
    let stripped = strip::without_names(&bytes).ok_or_else(|| told("is no component".into()))?;
    let finished = match part.feature {
        #[cfg(feature = "compose")]
        Some("webhook") => graph::order(&stripped).map_err(told)?,
        _ => stripped,
    };
    let path = wasm::out_dir()?.join(part.file_name());
    fs::write(&path, finished).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}
