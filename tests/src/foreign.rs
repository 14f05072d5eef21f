//! Hosts that are not ours: wasmtime from PyPI, driven by the scripts in `tests/foreign`, and
//! jco on Node.js, the version that comes with the JavaScript example.

use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::{examples, reserve_port, tools};

/// Runs a script of `tests/foreign` on this component.
///
/// # Errors
/// wasmtime cannot be installed.
pub fn wasmtime_script(script: &str, component: &Path) -> Result<Command> {
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
pub fn jco_command(verb: &str, component: &Path) -> Result<Command> {
    let installed = examples::javascript()?;
    let mut node = Command::new("node");
    node.arg(installed.join("node_modules/.bin/jco"));
    node.arg(verb).arg(component).current_dir(installed);
    Ok(node)
}

/// wasmtime's own program, when there is one on the `PATH`.
#[must_use]
pub fn wasmtime_program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("wasmtime")).find(|file| file.is_file())
}

/// A host that serves HTTP. Ended with all its processes when it is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Starts a command that is told where to listen, and waits until it does.
    ///
    /// # Errors
    /// It ends or does not listen.
    pub async fn start(command: impl FnOnce(u16) -> Command) -> Result<Self> {
        // Neither of the hosts can take a port that the kernel picks and tell it.
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

    /// A URL at this host.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // jco is the parent of the process that serves.
        let group = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// A host that takes a turn whenever it is told to.
#[derive(Debug)]
pub struct WarmHost {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl WarmHost {
    /// Starts `run.py COMPONENT waits`, and waits until it can begin at once.
    ///
    /// # Errors
    /// It does not start.
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

    /// Takes a turn. Returns what became of it.
    ///
    /// # Errors
    /// The host says nothing.
    pub async fn turn(&mut self) -> Result<serde_json::Value> {
        self.stdin.write_all(b"\n").await?;
        Ok(serde_json::from_str(&self.line().await?)?)
    }

    /// Takes no more turns. Tells whether all of them ended well.
    ///
    /// # Errors
    /// Its end cannot be waited for.
    pub async fn end(mut self) -> Result<bool> {
        drop(self.stdin);
        Ok(self.child.wait().await?.success())
    }

    async fn line(&mut self) -> Result<String> {
        self.lines.next_line().await?.context("the host has ended")
    }
}
