//! Many processes contend for one lock repeatedly, while some holders are killed.
//!
//! The kernel serves as the reference: each command locks a file, and must never find it locked.
//! Descendants share that lock, so a command counts as running while any of them lives.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::candidate::{is_alive, runner_of};
use crate::measure::Spread;

/// Exit code of a command that found another one running.
const TWO_AT_ONCE: i32 = 99;

/// Placeholder for a process that does not run to its end.
const NOT_ENDED: i32 = i32::MIN;

/// Work of the command: it logs its start and its end. A victim waits for its harm.
const SCRIPT: &str = r#"
n=$(($(cat "$PLACE/count") + 1))
victim=$([ $((n % VICTIMS)) = 0 ] && echo $((n / VICTIMS)) || echo 0)
echo "start $WHO $TENURE_TERM $victim $$ $(date +%s%N)" >> "$PLACE/log"
# The count decides when the others are terminated, so the line above comes first.
echo $n > "$PLACE/count"
if [ $victim != 0 ]; then sleep 600; fi
sleep 0.02
echo "end $WHO $((n % 7)) $(date +%s%N)" >> "$PLACE/log"
exit $((n % 7))
"#;

/// Harm to a victim, by turns, and the expected exit code; `None` if the started process itself is
/// killed.
const HARMS: [(Harm, Option<i32>); 10] = [
    (Harm::KillRunner, Some(76)),
    (Harm::KillCommand, Some(137)),
    (Harm::Terminate, Some(143)),
    (Harm::KillAll, None),
    (Harm::KillRunner, Some(76)),
    (Harm::KillCommand, Some(137)),
    (Harm::Terminate, Some(143)),
    (Harm::Freeze, Some(76)),
    (Harm::KillRunner, Some(76)),
    (Harm::KillCommand, Some(137)),
];

#[derive(Clone, Copy, Debug)]
enum Harm {
    KillRunner,
    KillCommand,
    Terminate,
    /// Kills the started process and its runner, so that no process releases the lease.
    KillAll,
    /// Freezes the runner until its command is dead.
    Freeze,
}

/// Scenario of contending processes.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Path of the program.
    pub program: PathBuf,
    /// Connection string of the store.
    pub connection_string: String,
    /// Name of the election, `container/blob`.
    pub election: String,
    /// Number of concurrent contenders; each restarts when it has ended.
    pub contenders: usize,
    /// Number of acquisitions after which the scenario ends.
    pub acquisitions: usize,
    /// Every how many holders one is harmed.
    pub victims: usize,
    /// Additional options.
    pub options: Vec<String>,
}

/// Results of a scenario.
#[derive(Debug, Default)]
pub struct Results {
    /// Number of acquisitions.
    pub acquisitions: usize,
    /// Number of harmed holders.
    pub harmed: usize,
    /// Number of processes by exit code; a killed process counts under the negative signal number.
    pub codes: BTreeMap<i32, usize>,
    /// Time from the regular end of a command to the start of the next one.
    pub gaps: Spread,
    /// Duration of the scenario.
    pub elapsed: Duration,
    /// Violations.
    pub breaches: Vec<String>,
}

/// Exit of one process.
struct EndedProcess {
    contender: usize,
    /// True if it received SIGTERM, because enough acquisitions had happened.
    was_terminated: bool,
    status: ExitStatus,
    errors: String,
}

struct RunState {
    scenario: Scenario,
    folder: tempfile::TempDir,
    /// Contending processes, by contender.
    processes: Mutex<BTreeMap<usize, Pid>>,
    next: AtomicUsize,
}

impl Scenario {
    /// Runs the scenario.
    ///
    /// # Errors
    /// The program cannot be started, or does not end.
    pub async fn run(self) -> Result<Results> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("count"), "0\n")?;
        fs::write(folder.path().join("log"), "")?;
        let (processes, next_term) = (Mutex::default(), AtomicUsize::new(1));
        let (started_at, contenders) = (Instant::now(), self.contenders);
        let run_state = Arc::new(RunState { scenario: self, folder, processes, next: next_term });
        let mut contender_tasks = JoinSet::new();
        for _ in 0..contenders {
            contender_tasks.spawn(Arc::clone(&run_state).contend());
        }
        let mut ended_processes = Vec::new();
        let mut watcher_task = tokio::spawn(Arc::clone(&run_state).harm_victims());
        loop {
            tokio::select! {
                seat = contender_tasks.join_next() => match seat {
                    Some(seat) => ended_processes.extend(seat??),
                    None => break,
                },
                watched = &mut watcher_task => bail!("nobody harms any more: {watched:?}"),
            }
        }
        watcher_task.abort();
        let mut results = evaluate(&ended_processes, &run_state.lines()?)?;
        results.elapsed = started_at.elapsed();
        Ok(results)
    }
}

impl RunState {
    fn lines(&self) -> Result<Vec<Vec<String>>> {
        let log = fs::read_to_string(self.folder.path().join("log"))?;
        let complete = log.rsplit_once('\n').map_or("", |(complete, _)| complete);
        Ok(complete.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect())
    }

    fn is_done(&self) -> Result<bool> {
        let count = fs::read_to_string(self.folder.path().join("count"))?;
        Ok(count.trim().parse::<usize>().unwrap_or(0) >= self.scenario.acquisitions)
    }

