//! A store, a sink, and candidates as processes of this program.

use super::act::Act;
use super::link;
use super::sink::Sink;
use super::story::{ELECTION, Event, Shared, Story};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tempfile::NamedTempFile;
use tenure::engine::CandidateSettings;
use tenure::status::Replacement;
use tenure_core::{format_duration, variable};
use tenure_store::{self as store, Store};
use tenure_wasmtime::EXAMPLE_HANDLER;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How soon a leader is replaced whose machine dies.
const FAILOVER: Duration = Duration::from_secs(3);

/// Returns how soon a leader is replaced, with these settings. Only on Linux can the demo find the process below a
/// supervisor, and kill it.
fn replacement() -> io::Result<Replacement> {
    let mut settings = CandidateSettings::default();
    settings.options.failover = Some(FAILOVER);
    settings.options.address = Some("http://127.0.0.1".to_owned());
    settings.options.last_will = Some(cfg!(target_os = "linux"));
    settings
        .replacement()
        .ok_or_else(|| io::Error::other("the periods of the demo do not fit together"))
}

/// Things that all candidates use, and that live as long as they do.
struct Props {
    store: Store,
    sink: SocketAddr,
    handler: NamedTempFile,
}

struct Candidate {
    who: usize,
    name: &'static str,
    props: Arc<Props>,
    story: Shared,
    /// The address of its path to the store.
    link: SocketAddr,
    /// That of the path from the others. It stays, whatever port a process listens on.
    face: SocketAddr,
    listens: watch::Sender<Option<SocketAddr>>,
}

/// Starts candidates of these names in `tasks`, which kill their processes when they are shut down.
pub(super) async fn open(names: &[&'static str], tasks: &mut JoinSet<()>) -> io::Result<Shared> {
    let store = store::run((Ipv4Addr::LOCALHOST, 0).into(), Vec::new()).await?;
    let (judge, sink) = Sink::start(tasks).await?;
    let mut handler = tempfile::Builder::new().prefix("tenure-demo-").suffix(".wasm").tempfile()?;
    handler.write_all(EXAMPLE_HANDLER)?;
    handler.flush()?;
    let story = Shared::new(Story::new(names, replacement()?, judge));
    let props = Arc::new(Props { store, sink, handler });
    for (who, name) in names.iter().enumerate() {
        let counted = story.clone();
        let count = move |number| {
            counted.with(|story, now| story.lanes[who].requests.add(now, number));
        };
        let cut = || story.with(|story, _| story.lanes[who].cut.subscribe());
        let (_, to_store) = watch::channel(Some(props.store.address()));
        let listens = watch::Sender::new(None);
        let link = link::open(to_store, cut(), count, tasks).await?;
        let face = link::open(listens.subscribe(), cut(), |_| {}, tasks).await?;
        let (acts, received) = unbounded_channel();
        story.with(|story, _| story.lanes[who].acts = acts);
        let (props, candidate) = (props.clone(), story.clone());
        let candidate = Candidate { who, name, props, story: candidate, link, face, listens };
        tasks.spawn(Arc::new(candidate).live(received));
        story.with(|story, now| story.act(now, who, Act::Start));
    }
    Ok(story)
}

impl Candidate {
    /// Runs a process whenever one is started.
    async fn live(self: Arc<Self>, mut acts: UnboundedReceiver<Act>) {
        while let Some(act) = acts.recv().await {
            if act == Act::Start {
                let ended = self.run(&mut acts).await;
                let how = ended.unwrap_or_else(|error| error.to_string());
                self.story.with(|story, now| story.process_ended(self.who, now, &how));
            }
        }
    }

    /// Runs a process to its end, and tells how that was.
    async fn run(self: &Arc<Self>, acts: &mut UnboundedReceiver<Act>) -> io::Result<String> {
        let mut child = self.process().spawn()?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let out = each_line(out, |line| self.hear(&line));
        let err = each_line(err, |line| self.complain(&format!("says: {line}")));
        let mut lines = pin!(async { tokio::join!(out, err) });
        let mut orders = JoinSet::new();
        loop {
            tokio::select! {
                Some(act) = acts.recv() => {
                    if act == Act::Resign {
                        orders.spawn(self.clone().resign());
                    } else if let Err(error) = signal(&mut child, act) {
                        self.complain(&format!("cannot be told to {}: {error}", act.name()));
                    }
                }
                _ = &mut lines => break,
            }
        }
        Ok(child.wait().await?.to_string())
    }

    fn process(&self) -> Command {
        let (store, sink) = (&self.props.store, self.props.sink);
        let link = self.link.to_string();
        // What is signed is the path, not the host.
        let through = store.connection_string().replace(&store.address().to_string(), &link);
        let mut command = command("run", &through);
        command.args(["--log", "json", "--log-level", "debug", "--listen", "127.0.0.1:0"]);
        command.args([
            "--name",
            self.name,
            "--every",
            "2s",
            "--failover",
            &format_duration(FAILOVER),
        ]);
        command.arg("--address").arg(format!("http://{}", self.face));
        command.arg("--handler").arg(self.props.handler.path());
        command.arg("--env").arg(format!("REPORT_URL=http://{sink}/turns"));
        command.arg("--allow-host").arg(sink.to_string());
        command
    }

    /// Takes a line of the log. What is no event is passed on as it is.
    fn hear(&self, line: &str) {
        match read(line) {
            None => self.complain(&format!("says: {line}")),
            Some((_, None)) => {}
            Some((_, Some(Event::Note { detail }))) => {
                let address = detail.strip_prefix("listening on http://");
                if let Some(Ok(address)) = address.map(str::parse) {
                    self.listens.send_replace(Some(address));
                }
            }
            Some((at, Some(event))) => {
                self.story.with(|story, _| story.event(self.who, story.at(at), event));
            }
        }
    }

    fn complain(&self, what: &str) {
        self.story.with(|story, now| story.problem(now, format!("{} {what}", self.name)));
    }

    async fn resign(self: Arc<Self>) {
        let mut command = command("transfer", &self.props.store.connection_string());
        let why = match command.args(["--wait", "20s"]).output().await {
            Ok(output) if output.status.success() => return,
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        self.complain(&format!("does not resign: {why}"));
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
    use tenure_supervisor::children_of;

    // It has no number any more once its end was seen.
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let Some(pid) = pid else { return Ok(()) };
    // A supervisor passes other signals on. Without it, what it supervises dies.
    let both = || [vec![pid], children_of(pid)].concat();
    let (signal, pids) = match act {
        Act::KillMachine => (Signal::KILL, vec![pid]),
        Act::KillProcess => (Signal::KILL, children_of(pid)),
        Act::Freeze => (Signal::STOP, both()),
        Act::Thaw => (Signal::CONT, both()),
        Act::Stop => (Signal::TERM, vec![pid]),
        _ => return Ok(()),
    };
    pids.into_iter().try_for_each(|pid| Ok(kill_process(pid, signal)?))
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
