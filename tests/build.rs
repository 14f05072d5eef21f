//! Builds the handlers that the tests run.

#[path = "../host/wasmtime/build/wasm.rs"]
mod wasm;

/// The packages, the variables that name ready components of them, and how the tests find them.
const HANDLERS: [[&str; 3]; 3] = [
    ["tenure-test-beat", "TENURE_BEAT_WASM", "TENURE_BEAT_HANDLER"],
    ["tenure-test-unruly", "TENURE_UNRULY_WASM", "TENURE_UNRULY_HANDLER"],
    ["tenure-example-service", "TENURE_SERVICE_WASM", "TENURE_SERVICE"],
];

fn main() {
    if let Err(problem) = build() {
        // Fails the build with this line alone.
        println!("cargo::error={problem}");
    }
}

fn build() -> Result<(), String> {
    let workspace =
        wasm::workspace(&wasm::package()?).ok_or("the tests are built in the workspace")?;
    wasm::watch(
        &workspace,
        &[
            "tests/handlers",
            "examples/service",
            "examples/rust/src/http.rs",
            "wit",
            "Cargo.toml",
            "Cargo.lock",
            "tests/build.rs",
            "host/wasmtime/build",
        ],
    );
    for [package, variable, known] in HANDLERS {
        let path = match wasm::from_env(variable)? {
            Some(path) => path,
            None => wasm::build(&workspace, package, &[])?,
        };
        println!("cargo::rustc-env={known}={}", path.display());
    }
    Ok(())
}
