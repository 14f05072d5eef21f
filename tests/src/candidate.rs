//! Candidates as real processes, observed through their output.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tenure_supervisor::children_of;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{OnceCell, watch};

use crate::credential::PATIENT_TIMINGS;
use crate::measure::{peak_memory, processor_time};
use crate::{Access, BEAT_HANDLER, Credential, Outsider, Sink, Store};

/// One line of a candidate's log, with its arrival time.
#[derive(Clone, Debug)]
pub struct Line {
    /// Time at which the line was read.
    pub at: Instant,
    /// Event on the line.
    pub event: Value,
}

impl Line {
    /// Returns the name of the event. A problem of the class `overload` is named `overload`: a
    /// machine that is busy with other tests can cause it in any test.
    #[must_use]
    pub fn name(&self) -> &str {
        let class = self.event["class"].as_str().filter(|class| *class == "overload");
        class.or(self.event["event"].as_str()).unwrap_or_default()
    }

    /// Returns the field `term`, or 0.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.event["term"].as_u64().unwrap_or_default()
    }
}

#[derive(Debug)]
struct Log {
    lines: Mutex<Vec<Line>>,
    count: watch::Sender<usize>,
    closed: watch::Sender<bool>,
}

/// Settings that all candidates of one election share.
#[derive(Clone, Debug)]
pub struct Group {
    /// Path of the program.
    pub program: PathBuf,
    /// Connection string with the account's key.
    pub connection_string: String,
    /// Store access of the candidates.
    pub access: Access,
    /// Name of the election, `container/blob`.
    pub election: String,
    /// Address of the sink, `127.0.0.1:PORT`.
    pub sink: String,
    /// Option and value of the timer.
    pub timer: [&'static str; 2],
    /// Duration of each turn, in milliseconds.
    pub turn_ms: u64,
    /// True if no candidate may lose its lease, even on a machine that stalls for ten seconds. A
    /// candidate's own options take precedence.
    pub patient_timings: bool,
}

impl Group {
    /// Creates an election in its own container, for candidates with the account's key.
    #[must_use]
    pub fn new(program: &str, store: &Store, sink: &Sink) -> Self {
        Self::with_credential(program, store, sink, Credential::SharedKey)
    }

    /// Creates the same for candidates with another credential.
    #[must_use]
    pub fn with_credential(
        program: &str,
        store: &Store,
        sink: &Sink,
        credential: Credential,
    ) -> Self {
        let container = format!("tenure-test-{}", uuid::Uuid::new_v4().simple());
        let connection_string = store.connection_string();
        let access = credential.access(&connection_string, &container);
        Self {
            program: PathBuf::from(program),
            access: access.trusting(store.ca_file()),
            connection_string,
            election: format!("{container}/leader"),
            sink: sink.host(),
            timer: ["--every", "2s"],
            turn_ms: 1_600,
            patient_timings: false,
        }
    }

    /// Returns a client that has the key and can disturb this election.
    #[must_use]
    pub fn outsider(&self) -> Outsider {
        let outsider = Outsider::new(&self.connection_string, &self.election);
        match self.access.ca() {
            Some(ca) => outsider.trusting(ca),
            None => outsider,
        }
    }

    fn apply_patient_timings(&self, command: &mut Command) {
        if self.patient_timings {
            command.envs(PATIENT_TIMINGS);
        }
    }

    /// Makes the program compile its components once, before many processes do so at the same time.
    ///
    /// # Errors
    /// The program cannot be started.
    pub async fn warm_up(&self) -> Result<()> {
        static COMPILED: OnceCell<()> = OnceCell::const_new();
        let compile = async || {
            // The program loads and checks everything; without an account it sends nothing.
            Command::new(&self.program)
                .args(["run", &self.election, "--handler", BEAT_HANDLER])
                .env_remove("AZURE_STORAGE_CONNECTION_STRING")
                .stdin(Stdio::null())
                .output()
                .await?;
            Ok(())
        };
        COMPILED.get_or_try_init(compile).await.copied()
    }

    /// Starts a candidate with the beat handler.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(&self, name: &str, options: &[&str]) -> Result<Candidate> {
        self.start_with(name, &self.access, Path::new(BEAT_HANDLER), options)
    }

