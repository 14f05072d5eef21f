//! Azure's own SDKs, pinned by the lock files in `tests/sdk` and installed on first use.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::tools;

/// Returns a command that runs a Python script of this repository.
///
/// # Errors
/// The SDK cannot be installed.
pub fn python(script: &str) -> Result<Command> {
    let installed = tools::pip("sdk-python", "tests/sdk/python/requirements.txt")?;
    Ok(tools::python(script, &installed))
}

/// Returns a command that runs a Node.js script of this repository.
///
/// # Errors
/// The SDK cannot be installed.
pub fn javascript(script: &str) -> Result<Command> {
    let installed = tools::npm("sdk-javascript", "tests/sdk/javascript")?;
    // Node.js resolves modules relative to the script.
    let source = tools::repository().join(script);
    let script = installed.join(source.file_name().context("a script has a name")?);
    fs::copy(&source, &script)?;
    let mut node = Command::new("node");
    node.arg(script).current_dir(installed);
    Ok(node)
}

/// Returns the command of a Rust program: `tenure-sdk` or `elect`.
///
/// # Errors
/// The program cannot be built.
pub fn rust(name: &str) -> Result<Command> {
    rust_program(name, "sdk-rust", "dev")
}

/// Returns the command of the Rust program `hold`, optimised for measurements.
///
/// # Errors
/// The program cannot be built.
pub fn rust_optimised(name: &str) -> Result<Command> {
    rust_program(name, "sdk-rust-release", "release")
}

fn rust_program(name: &str, build_folder: &str, profile: &str) -> Result<Command> {
    let inputs = ["Cargo.toml", "Cargo.lock", "src"].map(|file| format!("tests/sdk/rust/{file}"));
    let inputs: Vec<_> = inputs.iter().map(String::as_str).collect();
    let program = |folder: &Path| {
        let profile = if profile == "dev" { "debug" } else { profile };
        folder.join(profile).join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
    };
    let folder = tools::build_if_changed(build_folder, &inputs, |folder| {
        let manifest = tools::repository().join("tests/sdk/rust/Cargo.toml");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--locked", "--profile", profile, "--manifest-path"]);
        cargo.arg(manifest).arg("--target-dir").arg(folder);
        clear_build_environment(&mut cargo);
        tools::run_command(&mut cargo)?;
        let program = program(folder);
        ensure!(program.is_file(), "cargo made no {}", program.display());
        Ok(())
    })
    .context("the SDK for Rust")?;
    Ok(Command::new(program(&folder)))
}

/// Removes the variables that cargo sets for this test, which must not affect another build. Keeps
/// the settings for package sources.
fn clear_build_environment(command: &mut Command) {
    const KEPT_PREFIXES: [&str; 5] =
        ["CARGO_HOME", "CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR", "CARGO_SOURCE_"];
    for (name, _) in std::env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        let build_prefixes = ["CARGO", "RUSTC", "RUSTFLAGS", "LLVM_PROFILE"];
        let is_build_variable = build_prefixes.iter().any(|prefix| text.starts_with(prefix));
        if is_build_variable
            && !KEPT_PREFIXES.iter().any(|kept_prefix| text.starts_with(kept_prefix))
        {
            command.env_remove(&name);
        }
    }
}
