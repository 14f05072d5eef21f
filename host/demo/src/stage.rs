//! A store, a sink, and candidates as processes of this program.

use super::act::Act;
use super::link::Link;
use super::sink::Sink;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;
use tempfile::NamedTempFile;
use tenure::engine::CandidateSettings;
use tenure::status::Replacement;
use tenure_core::{format_duration, variable};
use tenure_store::{self as store, Store};
use tenure_wasmtime::EXAMPLE_HANDLER;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader, Lines};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The election that the candidates contend for.
pub(super) const ELECTION: &str = "demo/report";

/// How soon a leader is replaced whose machine dies.
const FAILOVER: Duration = Duration::from_secs(3);

/// Returns how soon a leader is replaced, with these settings. Only on Linux can the demo find the process below a
/// supervisor, and kill it.
pub(super) fn replacement() -> io::Result<Replacement> {
    let mut settings = CandidateSettings::default();
    settings.options.failover = Some(FAILOVER);
    settings.options.address = Some("http://127.0.0.1".to_owned());
    settings.options.last_will = Some(cfg!(target_os = "linux"));
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
    /// A line that is not of the log: a complaint, a panic.
    Words(String),
    /// The process is gone; how, in words.
    Ended(String),
    /// It was asked to resign and did not; why.
    NotResigned(String),
}

/// An event of a log, as far as the demo uses it.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum Event {
    Following,
    Note {
        detail: String,
    },
    Elected {
        term: u64,
        valid_for_ms: u64,
    },
    Renewed {
        term: u64,
    },
    TurnStarted {
        term: u64,
        slot: String,
    },
    TurnEnded {
        term: u64,
        slot: String,
        outcome: String,
        detail: Option<String>,
    },
    StoodDown {
        term: u64,
        reason: String,
    },
    Problem {
        class: String,
        detail: String,
    },
    #[serde(other)]
    Other,
}

pub(super) struct Stage {
    pub sink: Sink,
    /// The paths from the candidates to the store.
    pub links: Vec<Link>,
    /// The paths from the others to each candidate: their addresses stay, whatever port a process listens on.
    faces: Vec<Link>,
    acts: Vec<mpsc::UnboundedSender<Act>>,
    tell: mpsc::UnboundedSender<Heard>,
    store: Store,
    sink_address: SocketAddr,
    /// Lives as long as the candidates.
    handler: NamedTempFile,
    /// All that runs. Shut down, it kills the candidates that are left.
    pub tasks: JoinSet<()>,
}