    /// Starts a candidate with its own store access and handler.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start_with(
        &self,
        name: &str,
        access: &Access,
        handler: &Path,
        options: &[&str],
    ) -> Result<Candidate> {
        Candidate::spawn(name, self.component(name, access, handler, options))
    }

    /// Returns the command of a candidate with this handler, to be adapted and then
    /// [spawned](Candidate::spawn).
    #[must_use]
    pub fn component(
        &self,
        name: &str,
        access: &Access,
        handler: &Path,
        options: &[&str],
    ) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["run", "--log", "json", "--log-level", "debug", &self.election, "--name", name])
            .args(self.timer)
            .args(["--allow-host", &self.sink])
            .args(["--env", &format!("BEAT_URL=http://{}/", self.sink)])
            .args(["--env", &format!("BEAT_FOR_MS={}", self.turn_ms)])
            .arg("--handler")
            .arg(handler)
            .args(options);
        self.apply_patient_timings(&mut command);
        access.apply(&mut command);
        command
    }

    /// Returns the command of a candidate that runs a command for each turn, to be adapted and then
    /// [spawned](Candidate::spawn). The turn's command receives `BEAT_AT`, the sink's address and
    /// port.
    #[must_use]
    pub fn command(&self, name: &str, options: &[&str], work_command: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["run", "--log", "json", "--log-level", "debug", &self.election, "--name", name])
            .args(self.timer)
            .args(["--env", &format!("BEAT_AT={}", self.sink)])
            .args(options);
        self.apply_patient_timings(&mut command);
        self.access.apply(&mut command);
        command.arg("--").args(work_command);
        command
    }
}

async fn read_events(stdout: BufReader<tokio::process::ChildStdout>, log: Arc<Log>) {
    let mut lines = stdout.lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let event = serde_json::from_str(&line).unwrap_or(Value::String(line));
        let mut log_lines = log.lines.lock().unwrap();
        log_lines.push(Line { at: Instant::now(), event });
        log.count.send_replace(log_lines.len());
    }
    log.closed.send_replace(true);
}

async fn read_errors(stderr: BufReader<tokio::process::ChildStderr>, errors: Arc<Mutex<String>>) {
    let mut lines = stderr.lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let mut log_lines = errors.lock().unwrap();
        log_lines.push_str(&line);
        log_lines.push('\n');
    }
}

/// Candidate process. Dropping it kills the process.
#[derive(Debug)]
pub struct Candidate {
    /// Name of the candidate.
    pub name: String,
    child: Child,
    log: Arc<Log>,
    errors: Arc<Mutex<String>>,
}

