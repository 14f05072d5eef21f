//! A candidate of the demo: a process of this program, its log, and its end.

use super::super::ca_file::CA_FILE;
use super::heard::{Heard, What, read};
use crate::settings::names;
use chrono::Utc;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// What all candidates have in common.
pub(super) struct Setup {
    pub program: PathBuf,
    pub handler: PathBuf,
    pub connection_string: String,
    pub sink: SocketAddr,
    /// Durations as for the command line.
    pub lease: &'static str,
    pub every: &'static str,
}

/// What can be done to a candidate.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// SIGKILL: it learns nothing of it.
    Kill,
    /// SIGTERM: it leaves in good order.
    Stop,
}

impl Setup {
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["run", "--election", "demo/report", "--log", "json", "--name", name]);
        command.args(["--every", self.every, "--lease", self.lease]);
        command.arg("--handler").arg(&self.handler);
        command.arg("--env").arg(format!("REPORT_URL=http://{}/turns", self.sink));
        command.arg("--allow-host").arg(self.sink.to_string());
        // What the user has set for candidates of their own is not meant for these.
        for setting in names::ALL.into_iter().chain([CA_FILE]) {
            command.env_remove(setting);
        }
        command.env(names::CONNECTION_STRING, &self.connection_string);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        command
    }

    /// Starts the candidate `name`. A task of `tasks` listens to it, and ends it when aborted.
    pub(super) fn start(
        &self,
        who: usize,
        name: &str,
        heard: mpsc::UnboundedSender<Heard>,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<mpsc::UnboundedSender<Order>> {
        let child = self.command(name).spawn()?;
        let (orders, received) = mpsc::unbounded_channel();
        tasks.spawn(attend(child, who, received, heard));
        Ok(orders)
    }
}

async fn attend(
    mut child: Child,
    who: usize,
    mut orders: mpsc::UnboundedReceiver<Order>,
    heard: mpsc::UnboundedSender<Heard>,
) {
    // Nobody listens any more when the demo is over.
    let tell = |at, what| drop(heard.send(Heard { who, at, what }));
    let mut out = child.stdout.take().map(|out| BufReader::new(out).lines());
    let mut err = child.stderr.take().map(|err| BufReader::new(err).lines());
    loop {
        tokio::select! {
            Some(order) = orders.recv() => {
                if let Err(error) = obey(&mut child, order) {
                    tell(Utc::now(), What::Words(format!("{order:?} is not possible: {error}")));
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

fn obey(child: &mut Child, order: Order) -> io::Result<()> {
    match order {
        Order::Kill => child.start_kill(),
        Order::Stop => terminate(child),
    }
}

#[cfg(unix)]
fn terminate(child: &Child) -> io::Result<()> {
    use rustix::process::{Pid, Signal, kill_process};
    // It has no number any more once its end was seen.
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    pid.map_or(Ok(()), |pid| Ok(kill_process(pid, Signal::TERM)?))
}

#[cfg(not(unix))]
fn terminate(_: &Child) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
