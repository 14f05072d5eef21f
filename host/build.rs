//! Builds the election component and the example handler, which the program embeds.

use std::path::PathBuf;

#[path = "build/wasm.rs"]
mod wasm;

const COMPONENT: &str = "tenure-guest";
const EXAMPLE: &str = "tenure-example-report";

fn main() {
    if let Err(problem) = build() {
        println!("cargo::error={problem}");
        std::process::exit(1);
    }
}

fn build() -> Result<(), String> {
    let workspace = wasm::workspace()?;
    wasm::watch(
        &workspace,
        &[
            "guest/src",
            "guest/Cargo.toml",
            "wit",
            "examples/rust",
            "Cargo.toml",
            "Cargo.lock",
            "host/build.rs",
            "host/build",
        ],
    );
    let component = wasm::given("TENURE_COMPONENT_WASM")?;
    let example = wasm::given("TENURE_EXAMPLE_WASM")?;
    let missing: Vec<&str> = [(&component, COMPONENT), (&example, EXAMPLE)]
        .iter()
        .filter_map(|(given, package)| given.is_none().then_some(*package))
        .collect();
    let built = match missing.as_slice() {
        [] => PathBuf::new(),
        packages => wasm::build(&workspace, packages)?,
    };
    let component = component.unwrap_or_else(|| built.join(wasm::file_name(COMPONENT)));
    let example = example.unwrap_or_else(|| built.join(wasm::file_name(EXAMPLE)));
    println!("cargo::rustc-env=TENURE_COMPONENT={}", component.display());
    println!("cargo::rustc-env=TENURE_EXAMPLE_HANDLER={}", example.display());
    wasm::publish(&component, "election.wasm");
    wasm::publish(&example, "report.wasm");
    Ok(())
}
