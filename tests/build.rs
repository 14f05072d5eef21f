//! Builds the handlers that the tests run.

#[path = "../host/build/wasm.rs"]
mod wasm;

const BEAT: &str = "tenure-test-beat";

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
            "tests/handlers",
            "examples/rust/src/http.rs",
            "wit",
            "Cargo.toml",
            "Cargo.lock",
            "tests/build.rs",
            "host/build",
        ],
    );
    let beat = match wasm::given("TENURE_BEAT_WASM")? {
        Some(path) => path,
        None => wasm::build(&workspace, &[BEAT])?.join(wasm::file_name(BEAT)),
    };
    println!("cargo::rustc-env=TENURE_BEAT_HANDLER={}", beat.display());
    Ok(())
}