impl Stage {
    /// Builds it for so many candidates, none of them started. Returns what they will say and do, too.
    pub(super) async fn build(
        candidates: usize,
    ) -> io::Result<(Self, mpsc::UnboundedReceiver<Heard>)> {
        let mut tasks = JoinSet::new();
        let store = store::run((Ipv4Addr::LOCALHOST, 0).into(), Vec::new()).await?;
        let (sink, sink_address) = Sink::start(&mut tasks).await?;
        let mut handler =
            tempfile::Builder::new().prefix("tenure-demo-").suffix(".wasm").tempfile()?;
        handler.write_all(EXAMPLE_HANDLER)?;
        handler.flush()?;
        let (mut links, mut faces) = (Vec::new(), Vec::new());
        for _ in 0..candidates {
            links.push(Link::start(Some(store.address()), &mut tasks).await?);
            faces.push(Link::start(None, &mut tasks).await?);
        }
        let (tell, heard) = mpsc::unbounded_channel();
        let acts = (0..candidates).map(|_| mpsc::unbounded_channel().0).collect();
        Ok((Self { sink, links, faces, acts, tell, store, sink_address, handler, tasks }, heard))
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
        match act {
            Act::Start => {
                let child = self.run(who, name).spawn()?;
                let (acts, received) = mpsc::unbounded_channel();
                self.tasks.spawn(attend(child, who, received, self.tell.clone()));
                self.acts[who] = acts;
            }
            Act::Partition | Act::Heal => {
                self.links[who].set_cut(act == Act::Partition);
                self.faces[who].set_cut(act == Act::Partition);
            }
            Act::Resign => drop(self.tasks.spawn(resign(self.transfer(), who, self.tell.clone()))),
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
        command.args(["--name", name, "--every", "2s", "--failover", &format_duration(FAILOVER)]);
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

async fn resign(mut command: Command, who: usize, tell: mpsc::UnboundedSender<Heard>) {
    let why = match command.output().await {
        Ok(output) if output.status.success() => return,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    let _ = tell.send(Heard { who, at: Utc::now(), what: What::NotResigned(why) });
}

/// Reports what a candidate says, and sends it signals, until it has ended.
async fn attend(
    mut child: Child,
    who: usize,
    mut acts: mpsc::UnboundedReceiver<Act>,
    tell: mpsc::UnboundedSender<Heard>,
) {
    // The receiver is gone when the demo is over.
    let tell = |at, what| drop(tell.send(Heard { who, at, what }));
    let mut out = child.stdout.take().map(|out| BufReader::new(out).lines());
    let mut err = child.stderr.take().map(|err| BufReader::new(err).lines());
    loop {
        tokio::select! {
            Some(act) = acts.recv() => {
                if let Err(error) = signal(&mut child, act) {
                    tell(Utc::now(), What::Words(format!("{act:?} is not possible: {error}")));
                }
            }
            line = next(&mut out), if out.is_some() => match line {
                Some(line) => {
                    let (at, what) = read(&line);
                    tell(at, what);
                }
                None => out = None,
            },
            line = next(&mut err), if err.is_some() => match line {
                Some(line) => tell(Utc::now(), What::Words(line)),
                None => err = None,
            },
            // After its last lines.
            status = child.wait(), if out.is_none() && err.is_none() => {
                let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                return tell(Utc::now(), What::Ended(how));
            }
        }
    }
}

async fn next<R: AsyncRead + Unpin>(lines: &mut Option<Lines<BufReader<R>>>) -> Option<String> {
    lines.as_mut()?.next_line().await.ok().flatten()
}

/// Reads a line of standard output. What is not an event is passed on as it is.
fn read(line: &str) -> (DateTime<Utc>, What) {
    #[derive(Deserialize)]
    struct Line {
        timestamp: String,
        #[serde(flatten)]
        event: Event,
    }
    let read = serde_json::from_str(line).ok().and_then(|Line { timestamp, event }| {
        let at = DateTime::parse_from_rfc3339(&timestamp).ok()?;
        Some((at.to_utc(), What::Event(event)))
    });
    read.unwrap_or_else(|| (Utc::now(), What::Words(line.to_owned())))
}

#[cfg(unix)]
fn signal(child: &mut Child, act: Act) -> io::Result<()> {
    use rustix::process::{Pid, Signal, kill_process};
    use tenure::program::supervisor::children_of;

    // A supervisor passes other signals on. Without it, what it supervises dies.
    let (own, runners) = match act {
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
        let event = |event: &Logged| match read(&logged(event)) {
            (at, What::Event(event)) => {
                assert_eq!(at.timestamp_millis(), 1_500);
                event
            }
            (_, other) => panic!("{other:?}"),
        };
        let valid_for = Duration::from_secs(12);
        let elected = Logged::Elected { term: 7, valid_for, next_turn: None };
        assert_eq!(event(&elected), Event::Elected { term: 7, valid_for_ms: 12_000 });
        let follows = Logged::Following { leader: Some("ben".to_owned()), term: Some(7) };
        assert_eq!(event(&follows), Event::Following);
        let note = Logged::Note { detail: "listening on http://127.0.0.1:1".to_owned() };
        let detail = "listening on http://127.0.0.1:1".to_owned();
        assert_eq!(event(&note), Event::Note { detail });
        assert_eq!(event(&Logged::Stopped), Event::Other);
    }

    #[test]
    fn other_lines_are_kept() {
        let (_, what) = read("thread 'main' panicked");
        assert!(matches!(what, What::Words(words) if words == "thread 'main' panicked"));
    }
}
