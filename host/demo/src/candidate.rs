//! A candidate of the demo: a process of this program, its log, and its end.

use super::act::Act;
use super::heard::{Heard, What, read};
use chrono::Utc;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use tenure::settings::names;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// What all candidates have in common.
pub(super) struct Setup {
    pub program: PathBuf,
    pub handler: PathBuf,
    pub election: &'static str,
    /// How each of them reaches the store.
    pub connection_strings: Vec<String>,
    /// Where the others reach each of them.
    pub addresses: Vec<SocketAddr>,
    pub sink: SocketAddr,
    /// Durations as for the command line.
    pub failover: &'static str,
    pub every: &'static str,
}

impl Setup {
    /// Puts an address of its own for each candidate in the place of the store's.
    pub(super) fn lead_through(
        &mut self,
        store: SocketAddr,
        addresses: impl Iterator<Item = SocketAddr>,
    ) {
        // What is signed is the path, not the host.
        for (known, address) in self.connection_strings.iter_mut().zip(addresses) {
            *known = known.replace(&store.to_string(), &address.to_string());
        }
    }

    fn command(&self, who: usize, name: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args([
            "run",
            self.election,
            "--log",
            "json",
            "--log-level",
            "debug",
            "--name",
            name,
        ]);
        command.args(["--every", self.every, "--failover", self.failover]);
        command.args(["--listen", "127.0.0.1:0"]);
        if let Some(address) = self.addresses.get(who) {
            command.arg("--address").arg(format!("http://{address}"));
        }
        command.arg("--handler").arg(&self.handler);
        command.arg("--env").arg(format!("REPORT_URL=http://{}/turns", self.sink));
        command.arg("--allow-host").arg(self.sink.to_string());
        self.connect(&mut command, who);
        command
    }

    /// Lets a command reach the store as the candidate `who` does.
    fn connect(&self, command: &mut Command, who: usize) {
        // What the user has set for candidates of their own is not meant for these.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if names::PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(&name);
            }
        }
        if let Some(connection_string) = self.connection_strings.get(who) {
            command.env(names::CONNECTION_STRING, connection_string);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
    }

    /// Makes the leader `who` resign, by the command of operators.
    pub(super) fn transfer(&self, who: usize) -> impl Future<Output = Result<(), String>> + use<> {
        let mut command = Command::new(&self.program);
        command.args(["transfer", self.election, "--wait", "20s"]);
        self.connect(&mut command, who);
        async move {
            let output = command.output().await.map_err(|error| error.to_string())?;
            match output.status.success() {
                true => Ok(()),
                false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            }
        }
    }

    /// Starts the candidate `name`. A task of `tasks` listens to it, and ends it when aborted.
    pub(super) fn start(
        &self,
        who: usize,
        name: &str,
        heard: mpsc::UnboundedSender<Heard>,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<mpsc::UnboundedSender<Act>> {
        let child = self.command(who, name).spawn()?;
        let (orders, received) = mpsc::unbounded_channel();
        tasks.spawn(attend(child, who, received, heard));
        Ok(orders)
    }
}

async fn attend(
    mut child: Child,
    who: usize,
    mut orders: mpsc::UnboundedReceiver<Act>,
    heard: mpsc::UnboundedSender<Heard>,
) {
    // Nobody listens any more when the demo is over.
    let tell = |at, what| drop(heard.send(Heard { who, at, what }));
    let mut out = child.stdout.take().map(|out| BufReader::new(out).lines());
    let mut err = child.stderr.take().map(|err| BufReader::new(err).lines());
    loop {
        tokio::select! {
            Some(act) = orders.recv() => {
                if let Err(error) = send(&mut child, act) {
                    tell(Utc::now(), What::Words(format!("{act:?} is not possible: {error}")));
                }
            }
            line = next(&mut out), if out.is_some() => match line {
                Some(line) => {
                    let (at, what) = read(&line, Utc::now());
                    tell(at, what);
                }
                None => out = None,
            },
            line = next(&mut err), if err.is_some() => match line {
                Some(line) => tell(Utc::now(), What::Words(line)),
                None => err = None,
            },
            // Its last words first.
            status = child.wait(), if out.is_none() && err.is_none() => {
                let how = match status {
                    Ok(status) => status.to_string(),
                    Err(error) => error.to_string(),
                };
                return tell(Utc::now(), What::Ended(how));
            }
        }
    }
}

async fn next<R: tokio::io::AsyncRead + Unpin>(
    lines: &mut Option<tokio::io::Lines<BufReader<R>>>,
) -> Option<String> {
    match lines {
        Some(lines) => lines.next_line().await.ok().flatten(),
        None => None,
    }
}

/// Sends it the signals by which something is done to it; none where it is done otherwise.
#[cfg(unix)]
fn send(child: &mut Child, act: Act) -> io::Result<()> {
    use rustix::process::{Pid, Signal, kill_process};
    use tenure::program::supervisor::children_of;

    // A supervisor hands on what it hears; that it stands still, nobody hears.
    let (own, runners) = match act {
        // What it supervises dies with it.
        Act::KillMachine => (Some(Signal::KILL), None),
        Act::KillProcess => (None, Some(Signal::KILL)),
        Act::Stop => (Some(Signal::TERM), None),
        Act::Freeze => (Some(Signal::STOP), Some(Signal::STOP)),
        Act::Thaw => (Some(Signal::CONT), Some(Signal::CONT)),
        Act::Start | Act::Partition | Act::Heal | Act::Resign => (None, None),
    };
    // It has no number any more once its end was seen.
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let Some(pid) = pid else { return Ok(()) };
    own.map_or(Ok(()), |signal| kill_process(pid, signal))?;
    if let Some(signal) = runners {
        children_of(pid).into_iter().try_for_each(|runner| kill_process(runner, signal))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn send(child: &mut Child, act: Act) -> io::Result<()> {
    match act {
        Act::KillMachine => child.start_kill(),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}
