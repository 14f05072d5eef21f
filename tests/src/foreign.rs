//! Hosts that are not ours: wasmtime from PyPI, driven by the scripts in `tests/foreign`, and
//! jco on Node.js, the version that comes with the JavaScript example.

use std::path::Path;

use anyhow::Result;
use tokio::process::Command;

use crate::{examples, tools};

/// Runs a script of `tests/foreign` on this component.
///
/// # Errors
/// wasmtime cannot be installed.
pub fn wasmtime(script: &str, component: &Path) -> Result<Command> {
    let installed = tools::pip("wasmtime", "tests/foreign/requirements.txt")?;
    let mut python = Command::new("python3");
    // No byte code beside the scripts.
    python.arg("-B").arg(tools::repository().join("tests/foreign").join(script)).arg(component);
    python.env("PYTHONPATH", installed);
    Ok(python)
}

/// `jco VERB COMPONENT`.
///
/// # Errors
/// It cannot be installed.
pub fn jco(verb: &str, component: &Path) -> Result<Command> {
    let installed = examples::javascript()?;
    let mut node = Command::new("node");
    node.arg(installed.join("node_modules/@bytecodealliance/jco/dist/jco.js"));
    node.arg(verb).arg(component).current_dir(installed);
    Ok(node)
}
