//! Runner's side of one run of a command: orders to the command supervisor, its reports, and the
//! end of the turn.

use super::EndOrphans;
use super::attached::next_signal;
use crate::handler::TurnEnd;
use crate::handler::lines::Lines;
use crate::lease::Lease;
use nix::unistd::{self, getsid};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, kill_process_group, test_kill_process_group, waitpgid,
    waitpid,
};
use std::convert::Infallible;
use std::ffi::OsString;
use std::io::Write as _;
use std::time::Duration;
use tenure_clock::{BootClock, Clock as _, shared};
use tenure_supervisor::{
    CommandExit, KILL_SLACK, Order, ProcessEnd, Program, Report, children_of, from_line,
    signal_name, start, to_line,
};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::select;
use tokio::sync::{broadcast, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Time after which the runner kills the command itself if the command supervisor does not act on
/// an order to kill. The turn ends only with that supervisor's report or death, because only it
/// knows the processes that left the process group.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Time before the deadline of the work at which the runner kills the command itself, because the
/// command supervisor may be frozen. This is half of the time reserved for killing.
const KILL_MARGIN: Duration = Duration::from_millis(KILL_SLACK.as_millis() as u64 / 2);

/// Interval between checks for a process group without a command supervisor. There is no event to
/// wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Longest time for which output is read after all processes have exited. Only an unrelated process
/// that received the stream can hold it open for longer.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// One run of a command.
pub(super) struct Run {
    pub program: Program,
    /// Complete environment of the command.
    pub variables: Vec<(OsString, OsString)>,
    /// Time from SIGTERM to the end of leadership or of the grace period, and from the time limit
    /// to SIGKILL.
    pub stop_time: Duration,
    /// Leadership under which the command runs. Its end is the deadline of the work: the earliest
    /// of the end of leadership, the time limit with overtime, and the end of the grace period.
    pub lease: Lease,
    /// End of the turn's time limit, on the clock that the command supervisor reads.
    pub limit: Option<Duration>,
    /// Sinks of the command's standard output and standard error.
    pub lines: [Lines; 2],
    /// Signals to forward. `None` if the command is not attached.
    pub signals: Option<broadcast::Receiver<i32>>,
    /// Ends the processes that left the process group if the command supervisor is killed.
    pub end_orphans: Option<EndOrphans>,
}

/// State of a run that was started.
struct SupervisedCommand {
    lease: Lease,
    /// The command supervisor, whose child leads the group.
    supervisor: Option<Pid>,
    /// Process group, once it is known.
    group: Option<Pid>,
    /// Deadline of the work that was last sent to the command supervisor.
    sent_until: Duration,
    /// Instant at which the runner kills the command, unless the command supervisor reports its end
    /// before.
    kill_at: Option<Duration>,
    /// Signals to forward.
    signals: Option<broadcast::Receiver<i32>>,
    /// Ends the processes that left the process group if the command supervisor is killed.
    end_orphans: Option<EndOrphans>,
}

impl Run {
    /// Runs the command until all its processes have exited. Kills it when `stop` completes.
    ///
    /// If this future is dropped with the whole runtime, the command supervisor kills the command.
    pub(super) async fn supervise(self, mut stop: oneshot::Receiver<Infallible>) -> RunOutcome {
        let sent_until = self.lease.valid_until();
        let lease = self.lease;
        let (supervisor, group, kill_at) = (None, None, None);
        let (signals, end_orphans) = (self.signals, self.end_orphans);
        let is_attached = signals.is_some();
        let mut supervised = SupervisedCommand {
            lease,
            supervisor,
            group,
            sent_until,
            kill_at,
            signals,
            end_orphans,
        };
        let launch = (self.program, self.variables);
        let started = start(&launch.0, &launch.1, self.stop_time, is_attached);
        let started = started.and_then(|(supervisor, socket)| {
            let mut writer = socket.try_clone()?;
            let socket = UnixStream::from_std(socket)?;
            let limit = self.limit.map(|limit| to_line(&Order::Limit(limit))).unwrap_or_default();
            let bounds = limit + &to_line(&Order::Until(on_shared_clock(&supervised.lease)));
            // The command starts once the command supervisor has received the deadline. So nothing
            // may fail after this write. It cannot block: the buffer of a new socket is empty.
            writer.write_all(bounds.as_bytes())?;
            Ok((supervisor, socket))
        });
        let (mut supervisor, socket) = match started {
            Ok(started) => started,
            Err(error) => return RunOutcome::NotStarted(error.to_string()),
        };
        supervised.supervisor =
            supervisor.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let [stdout, stderr] = self.lines;
        // Dropping the set stops the readers.
        let mut output = JoinSet::new();
        output.spawn(forward_lines(supervisor.stdout.take(), stdout));
        output.spawn(forward_lines(supervisor.stderr.take(), stderr));
        let outcome = match supervised.listen(socket, &mut stop).await {
            Some(outcome) => outcome,
            None => supervised.end_without_supervisor(&mut supervisor).await,
        };
        let _ =
            timeout(OUTPUT_TIMEOUT, async { while output.join_next().await.is_some() {} }).await;
        // The command supervisor has sent its last report, or was killed.
        let _ = supervisor.wait().await;
        outcome
    }
}

impl SupervisedCommand {
    /// Controls the command until the command supervisor's last report. Returns `None` if that
    /// supervisor has ended without a last report.
    async fn listen(
        &mut self,
        socket: UnixStream,
        stop: &mut oneshot::Receiver<Infallible>,
    ) -> Option<RunOutcome> {
        let clock = BootClock::new();
        let (reports, mut order_writer) = socket.into_split();
        let mut reports = BufReader::new(reports).lines();
        let mut unsent = Vec::new();
        let mut is_stopping = false;
        loop {
            let until = self.lease.valid_until();
            if until != self.sent_until && unsent.is_empty() {
                self.sent_until = until;
                unsent = to_line(&Order::Until(on_shared_clock(&self.lease))).into_bytes();
            }
            let kill_at = match is_stopping {
                true => self.kill_at,
                false => Some(clock.now() + self.lease.remaining().saturating_sub(KILL_MARGIN)),
            };
            select! {
                biased;
                report = reports.next_line() => {
                    let Ok(Some(line)) = report else { return None };
                    match from_line(&line) {
                        Some(Report::Started(group)) => self.group = Pid::from_raw(group),
                        Some(Report::NotStarted(problem)) => {
                            return Some(RunOutcome::NotStarted(problem));
                        }
                        Some(Report::Gone(gone)) => {
                            let stopped = gone.stopped || is_stopping;
                            return Some(RunOutcome::Finished(CommandExit { stopped, ..gone }));
                        }
                        // The command supervisor may have died while writing. Its end follows then.
                        None => {}
                    }
                }
                _ = &mut *stop, if !is_stopping => {
                    is_stopping = true;
                    self.kill_at = Some(clock.now() + RETRY_DELAY);
                    // The end of the stream is the order to stop.
                    let _ = order_writer.shutdown().await;
                }
                () = self.lease.changed_from(until), if !is_stopping => {}
                number = next_signal(&mut self.signals), if !is_stopping => {
                    unsent.extend_from_slice(to_line(&Order::Signal(number)).as_bytes());
                }
                () = sleep_until(&clock, kill_at) => {
                    // The command supervisor was not reaped, so its process id is still valid.
                    let next_kill = (!self.kill()).then(|| clock.now() + RETRY_DELAY);
                    (is_stopping, self.kill_at) = (true, next_kill);
                    let _ = order_writer.shutdown().await;
                }
                // A frozen command supervisor reads nothing: this write then stays pending, and the
                // other branches still run. When it resumes, it kills at the last deadline that it
                // received.
                written = order_writer.write(&unsent), if !is_stopping && !unsent.is_empty() => {
                    let written = written.unwrap_or(unsent.len());
                    unsent.drain(..written);
                }
            }
        }
    }

    /// Kills the command. Returns false if its group is not known yet; the caller then retries.
    fn kill(&self) -> bool {
        // The command supervisor may freeze before it reports the group, or before its child
        // becomes the leader of a group.
        let unreported = || children_of(self.supervisor?).into_iter().next();
        let group = self.group.or_else(unreported);
        let killed = group.is_some_and(|group| {
            let group_killed = kill_process_group(group, Signal::KILL).is_ok();
            // The command may have left the group that has its number.
            group_killed | (is_command_alive(group) && kill_process(group, Signal::KILL).is_ok())
        });
        killed || self.group.is_some()
    }

    /// Ends a command after the death of the command supervisor.
    ///
    /// Another process adopts the command: this process if it is the init process of a container,
    /// or the runner's supervisor, otherwise the system's init. The runner's supervisor also ends
    /// the processes that left the group.
    ///
    /// A command supervisor that was killed between starting the command and reporting it looks
    /// like one that started nothing.
    async fn end_without_supervisor(&self, supervisor: &mut Child) -> RunOutcome {
        let outcome = match self.group {
            Some(group) => self.end_group(group).await,
            None => RunOutcome::NotStarted("the process that supervises it ended first".into()),
        };
        // A dying process closes its files before its children get another parent. Until it is
        // reaped, the adopter may find no orphan yet.
        let _ = supervisor.wait().await;
        if let Some(end_orphans) = &self.end_orphans {
            end_orphans().await;
        }
        outcome
    }

    async fn end_group(&self, group: Pid) -> RunOutcome {
        loop {
            self.kill();
            while let Ok(Some(_)) = waitpgid(group, WaitOptions::NOHANG) {}
            let _ = waitpid(Some(group), WaitOptions::NOHANG);
            if test_kill_process_group(group) == Err(Errno::SRCH) && !is_command_alive(group) {
                return RunOutcome::SupervisorKilled;
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}

/// Returns true if a process with the command's id is in the session of this process, in any group.
/// A command that started its own session counts as dead.
///
/// An unrelated process that reuses the id is usually in another session, and does not count. A
/// command of another turn of this process is in the same session, so it would be killed.
fn is_command_alive(command: Pid) -> bool {
    let command = unistd::Pid::from_raw(command.as_raw_nonzero().get());
    // Uses `nix`, because `rustix` cannot represent the session 0. This process and its command
    // both have that session if theirs was created outside the container.
    getsid(Some(command)).is_ok_and(|session| Ok(session) == getsid(None))
}

async fn sleep_until(clock: &BootClock, at: Option<Duration>) {
    match at {
        Some(at) => clock.sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Returns the deadline of the work on the clock that the command supervisor reads. It may be early
/// by the time between the two clock reads, but never late.
fn on_shared_clock(lease: &Lease) -> Duration {
    let now = shared::now();
    match lease.remaining() {
        Duration::ZERO => Duration::ZERO,
        left => now.saturating_add(left),
    }
}

async fn forward_lines(stream: Option<impl AsyncRead + Unpin>, mut lines: Lines) {
    let Some(mut stream) = stream else { return };
    let mut bytes = vec![0; 8192];
    while let Ok(read @ 1..) = stream.read(&mut bytes).await {
        lines.write(&bytes[..read]);
    }
}

/// Outcome of a run of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RunOutcome {
    /// The command could not be started, for this reason.
    NotStarted(String),
    /// The command ran, and all its processes have exited.
    Finished(CommandExit),
    /// The command supervisor was killed, and the command was then killed too.
    SupervisorKilled,
}

/// Returns the end of the turn. `last_line` is the last line that the command wrote to standard
/// error.
pub(super) fn turn_end(outcome: RunOutcome, last_line: &str) -> TurnEnd {
    let failed = |description: String| match last_line.trim() {
        "" => TurnEnd::Failed(description),
        text => TurnEnd::failed(format!("{description}: {text}")),
    };
    match outcome {
        RunOutcome::NotStarted(problem) => {
            TurnEnd::trapped(format!("the command could not be started: {problem}"))
        }
        RunOutcome::SupervisorKilled => TurnEnd::Trapped(
            "the command was killed, because the process that supervises it was killed".into(),
        ),
        // Many programs exit with 0 on SIGTERM even if they have not finished.
        RunOutcome::Finished(CommandExit { timed_out: true, .. }) => TurnEnd::TimedOut,
        RunOutcome::Finished(
            CommandExit { stopped: true, .. } | CommandExit { ended: None, .. },
        ) => TurnEnd::CutOff,
        RunOutcome::Finished(CommandExit { ended: Some(ProcessEnd::Exit(0)), .. }) => {
            TurnEnd::Succeeded
        }
        RunOutcome::Finished(CommandExit { ended: Some(ProcessEnd::Exit(code)), .. }) => {
            failed(format!("exit code {code}"))
        }
        RunOutcome::Finished(CommandExit { ended: Some(ProcessEnd::Signal(number)), .. }) => {
            failed(format!("killed by {}", signal_name(number)))
        }
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod outcome_tests {
    use super::*;

    fn end(ended: Option<ProcessEnd>, stopped: bool, last_line: &str) -> TurnEnd {
        turn_end(RunOutcome::Finished(CommandExit { ended, stopped, timed_out: false }), last_line)
    }

    #[test]
    fn exit_codes_and_signals_determine_the_turn_end() {
        let failed = |text: &str| TurnEnd::Failed(text.to_owned());
        assert_eq!(end(Some(ProcessEnd::Exit(0)), false, "warning"), TurnEnd::Succeeded);
        assert_eq!(end(Some(ProcessEnd::Exit(3)), false, ""), failed("exit code 3"));
        assert_eq!(
            end(Some(ProcessEnd::Exit(3)), false, "no disk "),
            failed("exit code 3: no disk")
        );
        assert_eq!(end(Some(ProcessEnd::Signal(9)), false, ""), failed("killed by SIGKILL"));
        assert_eq!(end(Some(ProcessEnd::Signal(60)), false, "x"), failed("killed by signal 60: x"));
    }

    #[test]
    fn a_stopped_command_did_not_succeed() {
        for ended in [Some(ProcessEnd::Exit(0)), Some(ProcessEnd::Signal(15)), None] {
            assert_eq!(end(ended, true, "terminated"), TurnEnd::CutOff);
            let gone = CommandExit { ended, stopped: true, timed_out: true };
            assert_eq!(turn_end(RunOutcome::Finished(gone), "terminated"), TurnEnd::TimedOut);
        }
        assert_eq!(end(None, false, ""), TurnEnd::CutOff);
    }

    #[test]
    fn a_start_failure_is_reported_with_a_bounded_reason() {
        let end = |outcome| turn_end(outcome, "");
        let TurnEnd::Trapped(text) = end(RunOutcome::NotStarted("x".repeat(9_999))) else {
            panic!()
        };
        assert!(text.starts_with("the command could not be started: x"), "{text}");
        assert!(text.len() < 5_000);
        assert!(matches!(end(RunOutcome::SupervisorKilled), TurnEnd::Trapped(_)));
    }
}
