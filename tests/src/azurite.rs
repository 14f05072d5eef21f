//! Azurite, installed on first use and started on a free port.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Weak, mpsc};
use std::thread;

use anyhow::{Context, Result};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::{Certificates, tools};

/// Public key of Azurite's account `devstoreaccount1`.
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Instances that tests share, without and with TLS. Starting an instance takes longer than most
/// tests need it.
static SHARED: [Mutex<Weak<Azurite>>; 2] = [const { Mutex::const_new(Weak::new()) }; 2];

/// Running Azurite: blob service only, in memory and without its pauses (`no_sweeps.cjs`). Dropping
/// it ends the process.
#[derive(Debug)]
pub struct Azurite {
    child: Child,
    port: u16,
    certificates: Option<Arc<Certificates>>,
}

impl Azurite {
    /// Starts an instance; with `port` 0 the kernel picks the port. With certificates it serves
    /// TLS, and accepts tokens in addition to keys and signatures.
    ///
    /// # Errors
    /// Azurite cannot be installed or does not start.
    pub async fn start(port: u16, certificates: Option<Arc<Certificates>>) -> Result<Self> {
        spawn_blocking(move || Self::start_blocking(port, certificates)).await?
    }

    /// Returns an instance that tests share, each with its own containers. It ends when the last
    /// user drops it.
    ///
    /// # Errors
    /// Azurite cannot be installed or does not start.
    pub async fn shared(tls: bool) -> Result<Arc<Self>> {
        let mut shared = SHARED[usize::from(tls)].lock().await;
        if let Some(existing) = shared.upgrade() {
            return Ok(existing);
        }
        let certificates = if tls { Some(Arc::new(Certificates::generate()?)) } else { None };
        let azurite = Arc::new(Self::start(0, certificates).await?);
        *shared = Arc::downgrade(&azurite);
        Ok(azurite)
    }

    fn start_blocking(port: u16, certificates: Option<Arc<Certificates>>) -> Result<Self> {
        let installed = tools::npm("azurite", "tests/azurite")?;
        let mut command = Command::new("node");
        command
            .arg("--require")
            .arg(tools::repository().join("tests/azurite/no_sweeps.cjs"))
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
            .stderr(Stdio::null())
            .spawn()
            .context("Azurite needs Node.js: install it, so that `node` is on the PATH")?;
        let stdout = child.stdout.take().context("no standard output")?;
        let (port_sender, port_receiver) = mpsc::channel();
        // Drains the output, so that Azurite never blocks on a full pipe.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let port = line.rsplit_once("://127.0.0.1:");
                if let Some(port) = port.and_then(|(_, port)| port.trim().parse::<u16>().ok()) {
                    let _ = port_sender.send(port);
                }
            }
        });
        let mut azurite = Self { child, port, certificates };
        // The channel closes when the process ends.
        azurite.port = port_receiver.recv().context("Azurite ended before it listened")?;
        Ok(azurite)
    }

    /// Returns the connection string of the public account.
    #[must_use]
    pub fn connection_string(&self) -> String {
        let protocol = if self.certificates.is_some() { "https" } else { "http" };
        format!(
            "DefaultEndpointsProtocol={protocol};AccountName=devstoreaccount1;AccountKey={KEY};\
             BlobEndpoint={protocol}://127.0.0.1:{}/devstoreaccount1;",
            self.port
        )
    }

    /// Returns the port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the certificates if it serves TLS.
    #[must_use]
    pub fn certificates(&self) -> Option<&Arc<Certificates>> {
        self.certificates.as_ref()
    }
}

/// Kills the process and waits until it has exited. Its data is lost.
impl Drop for Azurite {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
