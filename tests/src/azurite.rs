//! Azurite, installed on first use and started on a port that the kernel picks.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// The key of Azurite's account `devstoreaccount1`, which is public.
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// A running Azurite, blob service only, in memory. Ends when it is dropped.
#[derive(Debug)]
pub struct Azurite {
    child: Child,
    port: u16,
}

impl Azurite {
    /// Starts one; `port` 0 lets the kernel pick.
    ///
    /// # Errors
    /// It cannot be installed or does not start.
    pub async fn start(port: u16) -> Result<Self> {
        let installed = tokio::task::spawn_blocking(install).await??;
        let mut child = Command::new("node")
            .arg(installed.join("node_modules/azurite/dist/src/blob/main.js"))
            .args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string()])
            .args(["--inMemoryPersistence", "--silent", "--disableTelemetry"])
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
                if let Some((_, port)) = line.rsplit_once("listens on http://127.0.0.1:") {
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
        Ok(Self { child, port })
    }

    /// How to reach it.
    #[must_use]
    pub fn connection_string(&self) -> String {
        format!(
            "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={KEY};\
             BlobEndpoint=http://127.0.0.1:{}/devstoreaccount1;",
            self.port
        )
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends it at once and waits until it is gone. All it held is lost.
    ///
    /// # Errors
    /// It cannot be ended.
    pub async fn kill(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }
}

/// Installs the pinned version, once for all test processes.
fn install() -> Result<PathBuf> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tests.join("../build/azurite");
    fs::create_dir_all(&folder)?;
    let lock = File::create(folder.join("install.lock"))?;
    lock.lock()?; // Released when the file is closed.
    let pinned = fs::read(tests.join("azurite/package-lock.json"))?;
    let stamp = folder.join("installed.json");
    if fs::read(&stamp).is_ok_and(|installed| installed == pinned) {
        return Ok(folder);
    }
    fs::copy(tests.join("azurite/package.json"), folder.join("package.json"))?;
    fs::write(folder.join("package-lock.json"), &pinned)?;
    let output = std::process::Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(&folder)
        .stdin(Stdio::null())
        .output()
        .context("the tests install Azurite with npm: install Node.js with npm")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`npm ci` in {} failed:\n{errors}", folder.display());
    fs::write(stamp, pinned)?;
    Ok(folder)
}
