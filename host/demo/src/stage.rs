//! A store, a sink, and candidates as processes of this program.

use super::act::Act;
use super::link::Link;
use super::sink::Sink;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::process::Stdio;
use tempfile::NamedTempFile;
use tenure::engine::Variables;
use tenure::status::Replacement;
use tenure_core::variable;
use tenure_store::{self as store, Store};
use tenure_wasmtime::EXAMPLE_HANDLER;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// The election that the candidates contend for.
pub(super) const ELECTION: &str = "demo/report";

/// How soon a leader is replaced whose machine dies.
const FAILOVER: &str = "3s";

/// Returns how soon a leader is replaced, with these settings. Only on Linux can the demo find the process below a
/// supervisor, and kill it.
pub(super) fn replacement() -> io::Result<Replacement> {
    let mut settings = Variables::new().with(variable::FAILOVER, FAILOVER);
    settings
        .set(variable::ADDRESS, "http://127.0.0.1")
        .set(variable::LAST_WILL, cfg!(target_os = "linux").to_string());
    settings
        .replacement()
        .ok_or_else(|| io::Error::other("the periods of the demo do not fit together"))
}

/// Something that one candidate said or did.
#[derive(Debug)]
pub(super) struct Heard {
    /// Its number.
    pub who: usize,
    pub at: DateTime<Utc>,
    pub what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// An event of its log.
    Event(Event),
    /// It sent so many requests to the store.
    Requests(usize),
    /// Something is wrong with it; what, in words that follow its name.
    Problem(String),
    /// The process is gone; how, in words.
    Ended(String),
}

/// An event of a log, as far as the demo uses it.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum Event {
    Following,
    Note { detail: String },
    Elected { term: u64, valid_for_ms: u64 },
    Renewed { term: u64 },
    TurnStarted { term: u64, slot: String },
    TurnEnded { term: u64, slot: String, outcome: String, detail: Option<String> },
    StoodDown { term: u64, reason: String },
    Problem { class: String, detail: String },
}

pub(super) struct Stage {
    pub sink: Sink,
    /// The paths from the candidates to the store.
    links: Vec<Link>,
    /// The paths from the others to each candidate: their addresses stay, whatever port a process listens on.
    faces: Vec<Link>,
    acts: Vec<UnboundedSender<Act>>,
    reports: UnboundedSender<Heard>,
    store: Store,
    sink_address: SocketAddr,
    /// Lives as long as the candidates.
    handler: NamedTempFile,
    /// All that runs. Shut down, it kills the candidates that are left.
    pub tasks: JoinSet<()>,
}

impl Stage {
    /// Builds it for so many candidates, none of them started. Returns what they will say and do, too.
    pub(super) async fn build(candidates: usize) -> io::Result<(Self, UnboundedReceiver<Heard>)> {
        let mut tasks = JoinSet::new();
        let store = store::run((Ipv4Addr::LOCALHOST, 0).into(), Vec::new()).await?;
        let (sink, sink_address) = Sink::start(&mut tasks).await?;
        let mut handler =
            tempfile::Builder::new().prefix("tenure-demo-").suffix(".wasm").tempfile()?;
        handler.write_all(EXAMPLE_HANDLER)?;
        handler.flush()?;
        let (reports, heard) = unbounded_channel();
        let (mut links, mut faces) = (Vec::new(), Vec::new());
        for who in 0..candidates {
            let report = reporter(&reports, who);
            let count = move |number| report(Utc::now(), What::Requests(number));
            links.push(Link::start(Some(store.address()), count, &mut tasks).await?);
            faces.push(Link::start(None, |_| {}, &mut tasks).await?);
        }
        let acts = (0..candidates).map(|_| unbounded_channel().0).collect();
        let stage = Self { sink, links, faces, acts, reports, store, sink_address, handler, tasks };
        Ok((stage, heard))
    }

    /// Learns where a candidate listens.
    pub(super) fn hear(&self, heard: &Heard) {
        if let What::Event(Event::Note { detail }) = &heard.what
            && let Some(address) = detail.strip_prefix("listening on http://")
            && let Ok(address) = address.parse()
        {
            self.faces[heard.who].lead_to(address);
        }
    }

    pub(super) fn act(&mut self, act: Act, who: usize, name: &str) -> io::Result<()> {
        let report = reporter(&self.reports, who);
        match act {
            Act::Start => {
                while self.tasks.try_join_next().is_some() {}
                let child = self.run(who, name).spawn()?;
                let (acts, received) = unbounded_channel();
                self.tasks.spawn(attend(child, received, report));
                self.acts[who] = acts;
            }
            Act::Partition | Act::Heal => {
                self.links[who].set_cut(act == Act::Partition);
                self.faces[who].set_cut(act == Act::Partition);
            }
            Act::Resign => drop(self.tasks.spawn(resign(self.transfer(), report))),
            // It may have ended by itself.
            _ => drop(self.acts[who].send(act)),
        }
        Ok(())
    }

    fn run(&self, who: usize, name: &str) -> Command {
        let link = self.links[who].address.to_string();
        // What is signed is the path, not the host.
        let through =
            self.store.connection_string().replace(&self.store.address().to_string(), &link);
        let mut command = command("run", &through);
        command.args(["--log", "json", "--log-level", "debug", "--listen", "127.0.0.1:0"]);
        command.args(["--name", name, "--every", "2s", "--failover", FAILOVER]);
        command.arg("--address").arg(format!("http://{}", self.faces[who].address));
        command.arg("--handler").arg(self.handler.path());
        command.arg("--env").arg(format!("REPORT_URL=http://{}/turns", self.sink_address));
        command.arg("--allow-host").arg(self.sink_address.to_string());
        command
    }

