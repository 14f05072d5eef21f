//! The store, the sink, and the candidates as processes of this program.

use super::network_path;
use super::sink::Sink;
use super::story::{Action, ELECTION, Event, SharedStory, Story};
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
use tenure::status::TakeoverTime;
use tenure_core::{format_duration, variable};
use tenure_store::{self as store, Store};
use tenure_wasmtime::EXAMPLE_HANDLER;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Failover window of the candidates (`--failover`).
const FAILOVER: Duration = Duration::from_secs(3);

/// Returns the takeover times with the demo's settings. They assume a supervisor only on Linux,
/// where the demo can find and kill the process below it.
fn takeover_time() -> io::Result<TakeoverTime> {
    let mut settings = CandidateSettings::default();
    settings.options.failover = Some(FAILOVER);
    // Any address suffices: it only shows that followers can watch a leader.
    settings.options.address = Some("http://127.0.0.1".to_owned());
    settings.options.last_will = Some(cfg!(target_os = "linux"));
    settings
        .takeover_time()
        .ok_or_else(|| io::Error::other("the periods of the demo do not fit together"))
}

/// Resources that all candidates share.
struct SharedResources {
    store: Store,
    sink: SocketAddr,
    handler: NamedTempFile,
}

struct Candidate {
    index: usize,
    name: &'static str,
    resources: Arc<SharedResources>,
    story: SharedStory,
    /// The address of the candidate's path to the store.
    store_address: SocketAddr,
    /// The address of the path from the other candidates. It stays the same whatever port a process
    /// uses.
    public_address: SocketAddr,
    /// The address on which the present process listens. None until the process has reported it.
    listen_address: watch::Sender<Option<SocketAddr>>,
}

