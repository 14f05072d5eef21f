//! Azurite, installed on first use and started on a port that the kernel picks.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::{Certificates, tools};

/// The key of Azurite's account `devstoreaccount1`, which is public.
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// A running Azurite, blob service only, in memory. Ends when it is dropped.
#[derive(Debug)]
pub struct Azurite {
    child: Child,
    port: u16,
    certificates: Option<Arc<Certificates>>,
}

impl Azurite {
    /// Starts one; `port` 0 lets the kernel pick. With certificates it speaks TLS, and takes
    /// tokens beside keys and signatures.
    ///
    /// # Errors
    /// It cannot be installed or does not start.
    pub async fn start(port: u16, certificates: Option<Arc<Certificates>>) -> Result<Self> {
        let installed =
            tokio::task::spawn_blocking(|| tools::npm("azurite", "tests/azurite")).await??;
        let mut command = Command::new("node");
        command
            .arg(installed.join("node_modules/azurite/dist/src/blob/main.js"))
            .args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string()])
            .args(["--inMemoryPersistence", "--silent", "--disableTelemetry"]);
        if let Some(certificates) = &certificates {
            command.args(["--oauth", "basic", "--cert"]).arg(certificates.certificate());
            command.arg("--key").arg(certificates.key());
        }
        let mut child = command
            .current_dir(&installed)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("Azurite needs Node.js: install it, so that `node` is on the PATH")?;
        let stdout = child.stdout.take().context("no standard output")?;
        let mut lines = BufReader::new(stdout).lines();
        let listening = async {
            while let Some(line) = lines.next_line().await? {
                if let Some((_, port)) = line.rsplit_once("://127.0.0.1:") {
                    return Ok(port.trim().parse::<u16>()?);
                }
            }
            bail!("Azurite ended before it listened")
        };
        let port = tokio::time::timeout(STARTS_WITHIN, listening)
            .await
            .context("Azurite does not say that it listens")??;
        // Its output is read to the end, so that it never waits for a full pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { child, port, certificates })
    }

    /// How to reach it.
    #[must_use]
    pub fn connection_string(&self) -> String {
        let protocol = if self.certificates.is_some() { "https" } else { "http" };
        format!(
            "DefaultEndpointsProtocol={protocol};AccountName=devstoreaccount1;AccountKey={KEY};\
             BlobEndpoint={protocol}://127.0.0.1:{}/devstoreaccount1;",
            self.port
        )
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it proves itself by, when it speaks TLS.
    #[must_use]
    pub fn certificates(&self) -> Option<&Arc<Certificates>> {
        self.certificates.as_ref()
    }

    /// Ends it at once and waits until it is gone. All it held is lost.
    ///
    /// # Errors
    /// It cannot be ended.
    pub async fn kill(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }
}
