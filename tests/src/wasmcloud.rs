//! A wasmCloud host from PyPI, driven by the script in `tests/wasmcloud`.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::task::spawn_blocking;

use crate::{Candidate, PATIENCE, tools};

/// Host with one replica of a workload. Dropping it ends its processes.
#[derive(Debug)]
pub struct WasmCloud {
    process: Candidate,
    _folder: TempDir,
}

impl WasmCloud {
    /// Starts the workload of a manifest in `deploy/wasmcloud`, with the settings that the script
    /// describes. Waits until the host reports that it runs.
    ///
    /// # Errors
    /// The host cannot be installed or started.
    ///
    /// # Panics
    /// The host does not run the workload.
    pub async fn start(manifest: &str, settings: &Value) -> Result<Self> {
        let requirements = "tests/wasmcloud/requirements.txt";
        let installed = spawn_blocking(|| tools::pip("wasmcloud", requirements)).await??;
        let folder = tempfile::tempdir()?;
        let mut host = Command::from(tools::python("tests/wasmcloud/host.py", &installed));
        host.arg(tools::repository().join("deploy/wasmcloud").join(manifest));
        host.arg(settings.to_string()).current_dir(folder.path());
        let host = Self { process: Candidate::spawn("wash host", host)?, _folder: folder };
        host.logged("WORKLOAD_STATE_RUNNING").await;
        Ok(host)
    }

    /// Waits for a line of the log, which contains `text`, and returns it.
    ///
    /// # Panics
    /// The host ends without such a line.
    pub async fn logged(&self, text: &str) -> String {
        let contains = |event: &Value| event.as_str().is_some_and(|line| line.contains(text));
        let line = self.process.line(text, 0, PATIENCE, |line| contains(&line.event)).await;
        line.event.as_str().unwrap_or_default().to_owned()
    }

    /// Returns all that the host and its components have printed so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.transcript()
    }

    /// Returns the address at which the host listens for HTTP.
    ///
    /// # Errors
    /// The host prints no address.
    pub async fn http_address(&self) -> Result<SocketAddr> {
        let line = self.logged("HTTP server listening").await;
        let address = line.split_once("addr=").and_then(|(_, rest)| rest.split_once(' '));
        Ok(address.context("no address")?.0.parse()?)
    }
}