/// Starts candidates of these names, each in a task of `tasks`. A task that is aborted kills the
/// process of its candidate.
pub(super) async fn open(
    names: &[&'static str],
    tasks: &mut JoinSet<()>,
) -> io::Result<SharedStory> {
    let store = store::run((Ipv4Addr::LOCALHOST, 0).into(), Vec::new()).await?;
    let (endpoint, sink) = Sink::start(tasks).await?;
    let mut handler = tempfile::Builder::new().prefix("tenure-demo-").suffix(".wasm").tempfile()?;
    handler.write_all(EXAMPLE_HANDLER)?;
    handler.flush()?;
    let story = SharedStory::new(Story::new(names, takeover_time()?, endpoint));
    let resources = Arc::new(SharedResources { store, sink, handler });
    for (index, name) in names.iter().enumerate() {
        let count = {
            let story = story.clone();
            move |number| story.with(|story, now| story.lanes[index].requests.add(now, number))
        };
        let cut = || story.with(|story, _| story.lanes[index].cut.subscribe());
        let (_, to_store) = watch::channel(Some(resources.store.address()));
        let listen_address = watch::Sender::new(None);
        let store_address = network_path::open(to_store, cut(), count, tasks).await?;
        let public_address =
            network_path::open(listen_address.subscribe(), cut(), |_| {}, tasks).await?;
        let (action_sender, action_receiver) = unbounded_channel();
        story.with(|story, _| story.lanes[index].action_sender = action_sender);
        let candidate = Candidate {
            index,
            name,
            resources: resources.clone(),
            story: story.clone(),
            store_address,
            public_address,
            listen_address,
        };
        tasks.spawn(Arc::new(candidate).run_processes(action_receiver));
        story.with(|story, now| story.apply(now, index, Action::Start));
    }
    Ok(story)
}

impl Candidate {
    /// Runs a process each time a start is requested.
    async fn run_processes(self: Arc<Self>, mut actions: UnboundedReceiver<Action>) {
        while let Some(action) = actions.recv().await {
            if action == Action::Start {
                let ended = self.run(&mut actions).await;
                let reason = ended.unwrap_or_else(|error| error.to_string());
                self.story.with(|story, now| story.process_ended(self.index, now, &reason));
            }
        }
    }

    /// Runs a process to its end, and returns how it ended.
    async fn run(self: &Arc<Self>, actions: &mut UnboundedReceiver<Action>) -> io::Result<String> {
        let mut child = self.process().spawn()?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let out = each_line(out, |line| self.on_log_line(&line));
        let err = each_line(err, |line| self.report_problem(&format!("says: {line}")));
        let mut lines = pin!(async { tokio::join!(out, err) });
        let mut orders = JoinSet::new();
        loop {
            tokio::select! {
                Some(action) = actions.recv() => {
                    if action == Action::Resign {
                        orders.spawn(self.clone().resign());
                    } else if let Err(error) = signal(&mut child, action) {
                        let name = action.name();
                        self.report_problem(&format!("could not apply the action {name}: {error}"));
                    }
                }
                // The streams close once the supervisor and the runner have ended.
                _ = &mut lines => break,
            }
        }
        Ok(child.wait().await?.to_string())
    }

    fn process(&self) -> Command {
        let (store, sink) = (&self.resources.store, self.resources.sink);
        let path_address = self.store_address.to_string();
        // The signature of a request does not cover the host, so the host can be replaced.
        let connection_string =
            store.connection_string().replace(&store.address().to_string(), &path_address);
        let mut command = command("run", &connection_string);
        command.args(["--log", "json", "--log-level", "debug", "--listen", "127.0.0.1:0"]);
        command.args([
            "--name",
            self.name,
            "--every",
            "2s",
            "--failover",
            &format_duration(FAILOVER),
        ]);
        command.arg("--address").arg(format!("http://{}", self.public_address));
        command.arg("--handler").arg(self.resources.handler.path());
        command.arg("--env").arg(format!("REPORT_URL=http://{sink}/turns"));
        command.arg("--allow-host").arg(sink.to_string());
        command
    }

    /// Handles a line of the log. A line that is not an event is shown unchanged, as a problem.
    fn on_log_line(&self, line: &str) {
        match parse_line(line) {
            None => self.report_problem(&format!("says: {line}")),
            Some((_, None)) => {}
            Some((_, Some(Event::Note { detail }))) => {
                let address = detail.strip_prefix("listening on http://");
                if let Some(Ok(address)) = address.map(str::parse) {
                    self.listen_address.send_replace(Some(address));
                }
            }
            Some((at, Some(event))) => {
                self.story.with(|story, _| story.apply_event(self.index, story.at(at), event));
            }
        }
    }

    fn report_problem(&self, text: &str) {
        self.story.with(|story, now| story.problem(now, format!("{} {text}", self.name)));
    }

    async fn resign(self: Arc<Self>) {
        let mut command = command("transfer", &self.resources.store.connection_string());
        let reason = match command.args(["--wait", "20s"]).output().await {
            Ok(output) if output.status.success() => return,
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        self.report_problem(&format!("does not resign: {reason}"));
    }
}

/// Returns a command of this program for the election, with this connection string.
fn command(verb: &str, connection_string: &str) -> Command {
    // Without a path the start fails, and the error reports it.
    let mut command = Command::new(std::env::current_exe().unwrap_or_default());
    command.args([verb, ELECTION]);
    // The user's own settings for candidates must not apply to those of the demo.
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

async fn each_line(stream: Option<impl AsyncRead + Unpin>, on_line: impl Fn(String)) {
    let Some(stream) = stream else { return };
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        on_line(line);
    }
}

/// Parses a line of a log. The event is `None` if the demo does not use it.
fn parse_line(line: &str) -> Option<(DateTime<Utc>, Option<Event>)> {
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
fn signal(child: &mut Child, action: Action) -> io::Result<()> {
    use rustix::process::{Pid, Signal, kill_process};
    use tenure_supervisor::children_of;

    // A process has no id once its end was observed.
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let Some(pid) = pid else { return Ok(()) };
    // A supervisor forwards SIGTERM to the process below it. If the supervisor dies, so does that
    // process.
    let with_children = || [vec![pid], children_of(pid)].concat();
    let (signal, pids) = match action {
        Action::KillMachine => (Signal::KILL, vec![pid]),
        Action::KillProcess => (Signal::KILL, children_of(pid)),
        Action::Freeze => (Signal::STOP, with_children()),
        Action::Thaw => (Signal::CONT, with_children()),
        Action::Stop => (Signal::TERM, vec![pid]),
        _ => return Ok(()),
    };
    pids.into_iter().try_for_each(|pid| Ok(kill_process(pid, signal)?))
}

#[cfg(not(unix))]
fn signal(child: &mut Child, action: Action) -> io::Result<()> {
    match action {
        Action::KillMachine => child.start_kill(),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tenure::Event as Logged;

    /// Returns the line that `tenure run --log json` writes.
    fn logged(event: &Logged) -> String {
        let mut line = serde_json::to_value(event).unwrap();
        line["timestamp"] = "1970-01-01T00:00:01.500Z".into();
        line["candidate"] = "anna".into();
        line.to_string()
    }

    #[test]
    fn log_events_are_parsed() {
        let event = |event: &Logged| {
            let (at, event) = parse_line(&logged(event)).unwrap();
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
        assert_eq!(parse_line("thread 'main' panicked"), None);
    }
}