impl Candidate {
    /// Starts a process that prints events as JSON, one per line.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn spawn(name: &str, mut command: Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let log = Arc::new(Log {
            lines: Mutex::default(),
            count: watch::Sender::new(0),
            closed: watch::Sender::new(false),
        });
        let stdout = child.stdout.take().context("no standard output")?;
        let stderr = child.stderr.take().context("no standard error")?;
        let errors = Arc::new(Mutex::new(String::new()));
        tokio::spawn(read_events(BufReader::new(stdout), Arc::clone(&log)));
        tokio::spawn(read_errors(BufReader::new(stderr), Arc::clone(&errors)));
        Ok(Self { name: name.into(), child, log, errors })
    }

    /// Returns all lines printed so far.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        self.log.lines.lock().unwrap().clone()
    }

    /// Waits until the process has ended, and returns all its lines.
    pub async fn all_lines(&self) -> Vec<Line> {
        let _ = self.log.closed.subscribe().wait_for(|closed| *closed).await;
        self.lines()
    }

    /// Returns the standard error so far.
    #[must_use]
    pub fn errors(&self) -> String {
        self.errors.lock().unwrap().clone()
    }

    /// Returns the number of events with this name.
    #[must_use]
    pub fn count(&self, event: &str) -> usize {
        self.lines().iter().filter(|line| line.name() == event).count()
    }

    /// Waits for the first line that `matches`, without a time limit.
    pub async fn wait_for_line(&self, matches: impl Fn(&Line) -> bool) -> Line {
        let mut count = self.log.count.subscribe();
        let mut lines_seen = 0;
        loop {
            // Releases the lock before the wait.
            let found_line = {
                let lines = self.log.lines.lock().unwrap();
                let from = std::mem::replace(&mut lines_seen, lines.len());
                lines[from..].iter().find(|line| matches(line)).cloned()
            };
            if let Some(line) = found_line {
                return line;
            }
            if count.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Waits for a line that `matches` among those after the first `after`, while the process
    /// lives.
    pub async fn line(
        &self,
        description: &str,
        after: usize,
        limit: Duration,
        matches: impl Fn(&Line) -> bool,
    ) -> Line {
        self.line_within(after, limit, matches).await.unwrap_or_else(|| {
            let ended = *self.log.closed.borrow();
            let reason = if ended { "before it ended".into() } else { format!("within {limit:?}") };
            panic!("{}: no {description} {reason}\n{}", self.name, self.transcript())
        })
    }

    /// Waits like [`line`](Self::line), but returns `None` at the limit or when the process ends.
    pub async fn line_within(
        &self,
        after: usize,
        limit: Duration,
        matches: impl Fn(&Line) -> bool,
    ) -> Option<Line> {
        let find_line = || self.lines().into_iter().skip(after).find(&matches);
        let (mut count, mut closed) = (self.log.count.subscribe(), self.log.closed.subscribe());
        let result = tokio::time::timeout(limit, async {
            loop {
                if let Some(line) = find_line() {
                    return Some(line);
                }
                tokio::select! {
                    _ = count.changed() => {}
                    // All its lines have already been read.
                    _ = closed.wait_for(|closed| *closed) => return find_line(),
                }
            }
        });
        result.await.ok().flatten()
    }

    /// Waits for the first event of this name.
    pub async fn event(&self, name: &str, limit: Duration) -> Line {
        self.line(name, 0, limit, |line| line.name() == name).await
    }

    /// Returns all output, for the message of a failing test.
    #[must_use]
    pub fn transcript(&self) -> String {
        let lines = self.lines();
        let lines: Vec<_> = lines.iter().map(|line| line.event.to_string()).collect();
        format!("{}\n{}", lines.join("\n"), self.errors())
    }

    /// Returns true if the process still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns the peak memory of its runner, in bytes.
    ///
    /// # Errors
    /// The process has ended, or the system does not provide the value.
    pub fn peak_memory(&self) -> Result<u64> {
        peak_memory(self.runner()?)
    }

    /// Returns the processor time of its supervisor and its runner so far.
    ///
    /// # Errors
    /// The process has ended, or the system does not provide the value.
    pub fn processor_time(&self) -> Result<Duration> {
        let (id, runner) = (self.id()?, self.runner()?);
        let processes = [Some(id), (runner != id).then_some(runner)];
        processes.into_iter().flatten().map(processor_time).sum()
    }

    /// Kills the supervisor and its runner.
    ///
    /// # Errors
    /// A process cannot be killed.
    pub async fn kill(&mut self) -> Result<()> {
        let runner = self.runner().ok();
        self.child.kill().await?;
        while runner.is_some_and(is_alive) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Sends SIGTERM, and waits until the process has ended.
    ///
    /// # Errors
    /// The process does not end within `limit`.
    pub async fn terminate(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.end(limit).await
    }

    /// Waits until the process has ended and all its output was read.
    ///
    /// # Errors
    /// The process does not end within `limit`.
    pub async fn end(&mut self, limit: Duration) -> Result<ExitStatus> {
        let Ok(status) = tokio::time::timeout(limit, self.child.wait()).await else {
            bail!("{} did not end within {limit:?}\n{}", self.name, self.transcript())
        };
        self.all_lines().await;
        Ok(status?)
    }

    /// Returns the id of the process that runs its election: the child of the started process, or
    /// the started process if it has no such child.
    ///
    /// # Errors
    /// The process has ended.
    pub fn runner(&self) -> Result<Pid> {
        Ok(runner_of(self.id()?))
    }

    /// Returns the id of the started process.
    ///
    /// # Errors
    /// The process has ended.
    pub fn id(&self) -> Result<Pid> {
        let id = self.child.id().context("it has ended")?;
        Pid::from_raw(i32::try_from(id)?).context("no process id")
    }

    /// Sends a signal to the started process. SIGSTOP and SIGCONT also go to its runner.
    ///
    /// # Errors
    /// The process has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let (id, runner) = (self.id()?, self.runner()?);
        kill_process(id, signal)?;
        if [Signal::STOP, Signal::CONT].contains(&signal) && runner != id {
            kill_process(runner, signal)?;
        }
        Ok(())
    }
}

/// Returns the child that runs the election of a started process, or the process itself if it has
/// none.
#[must_use]
pub fn runner_of(id: Pid) -> Pid {
    let supervisor_argument = format!("--supervised-by={}", id.as_raw_nonzero());
    // The arguments alone are ambiguous: a child of the runner has the same ones until its exec.
    let runner = children_of(id).into_iter().find(|child| {
        let line = std::fs::read(format!("/proc/{}/cmdline", child.as_raw_nonzero()));
        let line = line.unwrap_or_default();
        line.split(|byte| *byte == 0)
            .nth(2)
            .is_some_and(|argument| argument == supervisor_argument.as_bytes())
    });
    runner.unwrap_or(id)
}

/// Returns true if a process runs or is stopped; a zombie counts as dead.
#[must_use]
pub fn is_alive(id: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero()));
    let state = stat.ok().and_then(|stat| stat.rsplit_once(')')?.1.trim_start().chars().next());
    state.is_some_and(|state| !"ZX".contains(state))
}

/// Returns the output of the first future to complete; the others are dropped.
pub async fn first<T>(mut futures: Vec<std::pin::Pin<Box<impl Future<Output = T>>>>) -> T {
    std::future::poll_fn(|context| {
        for future in &mut futures {
            if let std::task::Poll::Ready(value) = future.as_mut().poll(context) {
                return std::task::Poll::Ready(value);
            }
        }
        std::task::Poll::Pending
    })
    .await
}
