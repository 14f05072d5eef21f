//! Third-party hosts: wasmtime from PyPI, driven by the scripts in `tests/foreign`, and jco on
//! Node.js in the version of the JavaScript example.

use std::fs::Permissions;
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::{examples, reserve_port, tools};

/// Returns a command that runs a script of `tests/foreign` on this component.
///
/// # Errors
/// wasmtime cannot be installed.
pub fn wasmtime_script(script: &str, component: &Path) -> Result<Command> {
    let installed = tools::pip("wasmtime", "tests/foreign/requirements.txt")?;
    let mut python = Command::new("python3");
    // Writes no byte code next to the scripts.
    python.arg("-B").arg(tools::repository().join("tests/foreign").join(script)).arg(component);
    python.env("PYTHONPATH", installed);
    Ok(python)
}

/// Returns the command `jco VERB COMPONENT`.
///
/// # Errors
/// jco cannot be installed.
pub fn jco_command(verb: &str, component: &Path) -> Result<Command> {
    let installed = examples::javascript()?;
    let mut node = Command::new("node");
    node.arg(installed.join("node_modules/.bin/jco"));
    node.arg(verb).arg(component).current_dir(installed);
    Ok(node)
}

/// Returns wasmtime's own program, which runs WASI 0.3.
///
/// # Errors
/// wasmtime cannot be installed.
pub fn wasmtime_program() -> Result<PathBuf> {
    let installed = tools::pip("wasmtime", "tests/foreign/requirements.txt")?;
    let program = installed.join("wasmtime_cli/wasmtime");
    // pip does not mark it as executable.
    std::fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    Ok(program)
}

/// HTTP host. Dropping it ends all its processes.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Starts a command with its port, and waits until it listens.
    ///
    /// # Errors
    /// The host ends or does not listen.
    pub async fn start(command: impl FnOnce(u16) -> Command) -> Result<Self> {
        // Neither host can report a port that the kernel picked.
        let port = reserve_port()?.port();
        let address = format!("127.0.0.1:{port}");
        let mut output = tempfile::tempfile()?;
        let mut child = command(port)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("the host cannot be started")?;
        let listening = async {
            while tokio::net::TcpStream::connect(&address).await.is_err() {
                if let Some(status) = child.try_wait()? {
                    let mut output_text = String::new();
                    output.rewind()?;
                    output.read_to_string(&mut output_text)?;
                    bail!("the host ended before it listened: {status}\n{output_text}");
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok(())
        };
        listening.await?;
        Ok(Self { child, address })
    }

    /// Returns a URL at this host.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // jco is the parent of the serving process.
        let group = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Host that takes a turn on request.
#[derive(Debug)]
pub struct WarmHost {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl WarmHost {
    /// Starts `run.py COMPONENT waits`, and waits until it can start a turn at once.
    ///
    /// # Errors
    /// The host does not start.
    pub async fn start(mut script: Command) -> Result<Self> {
        script.arg("waits").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = script.spawn().context("the host cannot be started")?;
        let stdin = child.stdin.take().context("no standard input")?;
        let stdout = child.stdout.take().context("no standard output")?;
        let mut host = Self { child, stdin, lines: BufReader::new(stdout).lines() };
        let ready = host.line().await?;
        if ready != "ready" {
            bail!("the host is not ready, but says {ready}");
        }
        Ok(host)
    }

    /// Takes a turn, and returns its result.
    ///
    /// # Errors
    /// The host prints no result.
    pub async fn turn(&mut self) -> Result<serde_json::Value> {
        self.stdin.write_all(b"\n").await?;
        Ok(serde_json::from_str(&self.line().await?)?)
    }

    /// Ends the host. Returns true if all turns succeeded.
    ///
    /// # Errors
    /// Waiting for its end fails.
    pub async fn end(mut self) -> Result<bool> {
        drop(self.stdin);
        Ok(self.child.wait().await?.success())
    }

    async fn line(&mut self) -> Result<String> {
        self.lines.next_line().await?.context("the host has ended")
    }
}
