//! etcd and ZooKeeper from their Debian packages: one member each, on free ports.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::sleep;

/// Path in the package `zookeeper`; the file refers to its dependencies in the same folder.
const JAR: &str = "/usr/share/java/zookeeper.jar";

/// Server process. Dropping it kills the process.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    kind: Kind,
    child: Child,
    _data: TempDir,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Etcd,
    Zookeeper,
}

impl Server {
    /// Starts etcd as a cluster of one member.
    pub(super) async fn etcd() -> Result<(Self, String)> {
        for program in ["etcd", "etcdctl"] {
            require_program(program, "etcd-server etcd-client")?;
        }
        let (address, peers, data) = (free_address()?, free_address()?, TempDir::new()?);
        let (clients, peers) = (format!("http://{address}"), format!("http://{peers}"));
        let mut command = Command::new("etcd");
        command
            .arg("--data-dir")
            .arg(data.path())
            .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("default={peers}")])
            .args(["--logger", "zap", "--log-level", "error"]);
        let server = Self::start(Kind::Etcd, command, address, data).await?;
        let version = server.query("version").await?;
        let version: serde_json::Value = serde_json::from_str(&version)?;
        let version = version["etcdserver"].as_str().context("etcd tells no version")?;
        Ok((server, format!("etcd {version}")))
    }

    /// Starts one ZooKeeper server, with ticks of `tick` milliseconds.
    pub(super) async fn zookeeper(tick: u32) -> Result<(Self, String)> {
        require_program("java", "default-jre-headless")?;
        ensure!(Path::new(JAR).exists(), "{JAR} is missing: apt-get install zookeeper");
        let (address, data) = (free_address()?, TempDir::new()?);
        let settings = data.path().join("zoo.cfg");
        let text = format!(
            "tickTime={tick}\ndataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\n\
             admin.enableServer=false\nmaxClientCnxns=0\n",
            data.path().display(),
            address.port()
        );
        std::fs::write(&settings, text)?;
        let mut command = Command::new("java");
        command.args(["-Xmx256m", "-cp", JAR]);
        command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(settings);
        let server = Self::start(Kind::Zookeeper, command, address, data).await?;
        let status = server.query("srvr").await?;
        let version =
            status.strip_prefix("Zookeeper version: ").context("ZooKeeper tells nothing")?;
        let version = version.split(['-', ',']).next().unwrap_or_default();
        Ok((server, format!("ZooKeeper {version}")))
    }

    async fn start(
        kind: Kind,
        mut command: Command,
        address: SocketAddr,
        data: TempDir,
    ) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Keeps Ctrl-C from ending it before its clients.
        command.kill_on_drop(true).process_group(0);
        let child = command.spawn().with_context(|| format!("{kind:?} cannot be started"))?;
        let mut server = Self { address, kind, child, _data: data };
        // The server prints nothing when it is ready, so this polls it.
        while server.received_count().await.is_err() {
            if let Some(status) = server.child.try_wait()? {
                bail!("{kind:?} ended at once: {status}");
            }
            sleep(Duration::from_millis(100)).await;
        }
        Ok(server)
    }

    /// Returns the number of client messages so far: messages of etcd's protocol, or packets of
    /// ZooKeeper's. Asking ZooKeeper adds one packet.
    pub(super) async fn received_count(&self) -> Result<u64> {
        let total = match self.kind {
            Kind::Etcd => {
                let metrics = self.query("metrics").await?;
                let counts = metrics
                    .lines()
                    .filter(|line| line.starts_with("grpc_server_msg_received_total{"))
                    .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
                counts.sum::<f64>() as u64
            }
            Kind::Zookeeper => {
                let status = self.query("srvr").await?;
                let count = status.lines().find_map(|line| line.strip_prefix("Received: "));
                count.context("ZooKeeper counts nothing")?.trim().parse()?
            }
        };
        Ok(total)
    }

    /// Returns the number that one call of [`received_count`](Self::received_count) adds.
    pub(super) fn requests_per_count(&self) -> u64 {
        u64::from(self.kind == Kind::Zookeeper)
    }

    async fn query(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(self.address).await?;
        let request = match self.kind {
            Kind::Etcd => format!("GET /{path} HTTP/1.0\r\nhost: {}\r\n\r\n", self.address),
            Kind::Zookeeper => path.to_owned(),
        };
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(match answer.split_once("\r\n\r\n") {
            Some((head, body)) if self.kind == Kind::Etcd => {
                ensure!(head.contains(" 200 "), "etcd: {head}");
                body.to_owned()
            }
            _ => answer,
        })
    }
}

fn require_program(program: &str, packages: &str) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_installed = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    ensure!(is_installed, "`{program}` is missing: apt-get install {packages}");
    Ok(())
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let message = require_program("surely-not-there", "this-package").unwrap_err().to_string();
        assert_eq!(message, "`surely-not-there` is missing: apt-get install this-package");
        assert!(require_program("sh", "dash").is_ok());
    }
}