    fn transfer(&self) -> Command {
        let mut command = command("transfer", &self.store.connection_string());
        command.args(["--wait", "20s"]);
        command
    }
}

/// A command of this program for the election, with this connection string.
fn command(verb: &str, connection_string: &str) -> Command {
    // Without a name nothing is started, and the error says so.
    let mut command = Command::new(std::env::current_exe().unwrap_or_default());
    command.args([verb, ELECTION]);
    // What the user has set for candidates of their own is not meant for these.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if variable::PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command.env(variable::CONNECTION_STRING, connection_string);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true);
    command
}

/// Reports of one candidate.
fn reporter(
    reports: &UnboundedSender<Heard>,
    who: usize,
) -> impl Fn(DateTime<Utc>, What) + Clone + Send + Sync + use<> {
    let reports = reports.clone();
    // The receiver is gone when the demo is over.
    move |at, what| drop(reports.send(Heard { who, at, what }))
}

async fn resign(mut command: Command, report: impl Fn(DateTime<Utc>, What)) {
    let why = match command.output().await {
        Ok(output) if output.status.success() => return,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    report(Utc::now(), What::Problem(format!("does not resign: {why}")));
}

/// Reports what a candidate says, and sends it signals, until it has ended.
async fn attend(
    mut child: Child,
    mut acts: UnboundedReceiver<Act>,
    report: impl Fn(DateTime<Utc>, What),
) {
    let says = |line: String| report(Utc::now(), What::Problem(format!("says: {line}")));
    let logs = |line: String| match read(&line) {
        Some((at, Some(event))) => report(at, What::Event(event)),
        Some((_, None)) => {}
        None => says(line),
    };
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let mut lines = pin!(async { tokio::join!(each_line(out, logs), each_line(err, says)) });
    loop {
        tokio::select! {
            Some(act) = acts.recv() => {
                if let Err(error) = signal(&mut child, act) {
                    let text = format!("cannot be told to {}: {error}", act.name());
                    report(Utc::now(), What::Problem(text));
                }
            }
            _ = &mut lines => break,
        }
    }
    // After its last lines.
    let how = child.wait().await.map_or_else(|error| error.to_string(), |how| how.to_string());
    report(Utc::now(), What::Ended(how));
}

async fn each_line(stream: Option<impl AsyncRead + Unpin>, take: impl Fn(String)) {
    let Some(stream) = stream else { return };
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        take(line);
    }
}

/// Reads a line of a log. The event is None if the demo does not use it.
fn read(line: &str) -> Option<(DateTime<Utc>, Option<Event>)> {
    #[derive(Deserialize)]
    struct Line {
        timestamp: String,
        #[serde(flatten)]
        event: Option<Event>,
    }
    let Line { timestamp, event } = serde_json::from_str(line).ok()?;
    Some((timestamp.parse().ok()?, event))
}

#[cfg(unix)]
fn signal(child: &mut Child, act: Act) -> io::Result<()> {
    use rustix::process::{Pid, Signal, kill_process};
    use tenure::program::supervisor::children_of;

    // It has no number any more once its end was seen.
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let Some(pid) = pid else { return Ok(()) };
    // A supervisor passes other signals on. Without it, what it supervises dies.
    let (signal, own, runners) = match act {
        Act::KillMachine => (Signal::KILL, true, false),
        Act::KillProcess => (Signal::KILL, false, true),
        Act::Freeze => (Signal::STOP, true, true),
        Act::Thaw => (Signal::CONT, true, true),
        _ => (Signal::TERM, true, false),
    };
    if own {
        kill_process(pid, signal)?;
    }
    if runners {
        children_of(pid).into_iter().try_for_each(|runner| kill_process(runner, signal))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn signal(child: &mut Child, act: Act) -> io::Result<()> {
    match act {
        Act::KillMachine => child.start_kill(),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tenure::Event as Logged;

    /// As `tenure run --log json` writes it.
    fn logged(event: &Logged) -> String {
        let mut line = serde_json::to_value(event).unwrap();
        line["timestamp"] = "1970-01-01T00:00:01.500Z".into();
        line["candidate"] = "anna".into();
        line.to_string()
    }

    #[test]
    fn the_events_of_a_log_are_understood() {
        let event = |event: &Logged| {
            let (at, event) = read(&logged(event)).unwrap();
            assert_eq!(at.timestamp_millis(), 1_500);
            event
        };
        let valid_for = Duration::from_secs(12);
        let elected = Logged::Elected { term: 7, valid_for, next_turn: None };
        assert_eq!(event(&elected), Some(Event::Elected { term: 7, valid_for_ms: 12_000 }));
        let follows = Logged::Following { leader: Some("ben".to_owned()), term: Some(7) };
        assert_eq!(event(&follows), Some(Event::Following));
        let note = Logged::Note { detail: "listening on http://127.0.0.1:1".to_owned() };
        let detail = "listening on http://127.0.0.1:1".to_owned();
        assert_eq!(event(&note), Some(Event::Note { detail }));
        assert_eq!(event(&Logged::Stopped), None);
    }

    #[test]
    fn other_lines_are_no_events() {
        assert_eq!(read("thread 'main' panicked"), None);
    }
}
