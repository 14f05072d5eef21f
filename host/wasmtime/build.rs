//! Builds the components that this library embeds according to its features, and the other
//! components of a release. A published package contains prebuilt ones, because it lacks their
//! source.

use std::fs;
use std::path::{Path, PathBuf};

#[path = "build/strip.rs"]
mod strip;
#[path = "build/wasm.rs"]
mod wasm;

/// The place from which all components come.
enum Origin {
    /// Built from the source in the workspace at this path.
    Workspace(PathBuf),
    /// Prebuilt, in this folder of a published package; see `.ci/release/package`.
    Package(PathBuf),
}

/// A component: how to build it, and the name of its file.
struct Recipe {
    package: &'static str,
    features: &'static [&'static str],
    /// The name of the embedded file.
    file: &'static str,
    /// Environment variable with the path of a prebuilt component to use instead.
    override_variable: &'static str,
}

/// The election component, into which handlers are plugged.
const ELECTION: Recipe = Recipe {
    package: "tenure-guest",
    features: &[],
    file: "socket.wasm",
    override_variable: "TENURE_COMPONENT_WASM",
};
/// The election component with a webhook in place of a handler.
const UNIVERSAL: Recipe = Recipe {
    package: "tenure-guest",
    features: &["webhook"],
    file: "tenure.wasm",
    override_variable: "TENURE_UNIVERSAL_WASM",
};
/// The filter between a handler and its environment.
const FILTER: Recipe = Recipe {
    package: "tenure-filter",
    features: &[],
    file: "filter.wasm",
    override_variable: "TENURE_FILTER_WASM",
};
/// The same crate with Spin's variables instead of a filter.
const SPIN_VARIABLES: Recipe = Recipe {
    package: "tenure-filter",
    features: &["spin-variables"],
    file: "spin-variables.wasm",
    override_variable: "TENURE_SPIN_VARIABLES_WASM",
};
const EXAMPLE: Recipe = Recipe {
    package: "tenure-example-report",
    features: &[],
    file: "report.wasm",
    override_variable: "TENURE_EXAMPLE_WASM",
};

fn main() {
    if let Err(problem) = build() {
        // The build fails with this line only.
        println!("cargo::error={problem}");
    }
}

fn build() -> Result<(), String> {
    // Cargo gives it to build scripts only.
    println!("cargo::rustc-env=TENURE_TARGET={}", wasm::variable("TARGET")?);
    let origin = origin()?;
    if cfg!(feature = "component") {
        let socket = provide(&origin, &ELECTION, "TENURE_COMPONENT")?;
        copy_to_target(&origin, &socket, "tenure-socket.wasm");
    }
    if cfg!(feature = "compose") {
        provide(&origin, &FILTER, "TENURE_FILTER")?;
        provide(&origin, &SPIN_VARIABLES, "TENURE_SPIN_VARIABLES")?;
        let universal = provide(&origin, &UNIVERSAL, "TENURE_UNIVERSAL")?;
        copy_to_target(&origin, &universal, "tenure.wasm");
    }
    if cfg!(feature = "example") {
        let example = provide(&origin, &EXAMPLE, "TENURE_EXAMPLE_HANDLER")?;
        copy_to_target(&origin, &example, "report.wasm");
    }
    Ok(())
}

/// Returns the workspace if the build runs in it, otherwise the package. Registers the inputs with
/// cargo.
fn origin() -> Result<Origin, String> {
    const INPUTS: [&str; 8] = [
        "guest",
        "wit",
        ".cargo/config.toml",
        "examples/rust",
        "Cargo.toml",
        "Cargo.lock",
        "host/wasmtime/build.rs",
        "host/wasmtime/build",
    ];
    let package = wasm::package()?;
    if let Some(workspace) = wasm::workspace(&package) {
        wasm::watch(&workspace, &INPUTS);
        return Ok(Origin::Workspace(workspace));
    }
    wasm::watch(&package, &["components", "build.rs", "build"]);
    Ok(Origin::Package(package.join("components")))
}

/// Provides a component: the one that the override variable names, or else the one of `origin`.
/// Sets `variable` for the library to its path.
fn provide(origin: &Origin, recipe: &Recipe, variable: &str) -> Result<PathBuf, String> {
    let path = match (wasm::from_env(recipe.override_variable)?, origin) {
        (Some(path), _) => path,
        (None, Origin::Package(components)) => components.join(recipe.file),
        (None, Origin::Workspace(workspace)) => build_component(workspace, recipe)?,
    };
    println!("cargo::rustc-env={variable}={}", path.display());
    Ok(path)
}

/// Builds a component of this workspace, without debug names.
fn build_component(workspace: &Path, recipe: &Recipe) -> Result<PathBuf, String> {
    let file_error = |path: &Path, error| format!("{}: {error}", path.display());
    let built = wasm::build(workspace, recipe.package, recipe.features)?;
    let component = fs::read(&built).map_err(|error| file_error(&built, error))?;
    let component = strip::without_names(&component)
        .ok_or_else(|| format!("{} is no component", built.display()))?;
    let path = wasm::out_dir()?.join(recipe.file);
    fs::write(&path, component).map_err(|error| file_error(&path, error))?;
    Ok(path)
}

/// Copies a component next to the programs of this workspace, for releases and manual use. Does
/// nothing in a published package, so that it adds no files to a program that depends on it.
fn copy_to_target(origin: &Origin, component: &Path, name: &str) {
    if let Origin::Workspace(_) = origin {
        wasm::copy_to_target(component, name);
    }
}
