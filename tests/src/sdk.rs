//! Azure's own SDKs, pinned by the lock files in `tests/sdk` and installed on first use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::tools;

/// The program for Python, which takes a connection string.
///
/// # Errors
/// The SDK cannot be installed.
pub fn python() -> Result<Command> {
    let installed = tools::pip("sdk-python", "tests/sdk/python/requirements.txt")?;
    let mut python = Command::new("python3");
    // No byte code beside the script.
    python.arg("-B").arg(tools::repository().join("tests/sdk/python/use.py"));
    python.env("PYTHONPATH", installed);
    Ok(python)
}

/// The program for Node.js, which takes a connection string.
///
/// # Errors
/// The SDK cannot be installed.
pub fn javascript() -> Result<Command> {
    let installed = tools::npm("sdk-javascript", "tests/sdk/javascript")?;
    // Modules are looked for beside the script.
    let script = installed.join("use.mjs");
    fs::copy(tools::repository().join("tests/sdk/javascript/use.mjs"), &script)?;
    let mut node = Command::new("node");
    node.arg(script).current_dir(installed);
    Ok(node)
}

/// The program in Rust, which takes the address of an account with a shared access signature.
///
/// # Errors
/// It cannot be built.
pub fn rust() -> Result<Command> {
    let inputs = ["Cargo.toml", "Cargo.lock", "src"].map(|file| format!("tests/sdk/rust/{file}"));
    let inputs: Vec<_> = inputs.iter().map(String::as_str).collect();
    let folder = tools::made("sdk-rust", &inputs, |folder| {
        let manifest = tools::repository().join("tests/sdk/rust/Cargo.toml");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--locked", "--manifest-path"]).arg(manifest);
        cargo.arg("--target-dir").arg(folder);
        clear(&mut cargo);
        tools::run(&mut cargo)?;
        ensure!(program(folder).is_file(), "cargo made no {}", program(folder).display());
        Ok(())
    })
    .context("the SDK for Rust")?;
    Ok(Command::new(program(&folder)))
}

fn program(folder: &Path) -> PathBuf {
    folder.join("debug").join(format!("tenure-sdk{}", std::env::consts::EXE_SUFFIX))
}

/// What cargo sets for this test is not meant for another build; where packages come from is.
fn clear(command: &mut Command) {
    const KEPT: [&str; 5] =
        ["CARGO_HOME", "CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR", "CARGO_SOURCE_"];
    for (name, _) in std::env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        let of_build = ["CARGO", "RUSTC", "RUSTFLAGS", "LLVM_PROFILE"];
        let of_build = of_build.iter().any(|prefix| text.starts_with(prefix));
        if of_build && !KEPT.iter().any(|kept| text.starts_with(kept)) {
            command.env_remove(&name);
        }
    }
}
