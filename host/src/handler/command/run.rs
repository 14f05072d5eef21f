//! The runner's side of one run of a command: what it tells the supervisor, and what it hears.

use super::EndOrphans;
use super::attached::next_signal;
use super::outcome::RunOutcome;
use crate::lease::Lease;
use crate::lines::Lines;
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
use tenure_supervisor::{CommandExit, KILL_SLACK, Order, Program, Report, children_of, to_line, from_line, start};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::select;
use tokio::sync::{broadcast, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// When a supervisor that was told to kill says nothing for so long, the runner kills the command itself. The turn is
/// over when the supervisor says so, or is dead: it alone knows of what left the process group.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// The same before the end of the leadership, for a supervisor that stands still: half of the time
/// that is left for killing.
const KILL_MARGIN: Duration = Duration::from_millis(KILL_SLACK.as_millis() as u64 / 2);

/// How often it is looked whether a group without a supervisor is gone. There is nothing to wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How long output is still read for when nothing runs any more. Only somebody who was given the
/// stream, and is none of the command's own, holds it open for longer.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// One run of a command.
pub(super) struct Run {
    /// What is run.
    pub program: Program,
    /// All of its environment.
    pub variables: Vec<(OsString, OsString)>,
    /// The time from SIGTERM to the end of the leadership.
    pub stop_time: Duration,
    /// How long it may run.
    pub lease: Lease,
    /// When the turn's own time ends, on the clock that the supervisor reads.
    pub limit: Option<Duration>,
    /// Where its lines go.
    pub lines: [Lines; 2],
    /// The signals that are handed on to it; none: it is not attached.
    pub signals: Option<broadcast::Receiver<i32>>,
    /// Ends what left the process group when the supervisor is killed.
    pub end_orphans: Option<EndOrphans>,
}

/// What is known of a run whose supervisor is alive.
struct SupervisedCommand {
    lease: Lease,
    /// The supervisor, whose child leads the group.
    supervisor: Option<Pid>,
    /// The process group, once it is known.
    group: Option<Pid>,
    /// The end of the leadership that the supervisor knows of.
    sent_until: Duration,
    /// When the command is killed from here, unless the supervisor has said that nothing runs.
    kill_at: Option<Duration>,
    /// Whether it was killed from here because its time was nearly over.
    is_overdue: bool,
    /// The signals that are handed on to it.
    signals: Option<broadcast::Receiver<i32>>,
    /// Ends what left the process group when the supervisor is killed.
    end_orphans: Option<EndOrphans>,
}

impl Run {
    /// Runs the command to its end; `stop` completes when it is to be killed. Returns when nothing of
    /// it runs any more. When this future is dropped, with the whole runtime, the supervisor
    /// kills the command.
    pub(super) async fn supervise(self, mut stop: oneshot::Receiver<Infallible>) -> RunOutcome {
        let sent_until = self.lease.valid_until();
        let lease = self.lease;
        let (supervisor, group, kill_at) = (None, None, None);
        let (is_overdue, signals, end_orphans) = (false, self.signals, self.end_orphans);
        let is_attached = signals.is_some();
        let mut supervised =
            SupervisedCommand { lease, supervisor, group, sent_until, kill_at, is_overdue, signals, end_orphans };
        let launch = (self.program, self.variables);
        let started = start(&launch.0, &launch.1, self.stop_time, is_attached);
        // A command runs once its supervisor is told until when. Whatever fails before that, nothing runs.
        let started = started.and_then(|(supervisor, mut socket)| {
            let limit = self.limit.map(|limit| to_line(&Order::Limit(limit))).unwrap_or_default();
            let bounds = limit + &to_line(&Order::Until(on_shared_clock(&supervised.lease)));
            // A new socket has room for it.
            socket.write_all(bounds.as_bytes())?;
            Ok((supervisor, UnixStream::from_std(socket)?))
        });
        let (mut supervisor, socket) = match started {
            Ok(started) => started,
            Err(error) => return RunOutcome::NotStarted(error.to_string()),
        };
        supervised.supervisor =
            supervisor.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let [stdout, stderr] = self.lines;
        // Whoever still reads ends with it.
        let mut output = JoinSet::new();
        output.spawn(forward_lines(supervisor.stdout.take(), stdout));
        output.spawn(forward_lines(supervisor.stderr.take(), stderr));
        let outcome = match supervised.listen(socket, &mut stop).await {
            Some(outcome) => outcome,
            None => supervised.end_without_supervisor(&mut supervisor).await,
        };
        let _ = timeout(OUTPUT_TIMEOUT, async { while output.join_next().await.is_some() {} }).await;
        // It has said its last word, or was killed.
        let _ = supervisor.wait().await;
        outcome
    }
}

impl SupervisedCommand {
    /// Controls the command until the supervisor's last report. Returns none if the supervisor ends without one.
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
                    match report.ok().flatten().and_then(|line| from_line(&line)) {
                        Some(Report::Started(group)) => self.group = Pid::from_raw(group),
                        Some(Report::NotStarted(problem)) => {
                            return Some(RunOutcome::NotStarted(problem));
                        }
                        Some(Report::Gone(gone)) => {
                            let told = gone.told || self.is_overdue || is_stopping;
                            return Some(RunOutcome::Finished(CommandExit { told, ..gone }));
                        }
                        None => return None,
                    }
                }
                _ = &mut *stop, if !is_stopping => {
                    is_stopping = true;
                    self.kill_at = Some(clock.now() + RETRY_DELAY);
                    // The end of the stream is the order.
                    let _ = order_writer.shutdown().await;
                }
                () = self.lease.changed_from(until), if !is_stopping => {}
                number = next_signal(&mut self.signals), if !is_stopping => {
                    unsent.extend_from_slice(to_line(&Order::Signal(number)).as_bytes());
                }
                () = sleep_until(&clock, kill_at) => {
                    // Nobody has reaped it: the number is still its own.
                    let next_kill = (!self.kill()).then(|| clock.now() + RETRY_DELAY);
                    self.is_overdue |= !is_stopping;
                    (is_stopping, self.kill_at) = (true, next_kill);
                    let _ = order_writer.shutdown().await;
                }
                // Nobody waits for a supervisor that stands still and reads nothing: it kills at the
                // instant that it knows of.
                written = order_writer.write(&unsent), if !is_stopping && !unsent.is_empty() => {
                    let written = written.unwrap_or(unsent.len());
                    unsent.drain(..written);
                }
            }
        }
    }

    /// False: there is no group yet, and it is to be looked for again.
    fn kill(&self) -> bool {
        // The supervisor may stand still before it could tell which group it started, or has started
        // it, and its child before it leads a group.
        let unreported = || children_of(self.supervisor?).into_iter().next();
        let group = self.group.or_else(unreported);
        let killed = group.is_some_and(|group| {
            let group_killed = kill_process_group(group, Signal::KILL).is_ok();
            // The command may have left the group that has its number.
            group_killed | (is_command_alive(group) && kill_process(group, Signal::KILL).is_ok())
        });
        killed || self.group.is_some()
    }

    /// Ends a command whose supervisor dies. Another process adopts the command: this one, where it is the first one of a
    /// container, or the supervisor of `tenure run`, which also ends the processes that left the group.
    ///
    /// A supervisor that was killed between starting the command and reporting that looks like one that started nothing.
    async fn end_without_supervisor(&self, supervisor: &mut Child) -> RunOutcome {
        let outcome = match self.group {
            Some(group) => self.end_group(group).await,
            None => RunOutcome::NotStarted("the process that supervises it ended first".into()),
        };
        // A process that dies closes its files before its children get another parent. Until it is reaped, an adopter may
        // find no orphan yet.
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

/// Whether the process is there, whatever its group, and not another one that has its number by now.
fn is_command_alive(command: Pid) -> bool {
    let command = unistd::Pid::from_raw(command.as_raw_nonzero().get());
    // Zero is one from outside the container.
    getsid(Some(command)).is_ok_and(|session| Ok(session) == getsid(None))
}

async fn sleep_until(clock: &BootClock, at: Option<Duration>) {
    match at {
        Some(at) => clock.sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// The end of the leadership on the clock that the supervisor reads. Never late: the time that passes
/// between the two readings is lost.
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

#[cfg(test)]
mod tests;