    /// Runs one process after another until the scenario ends.
    async fn contend(self: Arc<Self>) -> Result<Vec<EndedProcess>> {
        let mut ended_processes = Vec::new();
        while !self.is_done()? {
            let contender = self.next.fetch_add(1, Ordering::Relaxed);
            let mut command = Command::new(&self.scenario.program);
            let folder = self.folder.path();
            command
                .arg("lock")
                .args(&self.scenario.options)
                .args(["--env", &format!("WHO={contender}")])
                .args(["--env", &format!("PLACE={}", folder.display())])
                .args(["--env", &format!("VICTIMS={}", self.scenario.victims)])
                .args([
                    &self.scenario.election,
                    "--",
                    "flock",
                    "-n",
                    "-E",
                    &TWO_AT_ONCE.to_string(),
                ])
                .arg(folder.join("referee"))
                .args(["sh", "-c", SCRIPT])
                .env("AZURE_STORAGE_CONNECTION_STRING", &self.scenario.connection_string)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .kill_on_drop(true);
            let child = command.spawn().context("cannot start a lock")?;
            let pid = child.id().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
            let pid = pid.context("it has no number")?;
            self.processes.lock().unwrap().insert(contender, pid);
            let (mut was_terminated, mut exit) = (false, std::pin::pin!(child.wait_with_output()));
            let output = loop {
                tokio::select! {
                    output = &mut exit => break output?,
                    // After enough acquisitions, the waiting processes are no longer needed.
                    () = sleep(Duration::from_millis(500)) => if self.is_done()? {
                        was_terminated = true;
                        let _ = kill_process(pid, Signal::TERM);
                    }
                }
            };
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            ended_processes.push(EndedProcess {
                contender,
                was_terminated,
                status: output.status,
                errors,
            });
        }
        Ok(ended_processes)
    }

    /// Harms each victim as soon as it holds the lock.
    async fn harm_victims(self: Arc<Self>) {
        let mut lines_seen = 0;
        loop {
            let lines = self.lines().unwrap();
            for line in &lines[lines_seen..] {
                if line[0] == "start" && line[3] != "0" {
                    let parse_column = |column: usize| line[column].parse::<usize>().unwrap();
                    let command = Pid::from_raw(parse_column(4).try_into().unwrap()).unwrap();
                    let (contender, victim) = (parse_column(1), parse_column(3));
                    let process = self.processes.lock().unwrap()[&contender];
                    self.harm(HARMS[(victim - 1) % HARMS.len()].0, process, command).await;
                }
            }
            lines_seen = lines.len();
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn harm(&self, harm: Harm, process: Pid, command: Pid) {
        let runner = runner_of(process);
        let send = |pid: Pid, signal| {
            let _ = kill_process(pid, signal);
        };
        match harm {
            Harm::KillRunner => send(runner, Signal::KILL),
            Harm::KillCommand => send(command, Signal::KILL),
            Harm::Terminate => send(process, Signal::TERM),
            Harm::KillAll => send(process, Signal::KILL),
            Harm::Freeze => {
                send(runner, Signal::STOP);
                while is_alive(command) {
                    sleep(Duration::from_millis(10)).await;
                }
                send(runner, Signal::CONT);
            }
        }
    }
}

/// Checks the order of commands in the log, and the exit codes of all processes.
fn evaluate(ended_processes: &[EndedProcess], lines: &[Vec<String>]) -> Result<Results> {
    let mut results = Results::default();
    let (mut expected, mut term, mut gaps) = (BTreeMap::new(), 0, Vec::new());
    let mut last_end: Option<u64> = None;
    for line in lines {
        let parse_column =
            |column: usize| Ok::<u64, anyhow::Error>(line.get(column).context("short")?.parse()?);
        let contender = parse_column(1)?;
        if line[0] == "end" {
            last_end = Some(parse_column(3)?);
            expected.insert(contender, i32::try_from(parse_column(2)?)?);
            continue;
        }
        let (next_term, victim, start_time) =
            (parse_column(2)?, parse_column(3)?, parse_column(5)?);
        if next_term <= term {
            results
                .breaches
                .push(format!("{contender} held it under term {next_term} after {term}"));
        }
        term = next_term;
        gaps.extend(
            last_end
                .take()
                .map(|last_end| Duration::from_nanos(start_time.saturating_sub(last_end))),
        );
        results.acquisitions += 1;
        // The code changes to the actual one when the log shows its end.
        let code = match usize::try_from(victim)? {
            0 => NOT_ENDED,
            victim => {
                results.harmed += 1;
                HARMS[(victim - 1) % HARMS.len()].1.unwrap_or(-Signal::KILL.as_raw())
            }
        };
        if expected.insert(contender, code).is_some() {
            results.breaches.push(format!("{contender} ran twice"));
        }
    }
    results.gaps = gaps.into_iter().collect();
    for EndedProcess { contender, was_terminated, status, errors } in ended_processes {
        let code = status.code().unwrap_or_else(|| -status.signal().unwrap_or_default());
        *results.codes.entry(code).or_default() += 1;
        let expected = expected.get(&(*contender as u64));
        let is_expected = match expected {
            None => code == 75,
            Some(&expected) => code == expected,
        };
        // The command may have finished just before the harm.
        let is_expected = is_expected || (*was_terminated && code == 143);
        if !is_expected {
            let breach = format!(
                "{contender} ended with {code}, not {expected:?} (none: 75; told to end: {was_terminated}): {errors}"
            );
            results.breaches.push(breach);
        }
    }
    Ok(results)
}
